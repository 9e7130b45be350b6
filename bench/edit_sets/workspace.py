"""A copy of a package in a temporary folder, with one file edited."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.edit_sets.errors import BadSet
from bench.edit_sets.packages import unpacked
from bench.edit_sets.schema import Build, Check, Package, Subject, Task

__all__ = ["Workspace", "laid_out", "original"]


@dataclass(frozen=True)
class Workspace:
    folder: Path
    """Temporary; what compilers write goes here."""
    package: Subject
    task: Task
    build: Build

    @property
    def root(self) -> Path:
        """The contents of the archive."""
        return self.folder / "package"

    @property
    def needs(self) -> Path:
        """Python packages that the edited one imports."""
        return self.folder / "needs"

    @property
    def file(self) -> Path:
        return self.root / self.task.file

    @property
    def inside(self) -> bool:
        return self.task.check is not None and self.task.check.inside

    def text(self) -> str:
        return read_text(self.file)


def original(package: Subject, task: Task) -> str:
    """The file as the archive has it."""
    path = unpacked(package) / task.file
    if not path.is_file():
        raise BadSet(f"task {task.id}: file: the archive has no {task.file}")
    try:
        return read_text(path)
    except UnicodeDecodeError as error:
        raise BadSet(f"task {task.id}: file: {task.file} is not UTF-8") from error


def read_text(path: Path) -> str:
    """As it is: line ends are part of what may not change."""
    return path.read_bytes().decode("utf-8")


@contextmanager
def laid_out(package: Subject, task: Task, text: str) -> Iterator[Workspace]:
    build = package.build
    if isinstance(task.check, Check) and task.check.build is not None:
        build = task.check.build
    # Resolved, for compilers and interpreters name files by where they really are.
    with tempfile.TemporaryDirectory(prefix="edit-sets-") as name:
        work = Workspace(Path(name).resolve(), package, task, build)
        shutil.copytree(unpacked(package), work.root)
        for need in package.needs:
            _add(need, package, work)
        for path, content in build.files.items():
            target = work.root / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(content, "utf-8")
        work.file.chmod(0o644)
        work.file.write_bytes(text.encode())
        yield work


def _add(need: Package, package: Package, work: Workspace) -> None:
    source, target = unpacked(need), work.root
    if need.registry == "pypi":
        target = work.needs
    elif need.registry == "npm":
        [source] = [path for path in source.iterdir() if path.is_dir()]
        top = Path(work.task.file).parts[0] if package.registry == "npm" else ""
        target = work.root / top / "node_modules" / need.name
    shutil.copytree(source, target, dirs_exist_ok=True)

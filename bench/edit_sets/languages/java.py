"""Java: the program is a class EditCheck in the package of the file.

What the file uses is compiled once and kept, for a small file may need half of its package.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

from bench.edit_sets.packages import cache
from bench.edit_sets.running import COMPILE_SECONDS, RUN_SECONDS, execute, tool
from bench.edit_sets.workspace import Workspace, original

__all__ = ["builds", "run"]

_QUICK = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx512m")
_PACKAGE = re.compile(r"^\s*package\s+([\w.]+)\s*;", re.MULTILINE)


def builds(work: Workspace) -> str | None:
    return _untouched(work) or _javac(work, _classes(work), work.file, *_users(work))


def run(work: Workspace, program: str) -> str | None:
    package = _package(work)
    beside = work.file.with_name("EditCheck.java")
    beside.write_text(f"package {package}; {program}\n" if package else program, "utf-8")
    failed = None if _classes(work).is_dir() else builds(work)
    failed = failed or _javac(work, _classes(work), beside)
    beside.unlink()
    if failed:
        return failed
    name = f"{package}.EditCheck" if package else "EditCheck"
    command = [tool("java"), *_QUICK, "-ea", "-cp", _class_path(work), name]
    return execute(command, work.folder, RUN_SECONDS)


def _untouched(work: Workspace) -> str | None:
    """Compiles the untouched file and all it uses, once; says what is wrong with it."""
    folder = _untouched_folder(work)
    if folder.is_dir():
        return None
    text, part = work.text(), work.folder / "untouched"
    work.file.write_bytes(original(work.package, work.task).encode())
    failed = _javac(work, part, work.file)
    work.file.write_bytes(text.encode())
    if failed is None:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as beside:
            copy = shutil.copytree(part, Path(beside) / "classes")
            with suppress(OSError):  # somebody else was first
                copy.rename(folder)
    return failed


def _untouched_folder(work: Workspace) -> Path:
    told = repr((work.package.sha256, work.package.needs, work.task.file, work.build))
    return cache() / "java" / hashlib.sha256(told.encode()).hexdigest()


def _users(work: Workspace) -> list[Path]:
    """The compiled files that speak of the edited one: an edit can break them."""
    word = re.compile(rf"\b{re.escape(work.file.stem)}\b")
    classes, sources = _untouched_folder(work), _source_root(work)
    compiled = (path.relative_to(classes) for path in sorted(classes.rglob("*.class")))
    files = (sources / path.with_suffix(".java") for path in compiled if "$" not in path.name)
    return [
        file
        for file in files
        if file != work.file and file.is_file() and word.search(file.read_text("utf-8", "replace"))
    ]


def _javac(work: Workspace, target: Path, *files: Path) -> str | None:
    folders = [_source_root(work), *(work.root / path for path in work.build.include)]
    command = [
        tool("javac"),
        *(f"-J{flag}" for flag in _QUICK),
        "-proc:none",
        "-nowarn",
        "-encoding",
        "UTF-8",
        "-d",
        str(target),
    ]
    command += ["-Xprefer:newer", "-sourcepath", ":".join(map(str, folders))]
    command += ["-cp", _class_path(work), *work.build.flags, *map(str, files)]
    return execute(command, work.folder, COMPILE_SECONDS)


def _classes(work: Workspace) -> Path:
    return work.folder / "classes"


def _class_path(work: Workspace) -> str:
    jars = sorted(str(path) for path in work.root.rglob("*.jar"))
    return ":".join([str(_classes(work)), str(_untouched_folder(work)), *jars])


def _package(work: Workspace) -> str:
    named = _PACKAGE.search(work.text())
    return named[1] if named else ""


def _source_root(work: Workspace) -> Path:
    """The folder that the names of packages are counted from."""
    if work.build.root is not None:
        return work.root / work.build.root
    folder = work.file.parent
    for _ in filter(None, _package(work).split(".")):
        folder = folder.parent
    return folder

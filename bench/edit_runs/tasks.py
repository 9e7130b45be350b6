"""Edit tasks on real packages, as a run sees them."""

from __future__ import annotations

import shlex
import shutil
import sys
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from bench.edit_sets import BadSet, EditSet, NoPackage, Subject, Verdict, judge, original, read_all
from bench.edit_sets import schema as sets
from bench.edit_sets.diffs import apply
from bench.edit_sets.languages import missing
from bench.edit_sets.packages import unpacked
from bench.edit_sets.schema import Expect, Language
from bench.edit_sets.seal import open_sealed

__all__ = ["PackageTask", "Task", "chosen", "evenly", "tasks_of", "why_skipped"]

_ROOT = Path(__file__).parents[2]
_SETS = _ROOT / "bench/edit_sets"


@dataclass(frozen=True, kw_only=True)
class Task(ABC):
    """One request to change one file, and what tells whether it was done."""

    id: str
    set: str
    language: Language
    kinds: tuple[str, ...]
    path: str
    """Inside the workspace."""
    instruction: str
    expect: Expect = "edit"
    selection: tuple[int, int] | None = None
    """The first and the last selected line, counted from 1."""
    cursor: tuple[int, int] | None = None
    """Line and column, counted from 1."""
    check: str | None = None
    """A command that the person could hand over with the request; it runs in the workspace."""

    @property
    @abstractmethod
    def text(self) -> str:
        """The file as it is."""

    @property
    @abstractmethod
    def reference(self) -> str | None:
        """The file after a right edit; None where no edit is right."""

    @abstractmethod
    def judge(self, text: str) -> Verdict:
        """What this text of the file is, as an answer."""

    @abstractmethod
    def lay_out(self, folder: Path) -> None:
        """Make the folder, with all that the person would have there."""


@dataclass(frozen=True, kw_only=True)
class PackageTask(Task):
    package: Subject
    asked: sets.Task

    @classmethod
    def all_of(cls, name: str, edits: EditSet) -> Iterator[PackageTask]:
        for task in edits.tasks:
            yield cls(
                id=task.id,
                set=name,
                language=task.language,
                kinds=task.kinds,
                path=task.file,
                instruction=task.instruction.strip(),
                expect=task.expect,
                selection=task.selection,
                cursor=task.cursor,
                check=None if task.visible is None else _visible(edits.path, task),
                package=edits.package,
                asked=task,
            )

    @cached_property
    def text(self) -> str:
        return original(self.package, self.asked)

    @cached_property
    def reference(self) -> str | None:
        return None if self.asked.reference is None else apply(self.asked.reference, self.text)

    def judge(self, text: str) -> Verdict:
        return judge(self.package, self.asked, text)

    def lay_out(self, folder: Path) -> None:
        shutil.copytree(unpacked(self.package), folder)
        (folder / self.path).chmod(0o644)


def _visible(path: Path, task: sets.Task) -> str:
    """Tries the file as it stands in the current folder. With -P that folder holds nothing that
    the program itself would import: the package may be called like one it needs."""
    python = ["env", f"PYTHONPATH={_ROOT}", sys.executable, "-P", "-m", "bench.edit_sets"]
    return shlex.join([*python, "visible", str(path.absolute()), task.id, task.file])


# -- which of them --------------------------------------------------------------------------------


@contextmanager
def tasks_of(name: str, *, open_held_out: bool = False) -> Iterator[list[Task]]:
    """``tuning``, ``everyday``, ``everyday-fresh``, ``everyday-third``, ``held-out``, or folders of
    TOML files with commas between them."""
    if name == "held-out":
        if not open_held_out:
            raise BadSet("The held-out set is opened once, at the end: say --open-held-out.")
        with tempfile.TemporaryDirectory() as folder:
            sha256 = (_SETS / "held_out.sha256").read_text().split()[0]
            open_sealed(_SETS / "held_out.sealed", sha256, Path(folder))
            yield _read(name, [Path(folder)])
    elif name in ("tuning", "everyday", "everyday-fresh", "everyday-third"):
        yield _read(name, [_SETS / name.replace("-", "_")])
    else:
        yield _read(name, [Path(each) for each in name.split(",")])


def _read(name: str, folders: Sequence[Path]) -> list[Task]:
    return [task for edits in read_all(folders) for task in PackageTask.all_of(name, edits)]


def chosen(tasks: Sequence[Task], count: int, only: str) -> list[Task]:
    """Those with these ids, or so many of all, evenly spread over the languages; 0 means all."""
    if only:
        known = {task.id: task for task in tasks}
        if unknown := [each for each in only.split(",") if each not in known]:
            raise BadSet(f"The set has no task {unknown[0]}.")
        return [known[each] for each in only.split(",")]
    return evenly(sorted(tasks, key=lambda task: (task.language, task.expect)), count)


def evenly(tasks: Sequence[Task], count: int) -> list[Task]:
    count = min(count, len(tasks)) or len(tasks)
    return [tasks[number * len(tasks) // count] for number in range(count)]


def why_skipped(task: Task) -> str | None:
    """Why a task cannot be judged on this machine, or None."""
    if (lacking := missing(task.language)) is not None:
        return lacking
    try:
        return None if task.text else f"{task.path} is empty"
    except NoPackage as error:
        return str(error)

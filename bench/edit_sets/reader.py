"""Reads files of edit tasks, strictly: an error names the file, the task and the field."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

import msgspec

from bench.edit_sets.errors import BadSet
from bench.edit_sets.schema import Part, Subject, Task

__all__ = ["EditSet", "part", "read", "read_all"]

_ID = re.compile(r"[a-z0-9][a-z0-9-]*")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_STOPS = {"ask back", "does not exist", "already so", "elsewhere"}
_PLACES = {"one place", "several places"}
LEAST_WRONG = 2

T = TypeVar("T")


@dataclass(frozen=True)
class EditSet:
    """One file: a package and its tasks."""

    path: Path
    package: Subject
    tasks: tuple[Task, ...]


def read_all(paths: Iterable[Path]) -> list[EditSet]:
    """Files, or folders of them; an id stands in one of them only."""
    files: list[Path] = []
    for path in paths:
        files += sorted(path.glob("*.toml")) if path.is_dir() else [path]
    if not files:
        raise BadSet("there is no TOML file of tasks")
    sets = [read(file) for file in files]
    seen: dict[str, Path] = {}
    for each in sets:
        for task in each.tasks:
            if task.id in seen:
                raise BadSet(f"{each.path}: task {task.id}: id stands in {seen[task.id]} too")
            seen[task.id] = each.path
    return sets


def read(path: Path) -> EditSet:
    raw = _parsed(path)
    package = _convert(f"{path}: package", raw.get("package", {}), Subject)
    _refuse(f"{path}: package", _package_faults(package))
    return EditSet(path, package, _tasks(path, raw))


def part(given: str | Part) -> Part:
    """A program alone may be written as a string."""
    return Part(program=given) if isinstance(given, str) else given


def _parsed(path: Path) -> dict[str, Any]:
    """Return the tables of a file: its format, its tasks, and the package they are about."""
    try:
        raw = tomllib.loads(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise BadSet(f"{path}: cannot be read: {error}") from error
    if unknown := set(raw) - {"format", "package", "task"}:
        raise BadSet(f"{path}: unknown at the top: {', '.join(sorted(unknown))}")
    if raw.get("format") != 1:
        raise BadSet(f"{path}: format: must be 1")
    return raw


def _tasks(path: Path, raw: dict[str, Any]) -> tuple[Task, ...]:
    tasks = []
    for number, row in enumerate(raw.get("task", []), 1):
        where = f"{path}: task {row.get('id', f'number {number}')}"
        task = _convert(where, row, Task)
        _refuse(where, _task_faults(task))
        tasks.append(task)
    if not tasks:
        raise BadSet(f"{path}: has no [[task]]")
    return tuple(tasks)


def _convert(where: str, raw: Any, kind: type[T]) -> T:
    try:
        return msgspec.convert(raw, kind)
    except msgspec.ValidationError as error:
        raise BadSet(f"{where}: {str(error).replace('`$.', '`')}") from error


def _refuse(where: str, faults: Iterator[str]) -> None:
    for fault in faults:
        raise BadSet(f"{where}: {fault}")


def _package_faults(package: Subject) -> Iterator[str]:
    for each in (package, *package.needs):
        if not _SHA256.fullmatch(each.sha256):
            yield f"sha256: 64 small hexadecimal digits, not {each.sha256!r}"
        if "/" in each.archive or not each.archive:
            yield f"archive: the name of a file, not {each.archive!r}"
    if not _inside(package.licence_file):
        yield f"licence_file: a path inside the archive, not {package.licence_file!r}"
    for name in package.build.files:
        if not _inside(name):
            yield f"build.files: a path inside the archive, not {name!r}"


def _task_faults(task: Task) -> Iterator[str]:
    if not _ID.fullmatch(task.id):
        yield f"id: small letters, digits and hyphens, not {task.id!r}"
    if not _inside(task.file):
        yield f"file: a path inside the archive, not {task.file!r}"
    if not task.instruction.strip():
        yield "instruction: is empty"
    if task.selection and not 1 <= task.selection[0] <= task.selection[1]:
        yield "selection: [first, last] line, counted from 1"
    if task.selection and task.cursor:
        yield "cursor: not together with a selection"
    if task.cursor and min(task.cursor) < 1:
        yield "cursor: [line, column], counted from 1"
    yield from _edit_faults(task) if task.expect == "edit" else _stop_faults(task)


def _edit_faults(task: Task) -> Iterator[str]:
    if len(_PLACES & set(task.kinds)) != 1:
        yield 'kinds: an edit has either "one place" or "several places"'
    if stops := _STOPS & set(task.kinds):
        yield f'kinds: {", ".join(sorted(stops))}: only with expect = "stop"'
    if task.reference is None:
        yield "reference: missing"
    if len(task.wrong) < LEAST_WRONG:
        yield f"wrong: at least {LEAST_WRONG} plausible wrong edits, not {len(task.wrong)}"
    if task.check is None:
        yield "check: missing"
        return
    for name, given in (("done", task.check.done), ("kept", task.check.kept)):
        yield from (f"check.{name}{fault}" for fault in _part_faults(task, part(given)))
    if task.visible is not None:
        yield from (f"visible: {fault}" for fault in _program_faults(task, task.visible))


def _stop_faults(task: Task) -> Iterator[str]:
    if not _STOPS & set(task.kinds):
        yield f"kinds: says why to stop: one of {', '.join(sorted(_STOPS))}"
    if places := _PLACES & set(task.kinds):
        yield f'kinds: {", ".join(places)}: only with expect = "edit"'
    if not task.why:
        yield 'why: with expect = "stop", one sentence: why nobody could know, or what is missing'
    if any((task.reference, task.also_right, task.check, task.visible)):
        yield 'reference, check, visible: not with expect = "stop": right is the untouched file'
    if any(wrong.tag != "damage" for wrong in task.wrong):
        yield 'wrong: with expect = "stop" every edit is damage'


def _part_faults(task: Task, asked: Part) -> Iterator[str]:
    if not (asked.program or asked.has or asked.lacks or asked.look):
        yield ": asks nothing; give program, has, lacks or look"
    yield from (f": {fault}" for fault in _pattern_faults(*asked.has, *asked.lacks))
    if asked.program is not None:
        yield from (f".program: {fault}" for fault in _program_faults(task, asked.program))


def _program_faults(task: Task, program: str) -> Iterator[str]:
    if task.language == "go" and "func TestCheck" not in program:
        yield "a Go program is tests whose names begin with TestCheck"
    if task.language == "java" and "class EditCheck" not in program:
        yield "a Java program is a class EditCheck with a main"
    if task.language in {"c", "cpp"} and "main" not in program:
        yield "has no main"


def _pattern_faults(*patterns: str) -> Iterator[str]:
    for pattern in patterns:
        try:
            re.compile(pattern)
        except re.error as error:
            yield f"{pattern!r} is no regular expression: {error}"


def _inside(path: str) -> bool:
    parts = PurePosixPath(path).parts
    return bool(parts) and not path.startswith("/") and ".." not in parts

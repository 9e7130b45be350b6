"""Reads the projects and their bugs, strictly: an error names the file and the field."""

from __future__ import annotations

import subprocess
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

__all__ = ["PROJECTS", "BadSet", "Language", "Task", "read"]

PROJECTS = Path(__file__).parent / "projects"
Language = Literal["python", "javascript", "c", "rust", "go"]
_Text = Annotated[str, Meta(min_length=1)]


class BadSet(Exception):
    """A project is not as FORMAT.md says; the message names the file and the field."""


class _Hidden(Struct, frozen=True, forbid_unknown_fields=True):
    command: _Text
    files: dict[str, str]


class _Bug(Struct, frozen=True, forbid_unknown_fields=True):
    id: _Text
    file: _Text
    old: _Text
    new: str


class _Project(Struct, frozen=True, forbid_unknown_fields=True):
    language: Language
    command: _Text
    files: dict[str, str]
    hidden: _Hidden
    bug: Annotated[tuple[_Bug, ...], Meta(min_length=1)]


@dataclass(frozen=True)
class Task:
    """One bug in its project."""

    id: str
    language: Language
    command: str
    file: str
    """The one that has the bug."""
    right: Mapping[str, str]
    wrong: Mapping[str, str]
    """The project's files without the bug, and with it."""
    hidden_command: str
    hidden_files: Mapping[str, str]

    def lay_out(self, folder: Path, *, bug: bool = True) -> None:
        """The project as a person would have it: in git, committed."""
        write(folder, self.wrong if bug else self.right)
        for arguments in (
            ["init", "--quiet"],
            ["add", "--all"],
            ["-c", "user.name=Ada", "-c", "user.email=ada@example.com", "commit", "-qm", "First"],
        ):
            subprocess.run(["git", "-C", str(folder), *arguments], check=True, capture_output=True)


def write(folder: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")


def read(folder: Path = PROJECTS) -> list[Task]:
    tasks: dict[str, Task] = {}
    for path in sorted(folder.glob("*.toml")):
        for task in _tasks(path):
            if task.id in tasks:
                raise BadSet(f"{path}: the id {task.id} stands there twice")
            tasks[task.id] = task
    if not tasks:
        raise BadSet(f"{folder}: there is no TOML file of a project")
    return list(tasks.values())


def _tasks(path: Path) -> Iterator[Task]:
    try:
        project = msgspec.convert(tomllib.loads(path.read_text("utf-8")), _Project)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise BadSet(f"{path}: cannot be read: {error}") from error
    except msgspec.ValidationError as error:
        raise BadSet(f"{path}: {error}") from error
    files = {name: text.removeprefix("\n") for name, text in project.files.items()}
    for bug in project.bug:
        if bug.file not in files:
            raise BadSet(f"{path}: {bug.id}: there is no file {bug.file}")
        if files[bug.file].count(bug.old) != 1:
            raise BadSet(f"{path}: {bug.id}: old does not stand in {bug.file} once")
        wrong = files | {bug.file: files[bug.file].replace(bug.old, bug.new)}
        yield Task(
            bug.id,
            project.language,
            project.command,
            bug.file,
            files,
            wrong,
            project.hidden.command,
            {name: text.removeprefix("\n") for name, text in project.hidden.files.items()},
        )

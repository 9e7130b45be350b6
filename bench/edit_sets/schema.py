"""What stands in a TOML file of edit tasks: one package of real code, and tasks on its files.

FORMAT.md explains the same to the people who write them.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

__all__ = [
    "Build",
    "Check",
    "Expect",
    "Kind",
    "Language",
    "Package",
    "Part",
    "Registry",
    "Subject",
    "Tag",
    "Task",
    "Wrong",
]

Registry = Literal["pypi", "npm", "debian"]
Language = Literal["python", "typescript", "javascript", "c", "cpp", "go", "rust", "java"]
Expect = Literal["edit", "stop"]
Tag = Literal["wrong", "damage"]
Kind = Literal[
    # how many places change
    "one place",
    "several places",
    # how it is said
    "vague",
    "misspelt",
    "terse",
    "chatty",
    "error pasted",
    "not English",
    # what is to be done
    "add",
    "change",
    "fix",
    "remove",
    "rename",
    "restructure",
    "document",
    # why to stop
    "ask back",
    "does not exist",
    "already so",
    "elsewhere",
]


class Strict(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A misspelt field is refused, not ignored."""


class Package(Strict, frozen=True):
    """An archive as its registry has it; what differs from the hash is refused."""

    registry: Registry
    name: str
    version: str
    archive: str
    sha256: str


class Build(Strict, frozen=True):
    """What a compiler must be told; folders and files are paths inside the archive."""

    root: str | None = None
    include: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    features: tuple[str, ...] | None = None
    files: dict[str, str] = {}


class Subject(Package, frozen=True):
    """The package whose files are edited."""

    licence: str
    licence_file: str
    needs: tuple[Package, ...] = ()
    build: Build = Build()


class Part(Strict, frozen=True):
    """One question to the edited file; all that is given must hold."""

    program: str | None = None
    has: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()
    look: str | None = None


class Check(Strict, frozen=True):
    done: str | Part
    kept: str | Part
    may_touch: tuple[str, ...] = ()
    inside: bool = False
    build: Build | None = None


class Wrong(Strict, frozen=True):
    """An edit that people or models would plausibly make, and that is not right."""

    tag: Tag
    diff: str
    note: str = ""


class Task(Strict, frozen=True):
    id: str
    file: str
    language: Language
    instruction: str
    kinds: tuple[Kind, ...]
    expect: Expect
    selection: tuple[int, int] | None = None
    cursor: tuple[int, int] | None = None
    wrong: tuple[Wrong, ...] = ()
    """Answers that are not right."""
    why: str | None = None
    reference: str | None = None
    also_right: tuple[str, ...] = ()
    check: Check | None = None
    visible: str | None = None

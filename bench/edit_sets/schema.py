"""What stands in a TOML file of edit tasks: one package of real code, and tasks on its files.

FORMAT.md explains the same to the people who write them. ``OldTask`` is for the older tasks on
files of our own (bench/edit_tasks), whose verdicts must stay what they were; no new ones are
written like this.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct, field

__all__ = [
    "Additions",
    "Build",
    "Check",
    "Expect",
    "Kind",
    "Language",
    "Look",
    "OldCheck",
    "OldTask",
    "Package",
    "Part",
    "Registry",
    "Request",
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


class Request(Strict, frozen=True):
    """What every task has: what is asked of which file, and answers that are not right."""

    id: str
    file: str
    language: Language
    instruction: str
    selection: tuple[int, int] | None = None
    wrong: tuple[Wrong, ...] = ()


class Task(Request, frozen=True, kw_only=True):
    kinds: tuple[Kind, ...]
    expect: Expect
    cursor: tuple[int, int] | None = None
    why: str | None = None
    reference: str | None = None
    also_right: tuple[str, ...] = ()
    check: Check | None = None
    visible: str | None = None


# -- the older tasks ------------------------------------------------------------------------------

Additions = Literal["nothing", "imports", "anything"]
"""What may be added between the definitions of the file."""


class Look(Strict, frozen=True):
    """Questions about one definition, ``Class.method`` or plain; all that is given must hold."""

    within: str = field(name="in")
    has: str | None = None
    """A regular expression, searched in its code; comments do not count."""
    lacks: str | None = None
    has_node: str | None = None
    """The type of a node in its syntax tree."""
    lacks_nodes: tuple[str, ...] = ()
    documented: tuple[str, ...] = ()
    """A comment stands directly before it, and holds one of these words."""


class OldCheck(Strict, frozen=True):
    may_change: tuple[str, ...]
    """Definitions by their names, or lines of the untouched file: ``"120-140"``."""
    additions: Additions = "nothing"
    gone: tuple[str, ...] = ()
    """Names that are used nowhere any more."""
    looks: tuple[Look, ...] = ()
    program: str | None = None
    """Statements that run behind the file, with its names."""
    prelude: str = ""
    """Comes ahead of the file; C and C++ only."""


class OldTask(Request, frozen=True, kw_only=True):
    kind: str
    reference: str
    check: OldCheck

"""From the hunks a person accepted to their files: all of them, or none."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from vivace.desk.targets import Target
from vivace.edits.placing.region import Selection
from vivace.edits.rebase import Conflict, rebase
from vivace.errors import EditError
from vivace.syntax.finding import Finding
from vivace.syntax.hunk import Hunk, apply
from vivace.workspace.document import read
from vivace.workspace.errors import FileChanged
from vivace.workspace.journal import Change, Journal
from vivace.workspace.write import discard, stage, temporary_name

__all__ = [
    "Accepted",
    "EditConflict",
    "Journaled",
    "Writer",
    "Written",
    "shown",
    "standing",
    "try_to_write",
    "write_all",
]

_TRIES = 3


class EditConflict(EditError):
    """The file was changed meanwhile, in the lines that the edit is about."""


@dataclass(frozen=True)
class Accepted:
    """Hunks for a file as it was read."""

    target: Target
    hunks: tuple[Hunk, ...]
    doubts: tuple[Finding, ...] = ()
    """What speaks against them, while they are offered."""


@dataclass(frozen=True)
class Written:
    path: str
    added: int
    removed: int
    rebased: bool
    """Whether the file had changed meanwhile, and the edit was carried over."""
    lines: tuple[Selection, ...] = ()
    """Where what was put in stands now; of what was only taken out, the line before it."""


class Writer(Protocol):
    """Where accepted edits go."""

    async def write(self, edits: Sequence[Accepted], title: str) -> list[Written]:
        """All of those that have hunks as one step that can be taken back; none where nothing had
        to be written. Raises EditConflict."""


@dataclass(frozen=True)
class Journaled:
    """To disk."""

    journal: Journal

    async def write(self, edits: Sequence[Accepted], title: str) -> list[Written]:
        return write_all(self.journal, edits, title)


def try_to_write(edit: Accepted) -> None:
    """Raises WorkspaceError where the file cannot be written; it stays as it is. That it has
    changed meanwhile is no reason: ``write_all`` knows what to do."""
    document, path = edit.target.document, edit.target.path
    temporary = temporary_name()
    try:
        stage(path, document.encode(apply(document.text, edit.hunks)), document.version, temporary)
    except FileChanged:
        pass
    finally:
        discard(path, temporary)


def write_all(journal: Journal, edits: Sequence[Accepted], title: str) -> list[Written]:
    """Write the edits as one entry of the journal; none where nothing had to be written."""
    edits = [edit for edit in edits if edit.hunks]
    for tries_left in reversed(range(_TRIES)):
        prepared = [_prepared(edit) for edit in edits]
        try:
            journal.apply([change for change, _ in prepared], title)
        except FileChanged:  # between our look and the write
            if not tries_left:
                raise
        else:
            return [written for _, written in prepared]
    raise AssertionError("unreachable")


def _prepared(edit: Accepted) -> tuple[Change, Written]:
    """An edit as it has to be for the file on disk now."""
    base, path = edit.target.document, edit.target.path
    now = read(path)
    rebased = rebase(edit.hunks, base.text, now.text)
    if rebased.conflicts:
        raise EditConflict(
            f"Nothing was written: {path} was changed since it was read, in the same lines as the "
            f"edit. Ask for the edit again.\n{shown(rebased.conflicts, 'on disk')}"
        )
    hunks = rebased.hunks
    written = Written(
        str(path),
        sum(len(hunk.new) for hunk in hunks),
        sum(len(hunk.old) for hunk in hunks),
        rebased=now.text != base.text,
        lines=tuple(standing(hunks)),
    )
    return Change(path, now.version, now.encode(apply(now.text, hunks))), written


def standing(hunks: Sequence[Hunk]) -> Iterator[Selection]:
    """Where what the hunks put in stands after them."""
    grown = 0
    for hunk in hunks:
        start = hunk.start + grown
        grown += len(hunk.new) - len(hunk.old)
        yield (start, start + len(hunk.new)) if hunk.new else (max(0, start - 1), max(1, start))


def shown(conflicts: Sequence[Conflict], where: str) -> str:
    """What collides: the edit, and what is ``where`` it was to be made."""
    return "\n".join(line for each in conflicts for line in _lines(each, where))


def _lines(conflict: Conflict, where: str) -> Iterator[str]:
    for who, hunks in (("the edit", [conflict.hunk]), (where, conflict.theirs)):
        for hunk in hunks:
            yield f"@@ line {hunk.start + 1}, {who} @@"
            yield from (f"-{line.rstrip()}" for line in hunk.old)
            yield from (f"+{line.rstrip()}" for line in hunk.new)

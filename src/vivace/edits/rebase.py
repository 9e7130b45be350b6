"""Carrying an edit over to what the person has typed since.

Both edits were made for the same base. Where they touch different lines, both hold, in whichever
order they are made. Where they touch the same lines, nobody but the person can say what is meant:
the hunk is handed back with what stands there now, and their text stays as they typed it.

Called at every key: the lines at the beginning and the end that are the same are never searched.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from vivace.edits.diff import between
from vivace.syntax.hunk import Hunk
from vivace.syntax.lines import lines_of

__all__ = ["Conflict", "Rebased", "rebase"]


class Conflict(Struct, frozen=True):
    """A hunk, as made for the base, and what the person did to the same lines."""

    hunk: Hunk
    theirs: tuple[Hunk, ...]


class Rebased(Struct, frozen=True):
    """Hunks for the text as it is now; those the person has made already are in neither."""

    hunks: tuple[Hunk, ...]
    conflicts: tuple[Conflict, ...] = ()


def rebase(hunks: Sequence[Hunk], base: str, now: str) -> Rebased:
    """The hunks, made for ``base``, as they have to be for ``now``."""
    if base == now:
        return Rebased(tuple(hunks))
    typed = between(base, now)
    lines = lines_of(now)
    carried: list[Hunk] = []
    conflicts: list[Conflict] = []
    for hunk in hunks:
        against = tuple(each for each in typed if _collide(hunk, each))
        if hunk in against:
            continue  # they typed the same
        moved = Hunk(hunk.start + _growth(hunk, typed), hunk.old, hunk.new)
        if not against and _glued(moved, lines):
            against = tuple(typed[-1:])
        if against:
            conflicts.append(Conflict(hunk, against))
        else:
            carried.append(moved)
    return Rebased(tuple(carried), tuple(conflicts))


def _collide(ours: Hunk, theirs: Hunk) -> bool:
    """Whether they change the same lines, or put lines in at the same place."""
    if not ours.old and not theirs.old:
        return ours.start == theirs.start
    return ours.start < theirs.end and theirs.start < ours.end


def _growth(ours: Hunk, typed: Sequence[Hunk]) -> int:
    """How many lines more stand before it now."""
    before = [each for each in typed if each.end <= ours.start]
    return sum(len(each.new) - len(each.old) for each in before)


def _glued(hunk: Hunk, lines: Sequence[str]) -> bool:
    """Whether a line without an end would come to stand before another."""
    before = lines[hunk.start - 1] if hunk.start else "\n"
    unended = hunk.new and not hunk.new[-1].endswith("\n")
    return not before.endswith("\n") or bool(unended and hunk.end < len(lines))

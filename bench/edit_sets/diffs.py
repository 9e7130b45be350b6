"""Applies unified diffs to one file.

The numbers in ``@@`` lines only choose between equal places, for people who write diffs by hand
count badly; the lines themselves must fit exactly.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from bench.edit_sets.errors import BadDiff

__all__ = ["apply"]

_HUNK = re.compile(r"@@(?: -(\d+)|$| @@)")


@dataclass
class _Hunk:
    line: int | None
    old: list[str] = field(default_factory=list)
    new: list[str] = field(default_factory=list)


def apply(diff: str, text: str) -> str:
    """The text with the diff applied; its last line keeps having a line end, or none."""
    hunks = _parse(diff)
    lines = text.split("\n")
    place, shift = 0, 0
    for number, hunk in enumerate(hunks, 1):
        at = _find(lines, hunk, place, shift, number)
        lines[at : at + len(hunk.old)] = hunk.new
        place = at + len(hunk.new)
        shift += len(hunk.new) - len(hunk.old)
    after = "\n".join(lines)
    if after == text:
        raise BadDiff("changes nothing")
    return after


def _parse(diff: str) -> list[_Hunk]:
    hunks: list[_Hunk] = []
    for line in diff.strip("\n").split("\n"):
        if header := _HUNK.match(line):
            hunks.append(_Hunk(int(header[1]) if header[1] else None))
        elif not hunks:
            if line.strip() and not line.startswith(("---", "+++", "diff ", "index ")):
                raise BadDiff(f"before the first @@ stands {line!r}")
        elif not line.startswith("\\"):
            _take(hunks[-1], line)
    if not hunks:
        raise BadDiff("has no @@ line")
    return hunks


def _take(hunk: _Hunk, line: str) -> None:
    # Editors strip the blank that an empty line of context has.
    mark, rest = (line[0], line[1:]) if line else (" ", "")
    if mark not in " +-":
        raise BadDiff(f"a line starts with neither blank, + nor -: {line!r}")
    if mark != "+":
        hunk.old.append(rest)
    if mark != "-":
        hunk.new.append(rest)


def _find(lines: list[str], hunk: _Hunk, place: int, shift: int, number: int) -> int:
    size = len(hunk.old)
    if not size:
        raise BadDiff(f"hunk {number} has no lines of context")
    fits = [at for at in range(place, len(lines) - size + 1) if lines[at : at + size] == hunk.old]
    if not fits:
        raise BadDiff(f"hunk {number} fits nowhere: {_misfit(lines, hunk)}")
    if hunk.line is None:
        if len(fits) > 1:
            raise BadDiff(f"hunk {number} fits {len(fits)} places; give @@ -LINE or more context")
        return fits[0]
    wanted = hunk.line - 1 + shift
    return min(fits, key=lambda at: abs(at - wanted))


def _misfit(lines: list[str], hunk: _Hunk) -> str:
    for line in hunk.old:
        if line not in lines:
            return f"the file has no line {line!r}"
    return "its lines stand in the file, but not together or not behind the hunk before"

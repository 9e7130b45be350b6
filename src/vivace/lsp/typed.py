"""What was typed between two texts of a document, found without looking at its other lines.

``edits.diff.between`` finds the smallest edit, and reads every line of both for it: in a file of
10,000 lines that takes longer than a key may cost. Who types changes one place.
"""

from __future__ import annotations

from vivace.edits.diff import between
from vivace.syntax.hunk import Hunk
from vivace.syntax.lines import lines_of

__all__ = ["difference", "typed"]

_STEPS = (4096, 64, 1)
"""Characters that are compared at a time, from coarse to fine."""
_MANY = 200
"""Lines; places further apart are worth being told apart."""


def difference(old: str, new: str) -> tuple[int, int, str]:
    """The span of the old text that gave way, and what stands there now."""
    most = min(len(old), len(new))
    head = 0
    for step in _STEPS:
        while head + step <= most and old[head : head + step] == new[head : head + step]:
            head += step
    most -= head
    tail = 0
    for step in _STEPS:
        while tail + step <= most and _before_end(old, tail, step) == _before_end(new, tail, step):
            tail += step
    return head, len(old) - tail, new[head : len(new) - tail]


def _before_end(text: str, tail: int, count: int) -> str:
    end = len(text) - tail
    return text[end - count : end]


def typed(old: str, new: str) -> list[Hunk]:
    """The edit that turns one text into the other: the lines from the first difference to the last
    as one hunk, if they are few."""
    if old == new:
        return []
    start, end, come = difference(old, new)
    first = old.rfind("\n", 0, start) + 1
    end_in_new = start + len(come)
    if not (_begins_a_line(old, end) and _begins_a_line(new, end_in_new)):
        rest = old.find("\n", end) + 1 - end
        rest = rest if rest > 0 else len(old) - end
        end, end_in_new = end + rest, end_in_new + rest
    gone, put = lines_of(old[first:end]), lines_of(new[first:end_in_new])
    if len(gone) > _MANY and len(put) > _MANY:
        return between(old, new)
    return [Hunk(old.count("\n", 0, first), tuple(gone), tuple(put))]


def _begins_a_line(text: str, offset: int) -> bool:
    return offset == 0 or text[offset - 1] == "\n"

"""How much of a file a model is shown around the gap.

Windows begin and end at definitions and move in large steps, so that a gap that is anchored anew
still shares its beginning with what the engine has read.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from msgspec import Struct

from vivace.completion.anchor import Anchor
from vivace.syntax.source import Source

__all__ = ["Window", "window"]

_BEFORE = 2 / 3
"""The part of the room that is for what stands before the gap."""
_STEPS = 4
"""A window moves by this part of its size."""
_LONGEST_PARSED = 1_000_000
_LONGEST_LINE = 5_000


class Window(Struct, frozen=True):
    prefix: str
    suffix: str


def window(path: str, anchor: Anchor, room: int) -> Window:
    """So many characters around the gap at most."""
    before, after = int(room * _BEFORE), room - int(room * _BEFORE)
    is_cut = len(anchor.before) + len(anchor.after) > room
    starts = _starts(path, anchor, before, after) if is_cut else []
    gap = len(anchor.before)
    return Window(
        anchor.before[_first(gap - before, before // _STEPS, starts, gap, anchor.before) :],
        anchor.after[: _last(after, after // _STEPS, starts, gap, anchor.after)],
    )


def _first(least: int, step: int, starts: Sequence[int], gap: int, before: str) -> int:
    """Where the prefix begins: at the first definition behind the next full step."""
    if least <= 0:
        return 0
    least = -(-least // step) * step
    fitting = (start for start in starts if least <= start <= min(gap, least + step))
    if (found := next(fitting, None)) is not None:
        return found
    line = before.find("\n", least)
    return line + 1 if 0 <= line < gap else least


def _last(most: int, step: int, starts: Sequence[int], gap: int, after: str) -> int:
    """How long the suffix is: up to the last definition before the last full step."""
    if len(after) <= most:
        return len(after)
    end = (gap + most) // step * step
    fitting = [start - gap for start in starts if max(gap, end - step) < start <= end]
    if fitting:
        return fitting[-1]
    line = after.rfind("\n", 0, max(0, end - gap))
    return line + 1 if line >= 0 else max(0, end - gap)


def _starts(path: str, anchor: Anchor, before: int, after: int) -> list[int]:
    """Where definitions begin, in characters of the text with the gap closed. Only the stretch that
    the window is taken from is parsed: all of a long file takes longer than a key may. It moves in
    steps, too, so that the same ones are found again."""
    gap, step = len(anchor.before), before // _STEPS
    if gap + len(anchor.after) > _LONGEST_PARSED or not step:
        return []
    first = max(0, (gap - before) // step * step)
    last = -(-(gap + after) // step) * step
    if first:
        first = anchor.before.find("\n", first, gap) + 1 or gap
    source = Source.of(path, anchor.before[first:] + anchor.after[: last - gap])
    if source.language is None or max(map(len, source.lines), default=0) > _LONGEST_LINE:
        return []
    offsets = list(accumulate(map(len, source.lines), initial=first))
    return sorted(offsets[each.start] for each in source.definitions)

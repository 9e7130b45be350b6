"""What changed between two texts, in as few lines as possible.

Myers' greedy search finds a shortest edit; difflib does not look for one and takes out whole blocks
that still stand there. Where two texts have so little in common that the search would take long,
the lines that stand once in each (as in patience diff) divide them first.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Sequence

from vivace.syntax.hunk import Hunk
from vivace.syntax.lines import lines_of

__all__ = ["between", "changes"]

_MOST = 400
"""Lines of difference that are searched through; beyond, the texts are divided."""

Change = tuple[int, int, int, int]
"""Lines ``a..b`` of the old gave way to lines ``c..d`` of the new."""


def between(old: str, new: str) -> list[Hunk]:
    """The edit that turns one text into the other."""
    before, after = lines_of(old), lines_of(new)
    return [Hunk(a, tuple(before[a:b]), tuple(after[c:d])) for a, b, c, d in changes(before, after)]


def changes(old: Sequence[Hashable], new: Sequence[Hashable]) -> list[Change]:
    """The places where two sequences differ, in order."""
    pairs = _pairs(old, new, 0, len(old), 0, len(new))
    pairs.append((len(old), len(new)))
    found: list[Change] = []
    a = c = 0
    for b, d in pairs:
        if b > a or d > c:
            room = a - found[-1][1] if found else a
            found.append(_moved_up(old, new, (a, b, c, d), room))
        a, c = b + 1, d + 1
    return found


def _moved_up(
    old: Sequence[Hashable], new: Sequence[Hashable], change: Change, room: int
) -> Change:
    """A block put in or taken out, moved up to where it begins after an empty line.

    Where it ends as what stands before it does, it could stand higher just as well; a reader takes
    a function with the empty line after it for one piece.
    """
    a, b, c, d = change
    side, first, last = (new, c, d) if a == b else (old, a, b)
    if a != b and c != d:
        return change
    for up in range(min(room, last - first) + 1):
        if up and side[first - up] != side[last - up]:
            break
        if first - up == 0 or not str(side[first - up - 1]).strip():
            return a - up, b - up, c - up, d - up
    return change


def _pairs(
    old: Sequence[Hashable], new: Sequence[Hashable], a: int, b: int, c: int, d: int
) -> list[tuple[int, int]]:
    """Which lines of ``old[a:b]`` stand in ``new[c:d]`` still."""
    head: list[tuple[int, int]] = []
    while a < b and c < d and old[a] == new[c]:
        head.append((a, c))
        a, c = a + 1, c + 1
    tail: list[tuple[int, int]] = []
    while a < b and c < d and old[b - 1] == new[d - 1]:
        b, d = b - 1, d - 1
        tail.append((b, d))
    tail.reverse()
    if a == b or c == d:
        return head + tail
    middle = _shortest(old, new, a, b, c, d)
    return head + (_divided(old, new, a, b, c, d) if middle is None else middle) + tail


def _shortest(
    old: Sequence[Hashable], new: Sequence[Hashable], a: int, b: int, c: int, d: int
) -> list[tuple[int, int]] | None:
    """Myers' search: for each number of differences, how far one gets on each diagonal."""
    width, height = b - a, d - c
    reach = {1: 0}
    steps: list[dict[int, int]] = []
    for cost in range(min(width + height, _MOST) + 1):
        steps.append(reach.copy())
        for k in range(-cost, cost + 1, 2):
            down = k == -cost or (k != cost and reach[k - 1] < reach[k + 1])
            x = reach[k + 1] if down else reach[k - 1] + 1
            y = x - k
            while x < width and y < height and old[a + x] == new[c + y]:
                x, y = x + 1, y + 1
            reach[k] = x
            if x >= width and y >= height:
                return [(a + i, c + j) for i, j in _walked_back(steps, width, height)]
    return None


def _walked_back(steps: Sequence[dict[int, int]], x: int, y: int) -> list[tuple[int, int]]:
    pairs: list[tuple[int, int]] = []
    for cost in range(len(steps) - 1, -1, -1):
        reach, k = steps[cost], x - y
        down = k == -cost or (k != cost and reach[k - 1] < reach[k + 1])
        before = k + 1 if down else k - 1
        from_x = reach[before]
        from_y = from_x - before
        while x > from_x and y > from_y:
            x, y = x - 1, y - 1
            pairs.append((x, y))
        x, y = from_x, from_y
    pairs.reverse()
    return pairs


def _divided(
    old: Sequence[Hashable], new: Sequence[Hashable], a: int, b: int, c: int, d: int
) -> list[tuple[int, int]]:
    """Divide at the lines that stand once on each side, as many as keep their order."""
    in_old, in_new = Counter(old[a:b]), Counter(new[c:d])
    place = {line: c + at for at, line in enumerate(new[c:d]) if in_new[line] == 1}
    both = [
        (a + at, place[line])
        for at, line in enumerate(old[a:b])
        if in_old[line] == 1 and line in place
    ]
    if not both:
        return []
    pairs: list[tuple[int, int]] = []
    for x, y in [*_rising(both), (b, d)]:
        pairs += _pairs(old, new, a, x, c, y)
        if (x, y) != (b, d):
            pairs.append((x, y))
        a, c = x + 1, y + 1
    return pairs


def _rising(both: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The longest run of pairs whose second numbers rise."""
    ends: list[int] = []
    last: list[int] = []
    back: list[int] = []
    for at, (_, y) in enumerate(both):
        pile = bisect_left(ends, y)
        back.append(last[pile - 1] if pile else -1)
        if pile == len(ends):
            ends.append(y)
            last.append(at)
        else:
            ends[pile], last[pile] = y, at
    run: list[tuple[int, int]] = []
    at = last[-1] if last else -1
    while at >= 0:
        run.append(both[at])
        at = back[at]
    return run[::-1]

"""A region rewritten by the model, read while it is written.

The answer is laid beside the old lines as it comes. A hunk is out as soon as old text goes on after
it: mostly with the very next line. Of real edits, one such hunk in ten would be laid otherwise by
who sees the whole answer, hardly more than when three lines are waited for; who shows them shows
the edit again where it ends up different. What was not settled comes at the end.

Lines are compared without the space at their ends, and a line that is the same but for that stays
the old one: small models change line ends and trailing space without being asked.
"""

from __future__ import annotations

from collections.abc import Sequence

from vivace.edits.diff import changes
from vivace.edits.fence import Unfenced
from vivace.edits.importing.imports import Preamble
from vivace.syntax.hunk import Hunk, replacing
from vivace.syntax.lines import dedented, line_end, lines_of, margin_of

__all__ = ["Rewrite"]

_SETTLED = 3
"""Lines in a row that are old again, wherever they stand."""
_PER_LINE = 4
"""Letters and digits a line needs, to be believed alone, for each line of the old text that would
be gone and have nothing in its place."""


class Rewrite:
    """Deltas of the answer in, hunks against the old region out.

    The region was shown without its margin; new lines get it back. Imports that come before the
    answer stay with ``ahead``.
    """

    def __init__(self, old: str, ahead: Preamble | None = None) -> None:
        self._old = lines_of(old)
        self._margin = margin_of(self._old)
        self._end = line_end(self._old)
        self._keys = [dedented(line, self._margin).rstrip() for line in self._old]
        self._places: dict[str, list[int]] = {}
        for place, key in enumerate(self._keys):
            self._places.setdefault(key, []).append(place)
        self._fence = Unfenced(self._keys)
        self._ahead = ahead or Preamble(None, old)
        self._excess: str | None = None
        self._at = 0
        """Old lines before this one are dealt with."""
        self._pending: list[str] = []
        self.answer: list[str] = []
        """All lines so far as they were answered: without margin and space at the end."""

    @property
    def whole(self) -> bool:
        """Whether the answer came to its own end."""
        return self._fence.whole

    @property
    def complete(self) -> bool:
        """Whether no more of the answer is code."""
        return self._fence.complete

    def feed(self, text: str) -> list[Hunk]:
        return self._take(self._fence.feed(text))

    def finish(self) -> list[Hunk]:
        hunks = self._take(self._fence.finish())
        hunks += [hunk for line in self._ahead.finish() for hunk in self._write(line)]
        # Empty lines at the end stay as they were: models add and lose them before the fence.
        while self._pending and not self._pending[-1]:
            self._pending.pop()
        upto = len(self._keys)
        while upto > self._at and not self._keys[upto - 1]:
            upto -= 1
        return hunks + self._settle(upto, len(self._pending))

    def _take(self, lines: Sequence[str]) -> list[Hunk]:
        return [
            hunk for line in lines for each in self._ahead.take(line) for hunk in self._write(each)
        ]

    def _straight(self, line: str) -> str:
        """The line as it would stand in what was shown: small models indent all of it, or none."""
        line = line.rstrip()
        if self._excess is None and line:
            first = next((key for key in self._keys if key), "")
            own = line[: len(line) - len(line.lstrip())]
            shown = first[: len(first) - len(first.lstrip())]
            self._excess = own.removesuffix(shown) if own.endswith(shown) else ""
        return line.removeprefix(self._excess or "")

    def _write(self, line: str) -> list[Hunk]:
        key = self._straight(line)
        self.answer.append(key)
        if not self._pending and self._at < len(self._keys) and self._keys[self._at] == key:
            self._at += 1
            return []
        self._pending.append(key)
        back = self._back_in_old()
        if back is None:
            return []
        place, count = back
        hunks = self._settle(place, len(self._pending) - count)
        self._at, self._pending = place + count, []
        return hunks

    def _back_in_old(self) -> tuple[int, int] | None:
        """Where the last lines stand in the old text, and how many, if that settles it."""
        last = self._pending[-1]
        places = [place for place in self._places.get(last, ()) if place >= self._at]
        if (place := self._alone(last, places)) is not None:
            return place, 1
        tail = self._pending[-_SETTLED:]
        if len(tail) < _SETTLED or not any(_weight(key) >= _SETTLED for key in tail):
            return None
        for place in places:
            first = place - _SETTLED + 1
            if first >= self._at and self._keys[first : place + 1] == tail:
                return first, _SETTLED
        return None

    def _alone(self, last: str, places: Sequence[int]) -> int | None:
        """Where a line stands that settles it by itself: right behind what was put in, or as many
        lines on as came; else where the old text has it once, and not far on."""
        if not (weight := _weight(last)):
            return None
        over = self._at + len(self._pending) - 1
        for place in places:
            if place in (self._at, over):
                return place
        if len(places) == 1 and weight >= _PER_LINE * (places[0] - over):
            return places[0]
        return None

    def _settle(self, upto: int, count: int) -> list[Hunk]:
        """The hunks that turn the old lines up to here into so many of the pending ones."""
        keys, new = self._keys[self._at : upto], self._pending[:count]
        hunks: list[Hunk] = []
        for a, b, c, d in changes(keys, new):
            hunks.append(self._hunk(a + self._at, b + self._at, new[c:d]))
        return hunks

    def _hunk(self, start: int, end: int, keys: Sequence[str]) -> Hunk:
        lines = [self._margin + key + self._end if key else self._end for key in keys]
        return replacing(self._old, start, end, lines)


def _weight(key: str) -> int:
    return sum(map(str.isalnum, key))

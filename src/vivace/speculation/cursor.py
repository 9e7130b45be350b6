"""Where in the old text an answer is that rewrites it: a cursor that follows what is written.

Where the answer leaves the old text, the cursor is set again at the place that fits best what was
written last. Where it stands follows from the tokens alone, in whatever pieces they came.
"""

from __future__ import annotations

import copy
from bisect import bisect_left
from collections.abc import Sequence

__all__ = ["LONGEST", "SURE", "Cursor"]

LONGEST = 12
"""More tokens than this need not fit to be sure of a place."""
SURE = 3
"""From so many fitting tokens on, the place is probably right."""
_NEAR = 24
"""A single fitting token counts only this close ahead."""
_LOOKED_AT = 64
"""Places that are looked at, of a token that is everywhere."""


class Cursor:
    def __init__(self, old: Sequence[int]) -> None:
        self.old = list(old)
        self.place = 0
        self.fits = SURE if self.old else 0
        """How many of the last tokens stand before the cursor too."""
        self._last: tuple[int, ...] = ()
        self._places: dict[int, list[int]] = {}
        for place, token in enumerate(self.old):
            self._places.setdefault(token, []).append(place + 1)

    def write(self, token: int) -> None:
        """The answer went on with this."""
        self._last = (*self._last[1 - LONGEST :], token)
        if token == self.next():
            self.place += 1
            self.fits = min(LONGEST, self.fits + 1)
        else:
            self._set_again(token)

    def next(self) -> int | None:
        """The old token at the cursor, unless it stands at the end."""
        return self.old[self.place] if self.place < len(self.old) else None

    def fork(self) -> Cursor:
        """Another one at the same place in the same text, which goes its own way from here."""
        return copy.copy(self)

    def _set_again(self, token: int) -> None:
        """The best place behind this token; where it is not found, the cursor waits."""
        places = self._places.get(token, [])
        ahead = bisect_left(places, self.place)
        near = places[ahead : ahead + _LOOKED_AT] + places[max(0, ahead - _LOOKED_AT) : ahead][::-1]
        best, self.fits = self.place, 0
        for place in near:
            fits = self._fitting(place)
            lone = fits == 1 and not 0 <= place - self.place <= _NEAR
            if fits > self.fits and not lone:
                best, self.fits = place, fits
        self.place = best

    def _fitting(self, place: int) -> int:
        """How many tokens before this place are what was written last."""
        count = 0
        most = min(len(self._last), place)
        while count < most and self.old[place - 1 - count] == self._last[-1 - count]:
            count += 1
        return count

"""What the model will probably write next when it rewrites code: the old code, from where it is.

A cursor goes through the old text while the answer is written. Where the answer leaves it, the
cursor is set again at the place that fits best what was written last. Where nothing fits, the last
few tokens are looked up in the answer itself. Wrong drafts cost time, never correctness: the engine
keeps only what it would have written itself.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence

__all__ = ["Drafter"]

_LONGEST = 12
"""More tokens than this need not fit to be sure of a place."""
_NEAR = 24
"""A single fitting token counts only this close ahead."""
_SURE = 3
"""From so many fitting tokens on, the place is probably right."""
_NGRAM = 3
_LOOKED_AT = 64
"""Places that are looked at, of a token that is everywhere."""
_SURE_HOLDS, _UNSURE_HOLDS, _RECALLED_HOLDS = 40.0, 5.0, 4.0
"""How many tokens hold before one does not, until a request has shown its own ways."""
_MEMORY = 0.8


class _Evidence:
    """How drafts of one kind have fared lately."""

    def __init__(self, held: float) -> None:
        self._held = held
        self._missed = 1.0

    def note(self, held: int, *, missed: bool) -> None:
        self._held = self._held * _MEMORY + held
        self._missed = self._missed * _MEMORY + missed

    def chance(self) -> float:
        """Never quite one nor nothing: the next may be otherwise."""
        return min(0.995, (self._held + 0.05) / (self._held + self._missed + 0.1))


class Drafter:
    def __init__(self, old: Sequence[int]) -> None:
        self._old = list(old)
        self._written: list[int] = []
        self._cursor = 0
        self._fits = _SURE if self._old else 0
        """How many of the last tokens stand before the cursor too."""
        self._places: dict[int, list[int]] = {}
        for place, token in enumerate(self._old):
            self._places.setdefault(token, []).append(place + 1)
        self._grams: dict[tuple[int, ...], int] = {}
        self._sure = _Evidence(_SURE_HOLDS)
        self._unsure = _Evidence(_UNSURE_HOLDS)
        self._recalled = _Evidence(_RECALLED_HOLDS)
        self._drafted: list[int] = []

    def write(self, tokens: Iterable[int]) -> None:
        """The answer went on with these."""
        tokens = list(tokens)
        self._learn(tokens)
        for token in tokens:
            self._written.append(token)
            if self._cursor < len(self._old) and self._old[self._cursor] == token:
                self._cursor += 1
                self._fits = min(_LONGEST, self._fits + 1)
            else:
                self._set_again(token)
            self._note_gram()

    def chance(self) -> float:
        """That a token drafted here is the right one, if those before it were."""
        return self._evidence().chance()

    def draft(self, most: int) -> list[int]:
        """At most so many tokens that may follow."""
        if self._fits:
            self._drafted = self._old[self._cursor : self._cursor + most]
        else:
            self._drafted = self._recall(most)
        return self._drafted

    def _evidence(self) -> _Evidence:
        if not self._fits:
            return self._recalled
        return self._sure if self._fits >= _SURE else self._unsure

    def _learn(self, tokens: list[int]) -> None:
        """What became of the last draft; the place it was made for has not been left yet."""
        drafted, self._drafted = self._drafted, []
        if drafted and tokens:
            held = 0
            while held < min(len(drafted), len(tokens)) and drafted[held] == tokens[held]:
                held += 1
            self._evidence().note(held, missed=held < min(len(drafted), len(tokens)))

    def _set_again(self, token: int) -> None:
        """The best place behind this token; where it is not found, the cursor waits."""
        places = self._places.get(token, [])
        ahead = bisect_left(places, self._cursor)
        near = places[ahead : ahead + _LOOKED_AT] + places[max(0, ahead - _LOOKED_AT) : ahead][::-1]
        best, self._fits = self._cursor, 0
        for place in near:
            fits = self._fitting(place)
            lone = fits == 1 and not 0 <= place - self._cursor <= _NEAR
            if fits > self._fits and not lone:
                best, self._fits = place, fits
        self._cursor = best

    def _fitting(self, place: int) -> int:
        """How many tokens before this place are what was written last."""
        count = 0
        while (
            count < _LONGEST
            and count < len(self._written)
            and count < place
            and self._old[place - 1 - count] == self._written[-1 - count]
        ):
            count += 1
        return count

    def _note_gram(self) -> None:
        if len(self._written) > _NGRAM:
            gram = tuple(self._written[-1 - _NGRAM : -1])
            self._grams[gram] = len(self._written) - 1

    def _recall(self, most: int) -> list[int]:
        """What followed the last few tokens when they were written before."""
        place = self._grams.get(tuple(self._written[-_NGRAM:]))
        return self._written[place : place + most] if place is not None else []

"""What the model will probably write next when it rewrites code: the old code, from where it is.

A cursor goes through the old text while the answer is written. Where nothing fits, the last few
tokens are looked up in the answer itself. Wrong drafts cost time, never correctness: the engine
keeps only what it would have written itself (or prefers to it, where ``leniency.py`` says so).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from vivace.speculation.cursor import SURE, Cursor

__all__ = ["Drafter"]

_NGRAM = 3
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
        self._cursor = Cursor(old)
        self._written: list[int] = []
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
            self._cursor.write(token)
            self._note_gram()

    def chance(self) -> float:
        """That a token drafted here is the right one, if those before it were."""
        return self._evidence().chance()

    def draft(self, most: int) -> list[int]:
        """At most so many tokens that may follow."""
        cursor = self._cursor
        if cursor.fits:
            self._drafted = cursor.old[cursor.place : cursor.place + most]
        else:
            self._drafted = self._recall(most)
        return self._drafted

    def _evidence(self) -> _Evidence:
        if not self._cursor.fits:
            return self._recalled
        return self._sure if self._cursor.fits >= SURE else self._unsure

    def _learn(self, tokens: list[int]) -> None:
        """What became of the last draft; the place it was made for has not been left yet."""
        drafted, self._drafted = self._drafted, []
        if drafted and tokens:
            held = 0
            while held < min(len(drafted), len(tokens)) and drafted[held] == tokens[held]:
                held += 1
            self._evidence().note(held, missed=held < min(len(drafted), len(tokens)))

    def _note_gram(self) -> None:
        if len(self._written) > _NGRAM:
            gram = tuple(self._written[-1 - _NGRAM : -1])
            self._grams[gram] = len(self._written) - 1

    def _recall(self, most: int) -> list[int]:
        """What followed the last few tokens when they were written before."""
        place = self._grams.get(tuple(self._written[-_NGRAM:]))
        return self._written[place : place + most] if place is not None else []

"""Where the old code is believed: lenient verification of what an edit copies.

A small model that rewrites code changes things nobody asked for, mostly where it finds the old
token nearly as good as its own. While it copies we know the old token that comes next, so that one
can be given a few nats before the best is taken. Always would be wrong: the change that is wanted
often wins by less. So it is given only

- behind the first change: until the answer has left the old text once, nothing is given;
- not in the rest of a line that was changed, which is often made of pieces of the old one, nor for
  the first token of the next, whose indentation may change with it;
- where the cursor is sure of its place, and the old text there has not been passed before: a token
  that was written is not wanted twice, and one that was left once may be left;
- for tokens that no word of the instruction names.

Whether a token is given something follows from the tokens before it alone. So it does not matter
how many are drafted in a step, and the answer does not depend on how long a step takes.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Sequence

from msgspec import Struct

from vivace.speculation.cursor import LONGEST, Cursor

__all__ = ["Leniency", "Terms", "named_words"]

_SURE = 4
"""So many tokens must fit."""
_AHEAD = 24
"""Whoever skips more of the old text may only write something like it: then all must fit."""
_HELD, _NEXT_FREE, _LINE_FREE = range(3)
"""How much of what comes next belongs to a change: nothing, a token, all to the end of the line."""


class Terms(Struct, frozen=True, kw_only=True):
    """What is given, and for what; tokens throughout."""

    nats: float
    end: int
    """How much of the old text counts: its closing fence is no code of anybody's."""
    free: frozenset[int] = frozenset()
    """Old tokens that are never preferred: the instruction names them."""
    breaks: frozenset[int] = frozenset()
    """Tokens that end a line."""
    openings: frozenset[int] = frozenset()
    """Tokens that begin an import. To add one is not yet the change that was asked for."""


class Leniency:
    """Follows one answer, and says which old token to prefer at its next place."""

    def __init__(self, old: Sequence[int], terms: Terms) -> None:
        self.nats = terms.nats
        self._cursor = Cursor(old)
        self._terms = terms
        self._passed = bytearray(len(old))
        """Places of the old text where the answer has decided, for the old token or against."""
        self._home = 0
        """Behind the last of them."""
        self._changed = False
        self._rest = _HELD

    def write(self, tokens: Iterable[int]) -> None:
        """The answer went on with these."""
        cursor = self._cursor
        for token in tokens:
            follows = cursor.next() == token
            if self._decides():
                self._passed[cursor.place] = True
                self._home = cursor.place + 1
                self._changed |= not follows and token not in self._terms.openings
            self._rest = self._rest_behind(token, follows=follows)
            cursor.write(token)

    def preferred(self) -> int | None:
        """The old token that comes next, if it is to be preferred there."""
        if not self._changed or not self._decides():
            return None
        token = self._cursor.next()
        return None if token in self._terms.free else token

    def along(self, draft: Sequence[int]) -> list[int | None]:
        """What is preferred at each token of a draft, if those before it hold, and behind it."""
        ahead = self._fork()
        found = []
        for token in draft:
            found.append(ahead.preferred())
            ahead.write([token])
        return [*found, ahead.preferred()]

    def _decides(self) -> bool:
        """Whether the next token is a decision about the old one at the cursor."""
        place, fits = self._cursor.place, self._cursor.fits
        if self._rest != _HELD or place >= self._terms.end or self._passed[place]:
            return False
        near = place - fits <= self._home + _AHEAD
        return fits >= (_SURE if near else LONGEST)

    def _rest_behind(self, token: int, *, follows: bool) -> int:
        if follows and self._rest != _LINE_FREE:
            return _HELD
        return _NEXT_FREE if token in self._terms.breaks else _LINE_FREE

    def _fork(self) -> Leniency:
        fork = copy.copy(self)
        fork._cursor = self._cursor.fork()  # noqa: SLF001
        fork._passed = self._passed[:]  # noqa: SLF001
        return fork


_QUOTED = re.compile(r"`([^`\n]+)`|\"([^\"\n]+)\"|(?<!\w)'([^'\n]+)'(?!\w)")
_WORD = re.compile(r"[^\W\d][\w.]*\(?|\d[\w.]*")
_LIKE_CODE = re.compile(r"_|\d|\(|\w\.\w|[^\W\d_A-Z][A-Z]|^[A-Z]{2,}$")
_NAME = re.compile(r"\w+")


def named_words(instruction: str) -> set[str]:
    """Words of an instruction that look like code: quoted, or spelt as no word of prose is."""
    quoted = ["".join(parts) for parts in _QUOTED.findall(instruction)]
    spelt = [word for word in _WORD.findall(instruction) if _LIKE_CODE.search(word)]
    return {name for text in (*quoted, *spelt) for name in _NAME.findall(text)}

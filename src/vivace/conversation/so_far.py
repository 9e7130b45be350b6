"""What was said of a turn before its engine died, for another engine to go on from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from msgspec import Struct

from vivace.conversation.deltas import (
    CallOpened,
    CallText,
    Delta,
    Finished,
    ReasoningDelta,
    TextDelta,
)

__all__ = ["Repetition", "SoFar", "Strayed"]

Part = TextDelta | ReasoningDelta | CallOpened | CallText


class SoFar(Struct, frozen=True):
    deltas: tuple[Delta, ...]
    tokens: int
    """How many these are, as the engines counted that said them."""
    trace: object = None
    """Of the tally of the last of these engines, for one of its kind; None if that is lost."""

    @property
    def ids(self) -> list[int] | None:
        """All of its tokens; None where some are not known."""
        known = [token for part in _parts(self.deltas) for token in part.ids]
        return known if len(known) == self.tokens else None

    @property
    def thought(self) -> str:
        return "".join(each.text for each in self.deltas if isinstance(each, ReasoningDelta))

    @property
    def text(self) -> str:
        return "".join(each.text for each in self.deltas if isinstance(each, TextDelta))

    @property
    def calls(self) -> bool:
        return any(isinstance(each, CallOpened) for each in self.deltas)

    @property
    def reasoning(self) -> int:
        """How many of the tokens are thoughts; all, where nothing else was said."""
        parts = list(_parts(self.deltas))
        last = max(
            (at for at, part in enumerate(parts, 1) if isinstance(part, ReasoningDelta)), default=0
        )
        if last == len(parts):
            return self.tokens
        return sum(len(part.ids) for part in parts[:last])


class Strayed(Exception):
    """What was repeated is not what was said."""


class Repetition:
    """Takes an answer from its beginning, and lets through what was not said before.

    Both may be cut as they like. What a parser makes up anew, such as the id of a call, stays as
    it was said.
    """

    def __init__(self, said: Sequence[Delta]) -> None:
        self._left: list[Part] = list(_joined(said))
        self._left.reverse()

    @property
    def over(self) -> bool:
        return not self._left

    def feed(self, delta: Delta) -> Delta | None:
        """What of it is new; raises ``Strayed`` when it is another than was said."""
        if not self._left:
            return delta
        if isinstance(delta, Finished):
            raise Strayed
        next_said = self._left.pop()
        if type(next_said) is not type(delta):
            raise Strayed
        if isinstance(delta, CallOpened):
            if _named(delta) != _named(next_said):
                raise Strayed
            return None
        assert not isinstance(next_said, CallOpened)
        return self._text(delta, next_said.text)

    def _text(self, delta: TextDelta | ReasoningDelta | CallText, said: str) -> Delta | None:
        common = min(len(delta.text), len(said))
        if delta.text[:common] != said[:common]:
            raise Strayed
        if common < len(said):
            self._left.append(type(delta)(said[common:]))
        elif common < len(delta.text):
            if self._left:  # it goes on where something else was said
                raise Strayed
            return type(delta)(delta.text[common:], ids=delta.ids)
        return None


def _named(part: object) -> tuple[str, bool, str | None]:
    assert isinstance(part, CallOpened)
    return part.name, part.custom, part.namespace


def _parts(deltas: Sequence[Delta]) -> Iterator[Part]:
    return (each for each in deltas if not isinstance(each, Finished))


def _joined(deltas: Sequence[Delta]) -> Iterator[Part]:
    """Neighbours of one kind as one."""
    for kind, group in groupby(_parts(deltas), type):
        if kind is CallOpened:
            yield from group
        else:
            yield kind("".join(part.text for part in group if not isinstance(part, CallOpened)))

"""What became of suggestions, in numbers alone: no word of a text and no name of a file."""

from __future__ import annotations

import math

import msgspec
from msgspec import Struct

__all__ = ["Counts"]

_SHORTEST = 0.001
_STEP = 1.1
"""Times are kept as how many steps they are longer than the shortest, so to a tenth."""


class Counts(Struct, omit_defaults=True):
    keys: int = 0
    """How often an editor asked what to show: at each key, or when its own delay is over."""
    remembered: int = 0
    """Of these, how many were answered with what the model had written before."""
    requests: int = 0
    """How often a server was asked."""
    ahead: int = 0
    """How often one was given work besides, before a key asked for it."""
    offered: int = 0
    """Suggestions that were handed out, each once, however much of it was typed meanwhile."""
    accepted: int = 0
    judged: int = 0
    """Of these, how many could be looked at again: their document was still open."""
    kept: int = 0
    """Of those, how many still stood there."""
    waits: dict[int, int] = msgspec.field(default_factory=dict)
    """From a key to its suggestion, where that was not remembered: how often which time."""

    def answered(self, seconds: float, *, remembered: bool) -> None:
        """A key, with a suggestion, after so long."""
        if remembered:
            self.remembered += 1
            return
        steps = math.ceil(math.log(max(seconds, _SHORTEST) / _SHORTEST, _STEP))
        self.waits[steps] = self.waits.get(steps, 0) + 1

    def wait_of(self, share: float) -> float | None:
        """How many seconds this share of suggestions took at most; None where none was waited
        for."""
        left = share * sum(self.waits.values())
        for steps, times in sorted(self.waits.items()):
            left -= times
            if left <= 0:
                return _SHORTEST * _STEP**steps
        return None

    def add(self, other: Counts) -> None:
        for name in self.__struct_fields__:
            if name != "waits":
                setattr(self, name, getattr(self, name) + getattr(other, name))
        for steps, times in other.waits.items():
            self.waits[steps] = self.waits.get(steps, 0) + times

    def take(self) -> Counts:
        """All of it, to be put elsewhere: nothing stays here."""
        taken, empty = msgspec.structs.replace(self), Counts()
        for name in self.__struct_fields__:
            setattr(self, name, getattr(empty, name))
        return taken

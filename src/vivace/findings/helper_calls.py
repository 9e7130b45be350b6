"""What is asked about the helpers of a file, the functions that it defines for itself, and about
who calls them. The answers are the same for a whole scope, and remembered with what is found in it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from vivace.findings.functions import name_of
from vivace.findings.pattern import Steps

if TYPE_CHECKING:
    from vivace.findings.taint import Taint

__all__ = ["Handed", "Helper", "Named", "Returns"]


class Helper(Struct, frozen=True):
    """Whether the file has a function of its own that is called so."""

    name: str
    is_on_other: bool
    """Whether it is called on something that is not the object that the call stands in."""

    def holds_beyond(self, steps: Steps) -> bool:
        return _answer(self, steps)


class Returns(Struct, frozen=True):
    """Whether what a helper of the file returns is tainted, if it is called like this."""

    taint: Taint
    helper: Helper
    given: frozenset[int | str]
    """Which of its arguments are tainted, by their places or names."""
    level: int
    """How far its own helpers are followed."""
    part: int | None = None
    """Of several values that it returns, the one that matters."""

    def holds_beyond(self, steps: Steps) -> bool:
        return _answer(self, steps)


class Handed(Struct, frozen=True):
    """Whether somewhere in the file a helper is handed something tainted."""

    taint: Taint
    helper: Helper
    place: int
    """Of the argument."""
    names: frozenset[str]
    """What the helper calls it."""

    def holds_beyond(self, steps: Steps) -> bool:
        return _answer(self, steps)


class Named(Struct, frozen=True):
    """Whether the scope is called so; some have their names beside them."""

    name: str

    def holds_beyond(self, steps: Steps) -> bool:
        if self not in steps.beyond:
            steps.beyond[self] = steps.scope is not None and name_of(steps.scope) == self.name
        return steps.beyond[self]


def _answer(asked: Helper | Returns | Handed, steps: Steps) -> bool:
    if asked not in steps.beyond:
        steps.beyond[asked] = steps.helpers is not None and steps.helpers.answer(asked)
    return steps.beyond[asked]

"""What was found in pieces of code and in functions, remembered by their texts: an edit costs what
it changed."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from typing import Any

from msgspec import Struct
from tree_sitter import Node

from vivace.findings.pattern import Asked, Helpers, OutOfSteps, Steps

__all__ = ["STEPS", "Look", "Match", "Memory", "Piece", "Run"]

STEPS = 100_000
"""For one rule in one piece. Ordinary rules take some dozens for each node they are tried on."""


class Match(Struct, frozen=True):
    rule: int
    start: int
    """In bytes, from where the piece begins."""
    end: int
    what: str
    """The rule's message, with what its names stand for."""
    instead: str | None = None
    """What is to stand there."""

    def moved(self, by: int) -> Match:
        return Match(self.rule, self.start + by, self.end + by, self.what, self.instead)


class Look(Struct, frozen=True):
    """A node that a rule may match, which depends on what is around it."""

    rule: int
    start: int
    end: int
    kind: int

    def moved(self, by: int) -> Look:
        return Look(self.rule, self.start + by, self.end + by, self.kind)


class Piece(Struct, frozen=True):
    """What a piece of code has in it, whatever is around it."""

    words: int = 0
    outside: int = 0
    """The words that stand outside of functions."""
    matches: tuple[Match, ...] = ()
    looks: tuple[Look, ...] = ()
    steps: Mapping[int, int] = {}
    """What each rule took, if they took more than a few."""
    height: int = 0
    """How far down there were nodes to look at."""
    parts: tuple[tuple[int, Piece], ...] = ()
    """Pieces of it in which there is something, and where they begin."""
    asking: int = 0
    """The rules that have looks in it or its parts, a bit for each."""

    def each_match(self, start: int) -> Iterator[Match]:
        """In it and its parts; ``start`` is where it begins in the text."""
        for each in self.matches:
            yield each.moved(start)
        for by, part in self.parts:
            yield from part.each_match(start + by)

    def each_look(self, start: int, asking: int) -> Iterator[Look]:
        """Those of some rules only."""
        for each in self.looks:
            if asking >> each.rule & 1:
                yield each.moved(start)
        for by, part in self.parts:
            if part.asking & asking:
                yield from part.each_look(start + by, asking)


class Memory:
    """What was found in code before, by its text. What is not met again is forgotten."""

    def __init__(self, before: Memory | None = None) -> None:
        self._known: dict[Hashable, Piece | Run] = {} if before is None else before.met
        self.met: dict[Hashable, Piece | Run] = {}

    def __bool__(self) -> bool:
        return bool(self._known)

    def get(self, key: Hashable) -> Piece | Run | None:
        known = self.met.get(key) or self._known.get(key)
        if known is not None:
            self.met[key] = known
        return known

    def keep(self, key: Hashable, value: Piece | Run) -> None:
        self.met[key] = value


class Run(Struct, frozen=True):
    """What a rule found in a function, and what it asked about what is around it."""

    matches: tuple[Match, ...]
    asked: Mapping[Asked, bool]
    steps: int
    answer: Any = None
    """What was asked of it, if that was not what the rule finds."""

    def holds_at(
        self, node: Node, root: Node, shared: dict[object, bool], helpers: Helpers
    ) -> bool:
        steps = Steps(STEPS, root, node, shared, helpers=helpers)
        try:
            return all(each.holds_beyond(steps) == answer for each, answer in self.asked.items())
        except OutOfSteps:
            return False

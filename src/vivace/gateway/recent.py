"""The newest things of each key, as far as there is room for them: a least-recently-used cache."""

from __future__ import annotations

from collections import OrderedDict
from typing import Generic, TypeVar

from vivace.scheduling.memory import Kind, Memory

__all__ = ["Recent"]

T = TypeVar("T")

_MOST = 1000
"""Of each owner."""


class Recent(Generic[T]):
    """The oldest goes when there are too many of them, or when memory is short."""

    def __init__(self, memory: Memory, kind: Kind) -> None:
        self._memory = memory
        self._kind = kind
        self._things: dict[str, OrderedDict[str, T]] = {}

    def get(self, owner: str, name: str) -> T | None:
        things = self._things.get(owner)
        found = things.get(name) if things is not None else None
        if found is not None:
            self.put(owner, name, found)
        return found

    def put(self, owner: str, name: str, thing: T) -> None:
        things = self._things.setdefault(owner, OrderedDict())
        things[name] = thing
        things.move_to_end(name)
        self._memory.keep(owner, (self._kind, name), lambda: self.drop(owner, name))
        if len(things) > _MOST:
            self.drop(owner, next(iter(things)))

    def drop(self, owner: str, name: str) -> bool:
        self._memory.forget(owner, (self._kind, name))
        things = self._things.get(owner)
        found = things.pop(name, None) if things is not None else None
        if not things:
            self._things.pop(owner, None)
        return found is not None

    def clear(self, owner: str) -> None:
        for name in list(self._things.get(owner, ())):
            self.drop(owner, name)

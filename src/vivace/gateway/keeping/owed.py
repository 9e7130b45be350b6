"""What the store was asked to write and did not, or did not say that it has: written when it works
again. Else a turn that has ended here, or was never to be, stays open on record, and is taken for
one that a crash cut off when this gateway is gone.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from vivace.store.base import NewTurn, Store, TurnEnd

__all__ = ["Owed"]


class Owed:
    def __init__(self, store: Store, written: Callable[[str], None]) -> None:
        """``written`` is told of each end that came on record late."""
        self._store = store
        self._written = written
        self._ends: dict[str, TurnEnd] = {}
        self._unwanted: dict[str, str] = {}

    def __contains__(self, response_id: str) -> bool:
        """Whether its end is not on record yet."""
        return response_id in self._ends

    def end(self, end: TurnEnd) -> None:
        """What was to follow it goes on record by itself, or not at all."""
        self._ends[end.id] = replace(end, successor=None)

    def withdraw(self, turn: NewTurn) -> None:
        """It was turned away, and may be on record all the same."""
        self._unwanted[turn.id] = turn.owner

    async def write(self) -> None:
        """Raises ``StoreError`` while the store takes nothing."""
        for end in list(self._ends.values()):
            # One that it had taken already, or whose turn was deleted, changes nothing.
            await self._store.end(end)
            self._ends.pop(end.id, None)
            self._written(end.id)
        for response_id, owner in list(self._unwanted.items()):
            await self._store.delete(response_id, owner)
            self._unwanted.pop(response_id, None)

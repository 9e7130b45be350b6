"""What a store keeps and what it promises.

A turn whose ``save`` has returned survives the death of the process. Turns belong to an owner and
do not exist for anyone else. A store may forget the oldest turns to stay within its bounds.
"""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct

__all__ = ["Store", "StoredTurn"]


class StoredTurn(Struct, frozen=True, kw_only=True):
    id: str
    owner: str
    previous_id: str | None
    created_at: int
    tokens: int
    input: bytes
    """The turn's own input items, as JSON."""
    response: bytes
    """The finished response object, as JSON."""


class Store(Protocol):
    async def save(self, turn: StoredTurn) -> None: ...

    async def load(self, response_id: str, owner: str) -> StoredTurn | None: ...

    async def chain(self, response_id: str, owner: str) -> list[StoredTurn] | None:
        """The turn and all before it, oldest first; None when one of them is gone."""

    async def weight(self, response_id: str, owner: str) -> int:
        """How many bytes ``chain`` would bring into memory."""

    async def delete(self, response_id: str, owner: str) -> bool: ...

    async def prune(self, now: int) -> int:
        """Forget what is too old or too much, oldest first; returns how many turns went.

        To be called often. ``now`` is what the clock says; a store does not age its turns by one
        that leaps ahead. Text that was deleted before is nowhere on the disk afterwards, and a
        store that could not be written tries whether it can.
        """

    @property
    def trouble(self) -> str | None:
        """Why turns cannot be kept just now, for whoever runs the server; None if they can."""

    async def close(self) -> None: ...

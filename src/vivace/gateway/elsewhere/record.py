"""The events of a turn that another gateway holds: what it says is known there alone, so all of it
is told when its end is on record."""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, Awaitable, Callable

from vivace.gateway.elsewhere.asking import Pauses
from vivace.gateway.elsewhere.runs import DistantTurn
from vivace.gateway.ports import Readable
from vivace.protocol.events import ResponseEvent

__all__ = ["AwaitedRecord"]


class AwaitedRecord:
    def __init__(
        self,
        turn: DistantTurn,
        look: Callable[[str, str], Awaitable[Readable | None]],
    ) -> None:
        """``look`` finds its record as soon as there is one here; it raises ``NotFound`` when it
        was deleted."""
        self._turn = turn
        self._look = look
        self._record: Readable | None = None

    @property
    def steered(self) -> bool:
        return self._record is not None and self._record.steered

    @property
    def weight(self) -> int:
        return len(self._turn.turn.request or b"")

    async def after(
        self, number: int, lane: str | None = None
    ) -> AsyncGenerator[list[ResponseEvent], None]:
        between = Pauses(math.inf)
        while self._record is None:
            await between.pause()
            self._record = await self._look(self._turn.id, self._turn.owner)
        async for events in self._record.after(number, lane):
            yield events

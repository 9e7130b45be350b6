"""The events of a turn that another gateway holds: what that tells, as far as it can be heard of
here, and the rest when the end is on record."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing

from vivace.errors import Unavailable
from vivace.gateway.elsewhere.asking import Pauses
from vivace.gateway.elsewhere.runs import DistantTurn
from vivace.gateway.ports import Readable
from vivace.protocol.events import ResponseCreated, ResponseEvent

__all__ = ["AwaitedRecord", "check_goes_on"]

_AGAIN, _AT_MOST = 1.0, 15.0
"""Seconds after which it is looked again for an engine that works on it: longer each time that
nothing came of it."""


def check_goes_on(turn_id: str, number: int, events: Sequence[ResponseEvent]) -> None:
    """Refuses events that do not follow those that were told, of which ``number`` was the last."""
    if number >= 0 and any(isinstance(each, ResponseCreated) for each in events):
        raise Unavailable(
            f"What response '{turn_id}' had said was lost with the servers that had it, and it "
            "runs again. Read it from its start.",
            code="lost_midway",
        )


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
        if self._record is None:
            looking = asyncio.create_task(self._wait_for_end())
            looking.add_done_callback(self._looked)
            pause = _AGAIN
            try:
                while not looking.done():
                    pause = min(2 * pause, _AT_MOST)
                    async with aclosing(self._meanwhile(number, lane)) as told:
                        async for events in told:
                            check_goes_on(self._turn.id, number, events)
                            number, pause = events[-1].sequence_number, _AGAIN
                            yield events
                    await asyncio.wait({looking}, timeout=pause)
                self._record = looking.result()
            finally:
                looking.cancel()
        async with aclosing(self._record.after(number, lane)) as told:
            async for events in told:
                check_goes_on(self._turn.id, number, events)
                yield events

    def _looked(self, looking: asyncio.Task[Readable]) -> None:
        if not looking.cancelled():  # others may read it still
            self._turn.ended()

    async def _meanwhile(
        self, number: int, lane: str | None
    ) -> AsyncGenerator[list[ResponseEvent], None]:
        """What its holder tells of it, until that cannot be heard any more."""
        async with self._turn.told() as record:
            if record is not None:
                async with aclosing(record.after(number, lane)) as told:
                    async for events in told:
                        yield events

    async def _wait_for_end(self) -> Readable:
        between = Pauses(math.inf)
        while True:
            await between.pause()
            found = await self._look(self._turn.id, self._turn.owner)
            if found is not None:
                return found

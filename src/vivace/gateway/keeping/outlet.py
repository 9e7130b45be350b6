"""An outlet whose words wait until they are on record; engines do not wait for that."""

from __future__ import annotations

import asyncio

from vivace.conversation.keeping import Keeping
from vivace.gateway.keeping.presence import Presence
from vivace.gateway.meter import Outlet
from vivace.protocol.events import Event

__all__ = ["KeptOutlet"]

_MOST_HELD = 4096
"""Events: whoever waits so long for the store may as well wait for it here."""


class KeptOutlet:
    """Of one kept turn. What is sent may be held here, and goes out as soon as ``recorded`` says
    that it may: who has to know that it went waits for ``drained``."""

    def __init__(self, outlet: Outlet, keeping: Keeping, presence: Presence | None = None) -> None:
        """``presence``: whether the turn may be another gateway's; None if there is none."""
        self._outlet = outlet
        self._keeping = keeping
        self._presence = presence
        self.silent = False
        """The turn is another's: nothing more is said of it here."""
        self._sending = asyncio.Lock()
        self._passing = False
        """Whether something is being sent that need not be held; a lock costs more than a word."""
        self._went = asyncio.Event()
        self._count = 0

    def certain(self) -> None:
        """Its end is on record, and so nobody's but ours."""
        self._presence, self.silent = None, False

    async def send(self, events: list[Event]) -> None:
        if self._presence is not None and not self._presence.sure:
            await self._presence.renewed()
        if self.silent:
            events.clear()
            return
        if self._passing or self._sending.locked() or not self._keeping.passes(events):
            await self._hold(events)
            return
        self._passing = True
        try:
            await self._outlet.send(events)  # what is not taken stays with whoever says it
        finally:
            self._passing = False
            self._went.set()

    async def _hold(self, events: list[Event]) -> None:
        self._keeping.say(events)
        self._count += len(events)
        events.clear()
        await self._flush()
        while self._count > _MOST_HELD:
            await self._next()

    async def recorded(self, what: str) -> None:
        self._keeping.recorded(what)
        await self._flush()

    async def drained(self) -> None:
        while self._keeping.holds or self._passing or self._sending.locked():
            await self._next()

    async def _next(self) -> None:
        self._went.clear()
        await self._went.wait()

    async def _flush(self) -> None:
        async with self._sending:
            while self._passing:
                await self._next()
            while ready := self._keeping.ready():
                self._count -= len(ready)
                try:
                    if self._presence is not None and not self._presence.sure:
                        await self._presence.renewed()
                    if not self.silent:
                        await self._outlet.send(ready)
                except BaseException:  # what was not taken is sent by whoever sends next
                    self._keeping.put_back(ready)
                    self._count += len(ready)
                    raise
        self._went.set()

"""A gateway that is to take no more turns, because somebody said so or its process is to end.

Who asked for it elsewhere is known by the store, where this gateway also tells how it stands.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time

import msgspec

from vivace import __version__
from vivace.errors import StoreError
from vivace.gateway.handing_over import HandingOver
from vivace.gateway.runner import Runner
from vivace.gateway.shown import About, State
from vivace.gateway.websocket import WebSocketDoor
from vivace.store.base import GatewayTable

__all__ = ["Draining"]

log = logging.getLogger("vivace.gateway")

_LOOK = 0.5
"""Seconds between two looks at what is wanted of this gateway."""
_AGAIN = 1.0
"""Seconds after which turns are handed over again that nobody took."""
_AT_THE_END = 8.0
"""Seconds that a process which is to end has for it."""


class Draining:
    def __init__(
        self,
        runner: Runner,
        door: WebSocketDoor,
        holder: str,
        name: str,
        table: GatewayTable | None = None,
        handing_over: HandingOver | None = None,
    ) -> None:
        """``table`` and ``handing_over``: where others share the store."""
        self.name = name
        self._runner = runner
        self._door = door
        self._holder = holder
        self._table = table
        self._handing_over = handing_over
        self._wanted: float | None = None
        self._task: asyncio.Task[None] | None = None
        self._giving: asyncio.Task[bool] | None = None
        self._for_good = False

    @property
    def active(self) -> bool:
        return self._runner.draining

    @property
    def why(self) -> str:
        """Why it takes no turns; empty if it does."""
        if not self.active:
            return ""
        return "shutting down" if self._for_good else "draining"

    def about(self) -> About:
        running = self._runner.running
        kept = self._handing_over is not None and self._handing_over.has_any
        state: State = "ready"
        if self.active:
            state = "draining" if running or kept else "drained"
        passing = sum(run.kept is None for run in running)
        return About(version=__version__, state=state, running=len(running), passing=passing)

    # -- as it is told ----------------------------------------------------------------------------

    async def watch(self) -> None:
        while True:
            with contextlib.suppress(StoreError):  # its trouble is known, and told elsewhere
                await self.look()
            await asyncio.sleep(_LOOK)

    async def look(self) -> None:
        """Tell how things stand, and do what is wanted. Raises ``StoreError``."""
        assert self._table is not None
        about = msgspec.json.encode(self.about())
        wanted = await self._table.tell(self._holder, self.name, about)
        if wanted is None or self._for_good or wanted.drain == self._wanted:
            return
        self._wanted = wanted.drain
        if self._task is not None:
            self._task.cancel()
            self._task = None
        if wanted.drain is None:
            self._runner.draining = False
            log.info("takes turns again")
        else:
            log.info("draining: no new turns; after %g s they are handed over", wanted.drain)
            self._task = asyncio.create_task(self._drain(wanted.drain))

    async def _drain(self, seconds: float) -> None:
        self._runner.draining = True
        await self._runner.calm(seconds)
        while True:
            with contextlib.suppress(StoreError):
                await self._hand_over()
            if not self._runner.running:  # whoever stays would be refused
                await self._door.close()
            await asyncio.sleep(_AGAIN)

    async def _hand_over(self) -> None:
        """Once begun, it comes to an end, though this gateway take turns again."""
        if self._handing_over is None:
            return
        if self._giving is None or self._giving.done():
            self._giving = asyncio.create_task(self._handing_over.hand_over())
        await asyncio.shield(self._giving)

    # -- at the end -------------------------------------------------------------------------------

    async def leave(self, seconds: float) -> None:
        """The process is to end: turns that do not end by themselves are handed over, and those
        that cannot be are stopped."""
        self._for_good = True
        self._runner.draining = self._runner.leaving = True
        until = time.monotonic() + seconds
        while await self._runner.calm(until - time.monotonic()) and await self._has_followers():
            pass
        waits = self._handing_over is not None and self._handing_over.has_any
        if self._runner.running or waits:
            with contextlib.suppress(StoreError, TimeoutError):
                async with asyncio.timeout(_AT_THE_END):
                    await self._hand_over()
            await self._runner.stop()

    async def _has_followers(self) -> bool:
        """Whether it was calm only because what follows a steered turn had not begun yet."""
        if self._handing_over is None:
            return False
        await self._handing_over.followers_begun()
        return bool(self._runner.running)

    async def gone(self) -> None:
        """Nothing more is said here: what it leaves behind need not wait until it counts as
        dead."""
        if self._table is not None:
            with contextlib.suppress(StoreError):
                await self._table.leave(self._holder)
            await self._table.close()

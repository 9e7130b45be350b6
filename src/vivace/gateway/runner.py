"""What all connections of a process share, and the turns that run on them.

Who carries out what a session decides is ``client_connection.py``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Protocol
from weakref import WeakSet

from vivace.conversation.session import Limits
from vivace.errors import Unavailable
from vivace.gateway.answering import Answering
from vivace.gateway.archive import Archive
from vivace.gateway.elsewhere.asking import Asking
from vivace.gateway.keeping.ending import Ending
from vivace.gateway.keeping.kept import Keeper
from vivace.gateway.keeping.recovery import Recovery
from vivace.gateway.keeping.reviving import Adopter, Reviving
from vivace.gateway.large import LargeWork, RequestReader
from vivace.gateway.listening import Listening
from vivace.gateway.meter import Outlet
from vivace.gateway.metrics import Metrics
from vivace.gateway.planning import Planner
from vivace.gateway.ports import RunDirectory
from vivace.gateway.resuming.moving import Ground
from vivace.gateway.resuming.telling import Telling
from vivace.gateway.runs import Run
from vivace.gateway.tasks import Tasks
from vivace.scheduling.memory import Memory

__all__ = ["Runner"]

_LAST_WORDS = 1.5
"""Seconds that clients get to take the end of a turn that was stopped at shutdown."""


class _Connected(Protocol):
    """A client that is connected."""

    owner: str

    def forget(self, response_id: str, owner: str) -> None: ...

    def revoke(self) -> None: ...


class Runner:
    """What all connections of a process share."""

    def __init__(
        self,
        planner: Planner,
        archive: Archive,
        keeper: Keeper,
        runs: RunDirectory,
        metrics: Metrics,
        limits: Limits,
        memory: Memory,
        large: LargeWork,
        knows: Callable[[str], bool],
        listening: Listening,
        recovery: Recovery,
        connect: Callable[[Runner, Outlet, str, str], Adopter],
        orphan_seconds: float = 15.0,
        asking: Asking | None = None,
    ) -> None:
        """``knows``: whether an owner that came in may still speak. ``connect`` makes a connection
        for a turn that goes on without its client. ``orphan_seconds``: how long a turn waits for
        its client that asked for it. ``asking`` asks other gateways, where there may be some."""
        self.planner = planner
        self.archive = archive
        self.keeper = keeper
        self.runs = runs
        self.metrics = metrics
        self.limits = limits
        self.memory = memory
        self.large = large
        self.reader = RequestReader(memory, large)
        self.knows = knows
        self.answering = Answering(planner, listening, metrics)
        self.ending = Ending(keeper, archive)
        self.reviving = Reviving(recovery, partial(connect, self))
        self.draining = False
        """No new turns."""
        self.leaving = False
        """Nor any that follow those that run, unless they can go on elsewhere."""
        self.background = Tasks()
        """What goes on when its client has left."""
        self.telling = Telling(archive, memory, runs, shared=asking is not None)
        self.asking = asking
        self.ground = Ground(
            runs,
            archive,
            self.telling,
            keeper.presence,
            asking,
            memory,
            self.background,
            orphan_seconds,
            self.reviving.wake,
        )
        self._running: set[Run] = set()
        self._connections: WeakSet[_Connected] = WeakSet()
        self._calm = asyncio.Event()
        self._calm.set()
        runs.on_forget(self._forget)

    def connected(self, client: _Connected) -> None:
        self._connections.add(client)

    async def delete(self, response_id: str, owner: str) -> bool:
        """Stop a turn if it runs, and forget it wherever it is remembered. A gateway that does not
        answer finds it gone when it writes."""
        with suppress(Unavailable):
            await self.cancel(response_id, owner)
        found = await self.archive.delete(response_id, owner)
        self.keeper.deleted()
        await self.runs.forget(response_id, owner)
        return found

    def _forget(self, response_id: str, owner: str) -> None:
        self.archive.forget(owner)
        for connection in self._connections:
            connection.forget(response_id, owner)

    async def cancel(self, response_id: str, owner: str) -> None:
        """Stop a turn, if it runs; returns when it has ended."""
        await self.keeper.presence.settled()
        run = await self.runs.find(response_id, owner)
        if run is not None:
            await run.cancel()

    async def began(self, run: Run) -> None:
        self._running.add(run)
        self._calm.clear()
        self.metrics.running.labels(run.model).inc()
        await self.runs.began(run)
        self.reviving.began(run.id)

    async def ended(self, run: Run) -> None:
        self._running.discard(run)
        if not self._running:
            self._calm.set()
        try:
            await self.runs.ended(run)
            if run.record is not None:
                await run.record.end(steered=run.steered and not run.taken, lost=run.taken)
                if run.taken:  # what is to be had of it is not all of it
                    await self.archive.events.delete(run.id, run.owner)
        finally:
            run.settle()
            run.over.set()
            self.metrics.running.labels(run.model).dec()

    def revoke(self, owner: str) -> None:
        """End everything of an owner that may not speak any more, and forget what only memory has;
        nothing is waited for."""
        self.archive.forget(owner)
        for connection in list(self._connections):
            if connection.owner == owner:
                connection.revoke()

    @property
    def running(self) -> list[Run]:
        return [*self._running]

    async def calm(self, seconds: float) -> bool:
        """Wait until nothing runs, and no longer than so many seconds; whether that is so."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._calm.wait(), seconds)
        return not self._running

    async def stop(self) -> None:
        """End what runs."""
        for run in self.running:
            run.stop_for_good()
        await self.calm(_LAST_WORDS)  # some wait for a client that takes nothing

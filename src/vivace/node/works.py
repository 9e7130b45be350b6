"""The engines of a node at work: each run is a task that reads an engine into its log."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from contextlib import aclosing

import msgspec

from vivace.conversation.log import Said
from vivace.engines.base import Engine, Tally, Work
from vivace.engines.remote_work import decode_work, how_it_broke
from vivace.errors import EngineAbsent, EngineError, LinkError
from vivace.link.frames import Tallied
from vivace.link.node_end import Begin, NodeEnd
from vivace.logs import place_of

__all__ = ["Works"]

log = logging.getLogger("vivace.node")

_TRACES = 4096
"""Runs whose engine's own notes are remembered."""


class Works:
    def __init__(
        self, engines: Mapping[str, Engine], end: NodeEnd, changed: Callable[[], None]
    ) -> None:
        """``changed`` is called when there may be something to send."""
        self._engines = engines
        self._end = end
        self._changed = changed
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._room: dict[str, asyncio.Event] = {}
        """Of those that wait until their gateway takes more."""
        self._traces: dict[str, object] = {}
        self._calm = asyncio.Event()
        self._calm.set()

    @property
    def running(self) -> int:
        return len(self._tasks)

    def begin(self, begun: Begin) -> None:
        run = begun.run.run
        task = self._tasks[run] = asyncio.create_task(self._run(begun))
        self._calm.clear()
        task.add_done_callback(lambda _: self._over(run))

    def halt(self, run: str) -> None:
        task = self._tasks.get(run)
        if task is not None:
            task.cancel()

    def _over(self, run: str) -> None:
        del self._tasks[run]
        self._room.pop(run, None)
        if not self._tasks:
            self._calm.set()
        self._changed()

    def room(self) -> None:
        """Gateways have taken something: those that waited for it may go on."""
        for run, event in self._room.items():
            if self._end.may_go_on(run):
                event.set()

    async def finished(self) -> None:
        await self._calm.wait()

    async def stop(self) -> None:
        for task in self._tasks.values():
            task.cancel()
        await self.finished()

    # -- one run ----------------------------------------------------------------------------------

    async def _run(self, begun: Begin) -> None:
        run, tally = begun.run, Tally()
        try:
            work = decode_work(run, begun.items, self._trace)
            tally = work.tally
            await self._read(run.run, run.engine, work)
        except EngineError as error:
            self._end.broke(run.run, how_it_broke(error, tally), time.monotonic())
        except (LinkError, msgspec.DecodeError) as error:
            problem = EngineError(f"The node cannot read what it was sent: {error}")
            self._end.broke(run.run, how_it_broke(problem, tally), time.monotonic())
        except Exception as error:  # noqa: BLE001 - whatever it is, it ends one run and no other
            log.error("fault turn=%s: %s", run.turn, place_of(error))
            problem = EngineError("The engine node failed; its log has the place.")
            self._end.broke(run.run, how_it_broke(problem, tally), time.monotonic())
        finally:
            self._keep_trace(run.run, tally.trace)

    async def _read(self, run: str, name: str, work: Work) -> None:
        engine = self._engines.get(name)
        if engine is None:
            raise EngineAbsent(f"This node has no engine {name!r} any more.")
        end, tally = self._end, work.tally
        async with aclosing(engine.generate(work)) as deltas:
            async for delta in deltas:
                told = Tallied(tally.input, tally.cached, tally.output, tally.steps)
                end.said(run, (Said(int(time.time()), delta),), told, time.monotonic())
                self._changed()
                while not end.may_go_on(run):
                    await self._until_room(run)

    async def _until_room(self, run: str) -> None:
        room = self._room.setdefault(run, asyncio.Event())
        room.clear()
        if not self._end.may_go_on(run):
            await room.wait()

    def _trace(self, run: str) -> object:
        return self._traces.get(run)

    def _keep_trace(self, run: str, trace: object) -> None:
        if trace is not None:
            self._traces[run] = trace
            while len(self._traces) > _TRACES:
                del self._traces[next(iter(self._traces))]

"""The engines of a node at work: who waits for one, and each run that reads one into its log.

The queue is here, where the slots are: several gateways ask the same engines, and none of them
knows what the others want.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from vivace.conversation.deltas import MAX_TOKENS, Finished
from vivace.conversation.log import Begun, Placed, Said
from vivace.engines.base import Engine, Tally, Work
from vivace.engines.remote_work import decode_work, how_it_broke, tallied
from vivace.errors import (
    EngineAbsent,
    EngineBusy,
    EngineDied,
    EngineError,
    EngineFull,
    LinkError,
    TooManyRequests,
    Unavailable,
)
from vivace.link.frames import Run, Tallied
from vivace.link.node_end import Begin, NodeEnd
from vivace.logs import place_of
from vivace.scheduling.queue import Job, Weights
from vivace.scheduling.scheduler import Outcome, Room, Scheduler, Started
from vivace.scheduling.tiers import Tier
from vivace.threads import in_thread

__all__ = ["Works"]

log = logging.getLogger("vivace.node")

_TELL_AGAIN = 0.5
"""Seconds for which one that waits is not told anew where it stands: many wait, and each of them is
told through its gateway."""
_TRACES = 4096
"""Runs whose engine's own notes are remembered."""
_LARGE_BYTES = 256_000
"""Bytes of work, which may take as many tens of milliseconds to decode."""
_MAX_TIERS = 1000
"""Names of tiers by which gateways call an engine here, each with its own memory of how long turns
took. Turns of further ones wait as of one tier."""
_WEIGHTS = Weights()


class _Waiting(Struct):
    begun: Begin
    position: int = 0
    at: float = float("-inf")
    """As it was told last, and when."""


class Works:
    def __init__(
        self,
        engines: Mapping[str, Engine],
        rooms: Mapping[str, Room],
        end: NodeEnd,
        changed: Callable[[], None],
        untaken_seconds: float = 60.0,
    ) -> None:
        """``changed`` is called when there may be something to send. ``untaken_seconds``: how long
        an engine waits for a gateway that takes nothing of an answer."""
        self._engines = engines
        self._end = end
        self._changed = changed
        self._untaken_seconds = untaken_seconds
        self._scheduler = Scheduler([], rooms)
        self._tiers: set[str] = set()
        self._jobs: dict[str, Job] = {}
        self._waiting: dict[str, _Waiting] = {}
        self._tasks: dict[str, asyncio.Task[Outcome]] = {}
        self._room: dict[str, asyncio.Event] = {}
        """Of those that wait until their gateway takes more."""
        self._traces: dict[str, object] = {}
        self._calm = asyncio.Event()
        self._calm.set()

    @property
    def running(self) -> int:
        return len(self._tasks)

    def waiting(self, engine: str) -> int:
        """How many have no slot yet."""
        return sum(each.begun.run.engine == engine for each in self._waiting.values())

    # -- who is next ------------------------------------------------------------------------------

    def begin(self, begun: Begin) -> None:
        run, now = begun.run, time.monotonic()
        if run.engine not in self._engines:
            self._refuse(run.run, EngineAbsent(f"This node has no engine {run.engine!r}."))
            return
        tier = self._tier(run)
        self._scheduler.offer(tier)
        job = Job(
            id=run.run,
            owner=run.owner,
            tier=tier.name,
            kind=run.kind,
            place=run.conversation,
            cost=run.cost,
            since=now,
            begun=run.begun,
        )
        try:
            decided = self._scheduler.submit(job, now)
        except TooManyRequests as error:
            self._refuse(run.run, self._full(job, error, now))
            return
        except Unavailable as error:
            self._refuse(run.run, EngineBusy(error.message, retry_after=error.retry_after))
            return
        self._jobs[run.run] = job
        self._waiting[run.run] = _Waiting(begun)
        self._calm.clear()
        if isinstance(decided, Started):
            self._start([decided])
        else:
            self._tell(run.run)

    def _tier(self, run: Run) -> Tier:
        """What it waits for, as its gateway has it: those of another tier do not count, though the
        engine be the same."""
        name = f"{run.tier}@{run.engine}"
        if name not in self._tiers and len(self._tiers) >= _MAX_TIERS:
            name = f"@{run.engine}"
        self._tiers.add(name)
        return Tier(name=name, engines=(run.engine,), queue=run.queue, first_token=run.first_token)

    def _full(self, job: Job, error: TooManyRequests, now: float) -> EngineFull:
        seconds = self._scheduler.waiting(job, now).seconds
        code = error.code or ""
        return EngineFull(error.message, code=code, seconds=seconds, retry_after=error.retry_after)

    def _refuse(self, run: str, error: EngineError) -> None:
        self._end.broke(run, how_it_broke(error, Tally()), time.monotonic())
        self._changed()

    def _start(self, started: Sequence[Started]) -> None:
        for each in started:
            run = each.job.id
            begun = self._waiting.pop(run).begun
            entry = Begun(int(time.time()), begun.run.summary)
            self._end.said(run, (entry,), Tallied(), time.monotonic())
            task = self._tasks[run] = asyncio.create_task(self._run(begun))
            task.add_done_callback(lambda task, run=run: self._over(run, task))  # type: ignore[misc]
        self._changed()

    def _over(self, run: str, task: asyncio.Task[Outcome]) -> None:
        del self._tasks[run]
        self._room.pop(run, None)
        outcome = Outcome(verdict="unknown") if task.cancelled() else task.result()
        self._left(self._jobs.pop(run), outcome)

    def _left(self, job: Job, outcome: Outcome) -> None:
        self._start(self._scheduler.finished(job, time.monotonic(), outcome))
        if not self._jobs:
            self._calm.set()

    def halt(self, run: str) -> None:
        """Nobody wants it any more."""
        task = self._tasks.get(run)
        if task is not None:
            task.cancel()
        elif self._waiting.pop(run, None) is not None:
            self._scheduler.withdraw(self._jobs.pop(run))
            if not self._jobs:
                self._calm.set()

    def look(self) -> None:
        """Tell those that wait where they stand, if that has changed."""
        now = time.monotonic()
        for run, waits in self._waiting.items():
            if now - waits.at >= _TELL_AGAIN:
                self._tell(run)

    def _tell(self, run: str) -> None:
        waits = self._waiting[run]
        found = self._scheduler.waiting(self._jobs[run], time.monotonic())
        if found.position != waits.position:
            waits.position, waits.at = found.position, time.monotonic()
            placed = Placed(int(time.time()), found.position, found.seconds)
            self._end.said(run, (placed,), Tallied(), time.monotonic())
            self._changed()

    def room(self) -> None:
        """Gateways have taken something: those that waited for it may go on."""
        for run, event in self._room.items():
            if self._end.may_go_on(run):
                event.set()

    async def finished(self) -> None:
        await self._calm.wait()

    async def stop(self) -> None:
        for run in list(self._jobs):
            self.halt(run)
        await self.finished()

    # -- one run ----------------------------------------------------------------------------------

    async def _run(self, begun: Begin) -> Outcome:
        name, turn, tally = begun.run.run, begun.run.turn, Tally()
        problem: EngineError = EngineDied("The engine ended without a last word.")
        whole = False
        try:
            engine = begun.run.engine
            work = await self._decoded(begun)
            tally = work.tally
            del begun  # it keeps the whole frame that the run came in
            await self._read(name, self._engines[engine], work)
            whole = True
        except EngineError as error:
            problem = error
        except (LinkError, msgspec.DecodeError) as error:
            problem = EngineError(f"The node cannot read what it was sent: {error}")
        except Exception as error:  # noqa: BLE001 - whatever it is, it ends one run and no other
            log.error("fault turn=%s: %s", turn, place_of(error))
            problem = EngineError("The engine node failed; its log has the place.")
        finally:  # does nothing where the run has its end
            self._end.broke(name, how_it_broke(problem, tally), time.monotonic())
            self._keep_trace(name, tally.trace)
        cost = _WEIGHTS.cost(max(0, tally.input - tally.cached), tally.output)
        return Outcome(cost=cost, verdict="good" if whole else "unknown")

    async def _decoded(self, begun: Begin) -> Work:
        """Decode what the engine is given: large schemas of tools beside the event loop."""
        run, items = begun.run, begun.items
        if len(run.work) <= _LARGE_BYTES:
            return decode_work(run, items, self._trace)
        return await in_thread(decode_work, run, items, self._trace)

    async def _read(self, run: str, engine: Engine, work: Work) -> None:
        end, tally = self._end, work.tally
        async with aclosing(engine.generate(work)) as deltas:
            async for delta in deltas:
                if isinstance(delta, Finished):
                    delta = replace(delta, tokens=delta.tokens.within(MAX_TOKENS))
                said = Said(int(time.time()), delta)
                if not end.said(run, (said,), tallied(tally), time.monotonic()):
                    raise EngineError(
                        "The engine said more than an answer may have, at once or in all.",
                        blame="always",
                    )
                self._changed()
                while not end.may_go_on(run):
                    await self._until_room(run)

    async def _until_room(self, run: str) -> None:
        room = self._room.setdefault(run, asyncio.Event())
        room.clear()
        if self._end.may_go_on(run):
            return
        try:
            async with asyncio.timeout(self._untaken_seconds):
                await room.wait()
        except TimeoutError:  # it holds a slot that others wait for
            raise EngineError("Its gateway took nothing of the answer for too long.") from None

    def _trace(self, run: str) -> object:
        return self._traces.get(run)

    def _keep_trace(self, run: str, trace: object) -> None:
        if trace is not None:
            self._traces[run] = trace
            while len(self._traces) > _TRACES:
                del self._traces[next(iter(self._traces))]

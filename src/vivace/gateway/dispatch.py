"""Carries out what the scheduler decides: who waits here, and which engine takes it next."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

from vivace.engines.base import Continues, Engine, QueueingEngine
from vivace.errors import EngineAbsent, Unavailable
from vivace.gateway.metrics import Metrics
from vivace.gateway.ports import EngineLog
from vivace.scheduling.queue import Job, Kind
from vivace.scheduling.scheduler import Outcome, Room, Scheduler, Started, Verdict, Waiting
from vivace.scheduling.tiers import Tier

__all__ = ["Dispatch", "Place"]

_LOOK_AGAIN = 0.5
"""Seconds after which one that waits looks at its place and at the engines' health."""
_PATIENCE = 60.0
"""Seconds for which one waits for an engine to come, where none is left."""

Tell = Callable[[Waiting], Awaitable[None]]


class Place:
    """A turn's place in the order of things: waiting, then on an engine, then gone."""

    def __init__(self, dispatch: Dispatch, job: Job) -> None:
        self.job = job
        self._dispatch = dispatch
        self.started: asyncio.Future[Started] = asyncio.get_running_loop().create_future()
        self.log: EngineLog | None = None
        """What an engine says of it that began with it for another gateway."""
        self._engine: Engine | None = None

    def take_over(self, log: EngineLog, engine: Engine) -> None:
        """It has one, which another gateway gave it: nothing is to be decided."""
        self.log = log
        self.start(Started(self.job, log.name), engine)

    def start(self, started: Started, engine: Engine) -> None:
        """The engine is remembered itself: another may have its name by the time it is asked."""
        self._engine = engine
        self.started.set_result(started)

    async def engine(self, tell: Tell) -> Engine:
        """Wait for an engine; ``tell`` hears where one stands meanwhile, when that has changed."""
        told: Waiting | None = None
        alone: float | None = None
        while not self.started.done():
            alone = self._alone_since(alone)
            waiting = self._dispatch.look(self.job)
            if told is None or waiting.position != told.position:
                told = waiting
                await tell(waiting)
            await asyncio.wait({self.started}, timeout=_LOOK_AGAIN)
        assert self._engine is not None
        return self._engine

    @property
    def waits_there(self) -> bool:
        """Whether it has an engine at which it will wait, as far as is known here."""
        return self.started.done() and self.started.result().waits

    @property
    def continues(self) -> Continues:
        """How the engine that it has, or had, goes on from what another said."""
        return self._engine.continues if self._engine is not None else "no"

    def _alone_since(self, before: float | None) -> float | None:
        """Since when there is no engine that it could wait for; not for ever."""
        if not self._dispatch.is_deserted(self.job):
            return None
        since = time.monotonic() if before is None else before
        if time.monotonic() - since > _PATIENCE:
            raise EngineAbsent(
                f"For {_PATIENCE:.0f} s there was no engine node that offers '{self.job.tier}'. "
                "Ask again when one is connected; /readyz and the log of this server say which "
                "are missing."
            )
        return since

    def leave(self, outcome: Outcome) -> None:
        """The turn is over, or waits no longer."""
        if self.log is not None:
            self.log.close()
        self._dispatch.left(self, outcome)

    def judge(self, verdict: Verdict) -> None:
        """Say of its engine what could not be said when the turn left it."""
        self._dispatch.judge(self.started.result(), verdict)


class Dispatch:
    def __init__(
        self,
        scheduler: Scheduler,
        engines: Mapping[str, Engine],
        metrics: Metrics,
        silent: Callable[[str], bool] = lambda _: False,
    ) -> None:
        """``silent``: whether an engine of this name does nothing of what it has to."""
        self._silent = silent
        self._scheduler = scheduler
        self._engines = engines
        self._metrics = metrics
        self._places: dict[str, Place] = {}
        self._measured: set[str] = set()
        self._measured_queues: set[tuple[str, Kind]] = set()
        self._queueing: dict[str, QueueingEngine] = {}

    def join(
        self, name: str, room: Room, tiers: Iterable[Tier], queueing: QueueingEngine | None = None
    ) -> None:
        """One of the engines is new; whoever waits for it begins. ``queueing``: itself, if others
        ask it, too."""
        if queueing is not None:
            self._queueing[name] = queueing
        self._scheduler.join(name, room, tiers)
        self._check_health()
        self._start(self._scheduler.fill(time.monotonic()))

    def leave(self, name: str, tiers: Iterable[Tier]) -> None:
        """It is none of the engines any more."""
        self._queueing.pop(name, None)
        self._scheduler.leave(name, tiers)

    def enter(self, job: Job) -> Place:
        """A place on an engine, or in the queue; refuses when that is hopeless."""
        self._check_health()
        place = Place(self, job)
        self._places[job.id] = place
        try:
            decided = self._scheduler.submit(job, time.monotonic())
        except BaseException:
            del self._places[job.id]
            raise
        if isinstance(decided, Started):
            self._start([decided])
        return place

    def taken_over(self, job: Job, log: EngineLog) -> Place:
        """The place of a turn that an engine has from another gateway. The engine counts it among
        what it has to do, so nobody else does."""
        engine = self._engines.get(log.name)
        if engine is None:
            raise Unavailable(f"{log.name} is gone.", code="engine_unavailable", retry_after=1)
        place = Place(self, job)
        place.take_over(log, engine)
        return place

    def look(self, job: Job) -> Waiting:
        self._check_health()
        self._start(self._scheduler.fill(time.monotonic()))
        return self._scheduler.waiting(job, time.monotonic())

    def left(self, place: Place, outcome: Outcome) -> None:
        if self._places.pop(place.job.id, None) is None:
            return
        if place.started.done():
            self._start(self._scheduler.finished(place.job, time.monotonic(), outcome))
        else:
            self._scheduler.withdraw(place.job)

    def judge(self, started: Started, verdict: Verdict) -> None:
        self._scheduler.judge(started, verdict, time.monotonic())

    def works(self, name: str) -> bool:
        """Whether a turn may leave its engine for this one."""
        self._check_health()
        return self._scheduler.works(name, time.monotonic())

    def is_left(self, name: str) -> bool:
        """Whether an engine is silent, and turns go elsewhere because they can."""
        self._check_health()
        return self._scheduler.is_left(name, time.monotonic())

    def share(self, tier: str, engine: str) -> int:
        """How many may wait at an engine that has a queue of its own, for this tier."""
        return self._scheduler.share(tier, engine, time.monotonic())

    def is_deserted(self, job: Job) -> bool:
        """Whether it waits for engines of which none is there, though one may come."""
        return self._scheduler.is_deserted(job, time.monotonic())

    def measure(self) -> None:
        """Write down how things stand, for whoever reads the metrics."""
        self._check_health()
        metrics = self._metrics
        lengths = self._scheduler.lengths()
        for labels in self._measured_queues - lengths.keys():
            metrics.queue.remove(*labels)
        self._measured_queues = set(lengths)
        for labels, length in lengths.items():
            metrics.queue.labels(*labels).set(length)
        loads = self._scheduler.loads(time.monotonic())
        gauges = (
            metrics.engine_running,
            metrics.engine_slots,
            metrics.engine_up,
            metrics.engine_circuit_open,
        )
        for name in self._measured - loads.keys():
            for gauge in gauges:
                gauge.remove(name)
        self._measured = set(loads)
        for name, load in loads.items():
            metrics.engine_running.labels(name).set(load.running)
            metrics.engine_slots.labels(name).set(load.slots)
            metrics.engine_up.labels(name).set(load.up)
            metrics.engine_circuit_open.labels(name).set(load.circuit_open)

    def _check_health(self) -> None:
        for name, engine in self._engines.items():
            self._scheduler.mark(name, up=engine.healthy(), silent=self._silent(name))
        for name, queueing in self._queueing.items():
            self._scheduler.tell(name, queueing.taken())

    def queueing(self, engine: Engine) -> QueueingEngine | None:
        """The engine, if it has a queue of its own."""
        found = self._queueing.get(engine.name)
        return found if found is engine else None

    def has_room(self, name: str, kind: Kind) -> bool:
        """Whether a turn could begin there at once."""
        self._check_health()
        return self._scheduler.has_room(name, kind, time.monotonic())

    def _start(self, started: Sequence[Started]) -> None:
        for each in started:
            job = each.job
            waited = time.monotonic() - job.since
            self._metrics.queue_wait.labels(job.tier, job.kind).observe(waited)
            self._places[job.id].start(each, self._engines[each.engine])

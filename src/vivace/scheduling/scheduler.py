"""Decides when a turn runs and where. Told what happened, it answers with what may start.

::

    submit(job) ─► Started(engine)                 there is room
                ├► Waiting(position, seconds)      later one of the lists below starts it
                └► TooManyRequests                 the queue is full, or it would take too long
    finished(job), fill() ─► [Started, …]          who was waited for, or came back
    withdraw, mark, judge, join, leave             told so that the next answer is right

An engine that leaves takes nothing more, and is forgotten when what it had has ended.

No clock and no waiting here: several gateways can share this state one day.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from math import ceil, inf
from typing import Literal

from msgspec import Struct

from vivace.errors import Unavailable
from vivace.scheduling.placement import BOUND, Breaker, Replica, Ring, place
from vivace.scheduling.queue import KINDS, FairQueue, Job, Kind
from vivace.scheduling.tiers import Tier, begins_too_late, deserted, queue_full
from vivace.scheduling.waits import Waits

__all__ = ["Outcome", "Room", "Scheduler", "Started", "Verdict", "Waiting"]


class Room(Struct, frozen=True):
    """How many turns an engine takes at once, and how many of these places are kept free for
    interactive ones."""

    slots: int
    reserved: int = 0
    queues: bool = False
    """What finds no place waits there, in a queue of its own: others ask that engine, too."""


_PATIENCE = 60.0
"""Seconds. Nobody is kept waiting for engines that take nothing for longer."""
_LOOK = 0.25
"""Seconds. What many ask for is looked at anew a few times a second, and not for each of them."""
_PLACES = 1000
"""Beyond this place in the queue, a guess will do."""


def _group(kind: Kind) -> Kind:
    """Background turns share the slots of agents, and last as long."""
    return "interactive" if kind == "interactive" else "agent"


class _Look(Struct, frozen=True):
    at: float
    places: dict[str, int]


class _Outlook(Struct, frozen=True):
    at: float
    seconds: Callable[[int], float]
    """How long one waits behind so many others."""


class Started(Struct, frozen=True):
    job: Job
    engine: str
    epoch: int = 0
    """Of the engine's circuit, for ``judge``."""
    waits: bool = False
    """It will wait there, as far as is known here, and may be refused for that."""


Verdict = Literal["good", "bad", "unknown", "later"]
"""On an engine, by a turn it had; "later": once it is known whether another engine can do it."""


class Outcome(Struct, frozen=True, kw_only=True):
    """How a turn left its engine."""

    cost: float = 0.0
    """Weighted tokens that it really took."""
    verdict: Verdict = "good"
    first_token: float | None = None
    """How long the engine took to its first word."""
    rest: float | None = None
    """For how long the engine wants to be left alone."""


class Waiting(Struct, frozen=True):
    position: int
    """1 is next."""
    seconds: float


class Load(Struct, frozen=True, kw_only=True):
    """How things stand with an engine."""

    running: int
    slots: int
    up: bool
    """Whether it runs, and does what it is asked."""
    circuit_open: bool
    """It failed too often, or asked to be left alone, and nothing goes there for a while."""


class _Engine:
    def __init__(self, name: str, room: Room, target: float, epoch: int = 0) -> None:
        self.name = name
        self.room = room
        self.up = True
        self.leaves = False
        self.silent = False
        self.running: Counter[Kind] = Counter()
        self.taken = 0
        """How many turns it has, as it told, those of others with them."""
        self.breaker = Breaker(target=target, epoch=epoch)

    def takes_turns(self, now: float) -> bool:
        return self.up and self.breaker.state(now) != "open"

    def replica(self, kind: Kind, now: float) -> Replica:
        """What there is of it for this kind of turn."""
        total = max(sum(self.running.values()), self.taken)
        usable = self.takes_turns(now)
        if kind == "interactive":
            return Replica(self.name, self.room.slots, total, usable, self.breaker.is_slow)
        patient = total - self.running["interactive"]
        slots = self.room.slots - self.room.reserved
        full = total >= self.room.slots
        running = slots if full else patient
        return Replica(self.name, slots, running, usable, self.breaker.is_slow)

    @property
    def pressure(self) -> float:
        """How much it has to do, for what it can do at once."""
        return max(self.running.total(), self.taken) / max(1, self.room.slots)

    def has_room(self, kind: Kind, now: float) -> bool:
        replica = self.replica(kind, now)
        return replica.healthy and replica.running < replica.slots


class Scheduler:
    def __init__(self, tiers: Iterable[Tier], rooms: Mapping[str, Room]) -> None:
        self._tiers = {tier.name: tier for tier in tiers}
        self._epoch = 0
        """Of those who join: what was said of an engine that is gone, is not said of its like."""
        self._engines = {
            name: _Engine(name, room, self._target_of(name)) for name, room in rooms.items()
        }
        self._queue = FairQueue()
        self._running: dict[str, tuple[Started, float]] = {}
        self._waits: dict[tuple[str, Kind], Waits] = {}
        self._looks: dict[str, _Look] = {}
        self._outlooks: dict[tuple[str, Kind], _Outlook] = {}

    def _target_of(self, engine: str) -> float:
        """The first token that the strictest of its tiers wants from an engine."""
        targets = [
            tier.first_token
            for tier in self._tiers.values()
            if engine in tier.engines and tier.first_token is not None
        ]
        return min(targets, default=inf)

    # -- who is there -----------------------------------------------------------------------------

    def join(self, name: str, room: Room, tiers: Iterable[Tier]) -> None:
        """It takes turns from now on. ``tiers``: all, as they are with it."""
        self._change(tiers)
        known = self._engines.get(name)
        epoch = self._epoch if known is None else known.breaker.epoch + 1
        engine = _Engine(name, room, self._target_of(name), epoch)
        if known is not None:  # what it had before has not ended yet
            engine.running = known.running
        self._engines[name] = engine

    def leave(self, name: str, tiers: Iterable[Tier]) -> None:
        """It takes none any more. ``tiers``: all, as they are without it."""
        self._change(tiers)
        engine = self._engines.get(name)
        if engine is not None:
            engine.leaves = True
            engine.up = engine.silent = False
            self._forget(engine)

    def offer(self, tier: Tier) -> None:
        """What comes next for it has these bounds; its engines stay as they are."""
        self._tiers[tier.name] = tier

    def _change(self, tiers: Iterable[Tier]) -> None:
        self._tiers = {tier.name: tier for tier in tiers}
        self._outlooks.clear()

    def _forget(self, engine: _Engine) -> None:
        """Once it has left and has nothing more to do."""
        if engine.leaves and not engine.running.total():
            del self._engines[engine.name]
            self._epoch = max(self._epoch, engine.breaker.epoch + 1)

    # -- what happens -----------------------------------------------------------------------------

    def submit(self, job: Job, now: float) -> Started | Waiting:
        if job.begun or not self._queue.has_like(job):
            engine = self._find(job, now)
            if engine is not None:
                self._queue.enter(job.owner)
                return self._start(job, engine, now)
        waiting = self._foretold(job, self._queue.ahead(job), now)
        self._check(job, waiting, now)
        self._queue.enter(job.owner)
        self._queue.push(job)
        return waiting

    def finished(self, job: Job, now: float, outcome: Outcome) -> list[Started]:
        found = self._running.pop(job.id, None)
        if found is None:
            return []
        run, since = found
        engine = self._engines[run.engine]
        engine.running[job.kind] -= 1
        self._queue.charge(job.owner, outcome.cost - job.cost)
        self._queue.leave(job.owner)
        if outcome.first_token is not None:
            engine.breaker.first_token_took(outcome.first_token)
        if outcome.rest is not None:
            engine.breaker.rest(now + outcome.rest)
        if outcome.verdict == "good":
            self._waits_of(job.tier, job.kind).ended(now - since)
        self.judge(run, outcome.verdict, now)
        self._forget(engine)
        return self.fill(now)

    def judge(self, run: Started, verdict: Verdict, now: float) -> None:
        """What became of what an engine was given, which may be gone by now."""
        engine = self._engines.get(run.engine)
        if engine is None:
            return
        breaker = engine.breaker
        match verdict:
            case "good":
                breaker.succeeded(run.epoch)
            case "bad":
                breaker.failed(run.epoch, now)
            case "unknown":
                breaker.dropped(run.epoch, now)

    def withdraw(self, job: Job) -> None:
        """It waits no longer."""
        if self._queue.remove(job):
            self._queue.leave(job.owner)

    def mark(self, engine: str, *, up: bool, silent: bool = False) -> None:
        """``silent``: it runs, and does nothing of what it has to."""
        found = self._engines.get(engine)
        if found is not None and not found.leaves:
            found.up, found.silent = up, silent

    def tell(self, engine: str, taken: int) -> None:
        """How many turns an engine has that others ask, too."""
        found = self._engines.get(engine)
        if found is not None:
            found.taken = taken

    def fill(self, now: float) -> list[Started]:
        """Start whoever there is room for."""
        started: list[Started] = []
        while (job := self._next(now)) is not None:
            engine = self._find(job, now)
            assert engine is not None, "it was taken because there is room"
            started.append(self._start(job, engine, now))
        return started

    def _next(self, now: float) -> Job | None:
        return self._queue.pop(lambda job: self._has_room(job, now))

    # -- what others ask --------------------------------------------------------------------------

    def waiting(self, job: Job, now: float) -> Waiting:
        """Where one stands, by a look that all who wait share."""
        look = self._looks.get(job.tier)
        if look is None or now - look.at > _LOOK:
            look = self._looks[job.tier] = _Look(now, self._queue.places(job.tier, _PLACES))
        ahead = look.places.get(job.id)
        return self._foretold(job, self._queue.ahead(job) if ahead is None else ahead, now)

    def _foretold(self, job: Job, ahead: int, now: float) -> Waiting:
        if self._has_room(job, now):
            return Waiting(ahead + 1, 0.0)
        seconds = self._outlook(job.tier, _group(job.kind), now).seconds(ahead)
        closed = min(self._closed_for(job, now), _PATIENCE)  # when one comes, nobody knows
        return Waiting(ahead + 1, max(seconds, closed))

    def _outlook(self, name: str, group: Kind, now: float) -> _Outlook:
        outlook = self._outlooks.get((name, group))
        if outlook is None or now - outlook.at > _LOOK:
            engines = self._tiers[name].engines
            running = [
                now - since
                for run, since in self._running.values()
                if run.engine in engines
                and (group == "interactive" or run.job.kind != "interactive")
            ]
            slots = sum(self._engines[engine].replica(group, now).slots for engine in engines)
            seconds = self._waits_of(name, group).outlook(running, slots)
            outlook = self._outlooks[name, group] = _Outlook(now, seconds)
        return outlook

    def lengths(self) -> dict[tuple[str, Kind], int]:
        return {
            (tier, kind): self._queue.count(tier, kind) for tier in self._tiers for kind in KINDS
        }

    def loads(self, now: float) -> dict[str, Load]:
        """Of each engine."""
        return {
            name: Load(
                running=sum(engine.running.values()),
                slots=engine.room.slots,
                up=engine.up and not engine.silent,
                circuit_open=engine.breaker.state(now) == "open",
            )
            for name, engine in self._engines.items()
        }

    def has_room(self, engine: str, kind: Kind, now: float) -> bool:
        """Whether a turn could begin there at once."""
        return self.works(engine, now) and self._engines[engine].has_room(kind, now)

    def works(self, engine: str, now: float) -> bool:
        """Whether turns may leave another engine for this one."""
        found = self._engines.get(engine)
        return found is not None and found.takes_turns(now) and not found.silent

    def share(self, tier: str, engine: str, now: float) -> int:
        """How many of those that may wait for a tier may do so at this engine, which has a queue
        of its own: as many as it has of their slots, and one at least."""
        known = self._tiers.get(tier)
        if known is None or engine not in known.engines:  # it has just left
            return 1
        engines = [self._engines[name] for name in known.engines]
        all_slots = sum(
            each.room.slots
            for each in engines
            if each.room.queues and (each.name == engine or each.takes_turns(now))
        )
        return max(1, ceil(known.queue * self._engines[engine].room.slots / max(1, all_slots)))

    def is_left(self, engine: str, now: float) -> bool:
        """Whether it is silent, and turns go elsewhere because they can."""
        found = self._engines.get(engine)
        return (found is not None and found.silent) and any(
            self.works(other, now)
            for tier in self._tiers.values()
            if engine in tier.engines
            for other in tier.engines
        )

    def is_deserted(self, job: Job, now: float) -> bool:
        """Whether it waits for engines of which none is there, though one may come."""
        return self._tiers[job.tier].grows and self._closed_for(job, now) == inf

    # -- inside -----------------------------------------------------------------------------------

    def _waits_of(self, tier: str, kind: Kind) -> Waits:
        return self._waits.setdefault((tier, _group(kind)), Waits())

    def _check(self, job: Job, waiting: Waiting, now: float) -> None:
        tier = self._tiers[job.tier]
        closed = self._closed_for(job, now)
        if job.begun and self.is_deserted(job, now):
            return
        if not tier.engines:
            raise deserted(tier.name)
        if closed > _PATIENCE:
            when = "in a moment" if closed == inf else f"in {closed:.0f} s"
            raise Unavailable(
                f"No engine for '{tier.name}' takes turns now; try again {when}.",
                code="engine_unavailable",
                retry_after=1 if closed == inf else closed,
            )
        if job.begun:
            return
        if waiting.position > tier.queue:
            raise queue_full(tier, waiting.seconds)
        if tier.first_token is not None and waiting.seconds > tier.first_token:
            raise begins_too_late(tier, waiting.seconds)

    def _pool(self, job: Job, now: float) -> list[_Engine]:
        """Which engines it may run on. A silent one may only be slow, so it is not left where no
        other takes turns."""
        names = [name for name in self._tiers[job.tier].engines if name not in job.avoid]
        if any(self.works(name, now) for name in names):
            names = [name for name in names if not self._engines[name].silent]
        return [self._engines[name] for name in names]

    def _closed_for(self, job: Job, now: float) -> float:
        """Seconds until an engine of its pool takes turns at all; infinite if all are down."""
        up = (engine for engine in self._pool(job, now) if engine.up)
        return min((engine.breaker.opens_in(now) for engine in up), default=inf)

    def _has_room(self, job: Job, now: float) -> bool:
        return any(engine.has_room(job.kind, now) for engine in self._pool(job, now))

    def _find(self, job: Job, now: float) -> str | None:
        replicas = [engine.replica(job.kind, now) for engine in self._pool(job, now)]
        if self._tiers[job.tier].spill:
            free = (each.name for each in replicas if each.healthy and each.running < each.slots)
            return next(free, None) or next(self._queueing(replicas), None)
        placed = place(job.place, replicas, bound=BOUND)
        if placed is not None:
            return placed.name
        queues = {name: self._engines[name].room.slots for name in self._queueing(replicas)}
        order = Ring(queues).order(job.place)
        if job.avoid:  # it is not at home anyway; where this is full, others are too
            return min(order, key=lambda name: self._engines[name].pressure, default=None)
        return next(iter(order), None)

    def _queueing(self, replicas: Iterable[Replica]) -> Iterator[str]:
        """Those at which one can wait."""
        return (
            each.name for each in replicas if each.healthy and self._engines[each.name].room.queues
        )

    def _start(self, job: Job, engine: str, now: float) -> Started:
        waits = not self._engines[engine].has_room(job.kind, now)
        epoch = self._engines[engine].breaker.begin(now)  # it may be the one probe
        assert epoch is not None, "it was found because its circuit is not open"
        self._engines[engine].running[job.kind] += 1
        started = Started(job, engine, epoch, waits)
        self._running[job.id] = (started, now)
        self._queue.charge(job.owner, job.cost)
        return started

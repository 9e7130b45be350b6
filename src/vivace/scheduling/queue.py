"""Who is next: interactive work first, and between keys the one that was served least.

Fairness between keys is counted in tokens, not in requests (a virtual token counter): each key has
a counter of what it was given, and the smallest goes first. A key that comes back after a rest
starts level with the least served of those at work, so that nobody saves up turns by staying away.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from heapq import heapify, heappop, heapreplace, merge
from itertools import islice
from operator import attrgetter, itemgetter
from typing import Literal

from msgspec import Struct

from vivace.scheduling.ranking import Rank, Ranking

__all__ = ["KINDS", "FairQueue", "Job", "Kind", "Weights"]

Kind = Literal["interactive", "agent", "background"]
"""A keystroke or a word of the person; a turn of a longer task; what nobody waits for."""

KINDS: tuple[Kind, ...] = ("interactive", "agent", "background")


_MAX_AWAY = 10_000
"""Owners that have nothing here, of which it is remembered what they were given."""


class Weights(Struct, frozen=True):
    """What a token costs: writing one takes a step of the engine, reading is done many at once."""

    read: float = 1.0
    written: float = 4.0

    def cost(self, read: int, written: int) -> float:
        return self.read * read + self.written * written


class Job(Struct, frozen=True, kw_only=True, eq=False):
    """A turn that wants to run."""

    id: str
    owner: str
    tier: str
    kind: Kind
    place: str
    """What it should stay together with: its conversation."""
    cost: float
    """Weighted tokens, as far as one can tell before."""
    since: float
    avoid: frozenset[str] = frozenset()
    """Engines that have failed it already, or cannot go on with it."""
    begun: bool = False
    """It lost its engine in the middle of its answer: it is not refused for coming late."""


class _Lane:
    """Turns that wait for the same engines with the same urgency: what one fits, they all fit."""

    __slots__ = ("length", "queues", "ranking")

    def __init__(self) -> None:
        self.length = 0
        self.queues: dict[str, OrderedDict[str, _Arrived]] = {}
        """Of each owner, in the order in which they came."""
        self.ranking = Ranking()
        """Of the owners: the least served first, and of these the one that came first."""

    def push(self, arrived: _Arrived, served: float) -> None:
        owner = arrived.job.owner
        queue = self.queues.setdefault(owner, OrderedDict())
        queue[arrived.job.id] = arrived
        self.length += 1
        self.rank(owner, served)

    def remove(self, job: Job, served: float) -> bool:
        queue = self.queues.get(job.owner)
        if queue is None or queue.pop(job.id, None) is None:
            return False
        self.length -= 1
        if queue:
            self.rank(job.owner, served)
        else:
            del self.queues[job.owner]
            self.ranking.drop(job.owner)
        return True

    def rank(self, owner: str, served: float) -> None:
        if owner in self.queues:
            self.ranking.put(owner, (served, _head(self.queues[owner]).number))

    def first(self) -> tuple[Rank, Job]:
        first = self.ranking.first()
        assert first is not None, "a lane that is empty is given up"
        rank, owner = first
        return rank, _head(self.queues[owner]).job


class _Arrived(Struct, frozen=True):
    number: int
    job: Job


_NONE: OrderedDict[str, _Arrived] = OrderedDict()


def _head(queue: OrderedDict[str, _Arrived]) -> _Arrived:
    return next(iter(queue.values()))


class FairQueue:
    """Nothing here costs more than O(log n) of the owners that wait, but for ``places``, which
    looks at them all."""

    def __init__(self) -> None:
        self._lanes: dict[Kind, dict[tuple[str, frozenset[str]], _Lane]] = {
            kind: {} for kind in KINDS
        }
        self._served: dict[str, float] = {}
        self._at_work: dict[str, int] = {}
        self._levels = Ranking()
        """Of those at work, by what they were given."""
        self._arrivals = 0

    def __len__(self) -> int:
        return sum(lane.length for lanes in self._lanes.values() for lane in lanes.values())

    def count(self, tier: str, kind: Kind) -> int:
        return sum(lane.length for lane in self._of_tier(tier, kind))

    def has_like(self, job: Job) -> bool:
        """Whether one waits for the same engines with the same urgency."""
        return (job.tier, job.avoid) in self._lanes[job.kind]

    def _of_tier(self, tier: str, kind: Kind) -> list[_Lane]:
        return [lane for (name, _), lane in self._lanes[kind].items() if name == tier]

    # -- counting what was given ------------------------------------------------------------------

    def enter(self, owner: str) -> None:
        """The owner has one more turn here, waiting or running."""
        if owner not in self._at_work:
            least = self._levels.first()
            floor = least[0][0] if least is not None else 0.0
            self._forget_served(floor)
            self._served[owner] = served = max(self._served.get(owner, 0.0), floor)
            self._levels.put(owner, (served, 0))
        self._at_work[owner] = self._at_work.get(owner, 0) + 1

    def leave(self, owner: str) -> None:
        self._at_work[owner] -= 1
        if not self._at_work[owner]:
            del self._at_work[owner]
            self._levels.drop(owner)
            if not self._at_work:
                self._served.clear()  # nobody is here to be fair to

    def _forget_served(self, floor: float) -> None:
        """Forget idle owners that would start from ``floor`` anyway, once there are many."""
        if len(self._served) - len(self._at_work) < _MAX_AWAY:
            return
        self._served = {
            owner: served
            for owner, served in self._served.items()
            if owner in self._at_work or served > floor
        }
        if len(self._served) - len(self._at_work) >= _MAX_AWAY:
            self._served = {owner: self._served[owner] for owner in self._at_work}

    def charge(self, owner: str, cost: float) -> None:
        """More was given, or less than was charged before."""
        self._served[owner] = served = self._served.get(owner, 0.0) + cost
        if owner in self._at_work:
            self._levels.put(owner, (served, 0))
        for lanes in self._lanes.values():
            for lane in lanes.values():
                lane.rank(owner, served)

    # -- waiting ----------------------------------------------------------------------------------

    def push(self, job: Job) -> None:
        self._arrivals += 1
        lane = self._lanes[job.kind].setdefault((job.tier, job.avoid), _Lane())
        lane.push(_Arrived(self._arrivals, job), self._served[job.owner])

    def remove(self, job: Job) -> bool:
        lanes, like = self._lanes[job.kind], (job.tier, job.avoid)
        if like not in lanes or not lanes[like].remove(job, self._served[job.owner]):
            return False
        if not lanes[like].length:
            del lanes[like]
        return True

    def pop(self, fits: Callable[[Job], bool]) -> Job | None:
        """The next one for whom there is room."""
        for lanes in self._lanes.values():
            firsts = [lane.first() for lane in lanes.values()]
            fitting = [(rank, job) for rank, job in firsts if fits(job)]
            if fitting:
                _, job = min(fitting, key=itemgetter(0))
                self.remove(job)
                return job
        return None

    def ahead(self, job: Job) -> int:
        """About how many would be taken before one that comes now, by counts alone: everyone else
        gets as many turns first as its owner has asked for before it, and one more."""
        before = sum(self.count(job.tier, kind) for kind in KINDS[: KINDS.index(job.kind)])
        length = own = owners = 0
        for lane in self._of_tier(job.tier, job.kind):
            mine = lane.queues.get(job.owner, _NONE)
            itself = job.id in mine
            length += lane.length - itself
            own += len(mine) - itself
            owners += len(lane.queues) - bool(mine)
        return before + min(length, own + (own + 1) * owners)

    def places(self, tier: str, most: int) -> dict[str, int]:
        """For each that waits in a tier, up to so many, how many would be taken before it if nobody
        else came."""
        return {job.id: place for place, job in enumerate(islice(self._in_order(tier), most))}

    def _in_order(self, tier: str) -> Iterator[Job]:
        served: dict[str, float] = {}
        for kind in KINDS:
            queues: dict[str, list[Iterator[_Arrived]]] = {}
            for lane in self._of_tier(tier, kind):
                for owner, queue in lane.queues.items():
                    queues.setdefault(owner, []).append(iter(queue.values()))
            waiting = []
            for owner, parts in queues.items():
                rest = merge(*parts, key=attrgetter("number")) if len(parts) > 1 else parts[0]
                arrived = next(rest)
                level = served.get(owner, self._served[owner])
                waiting.append((level, arrived.number, arrived.job, rest))
            heapify(waiting)
            while waiting:
                level, _, job, rest = waiting[0]
                yield job
                served[job.owner] = level + job.cost
                following = next(rest, None)
                if following is None:
                    heappop(waiting)
                else:
                    place = (level + job.cost, following.number, following.job, rest)
                    heapreplace(waiting, place)

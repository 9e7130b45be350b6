"""Who is next: interactive work first, and between keys the one that was served least.

Fairness between keys is counted in tokens, not in requests (a virtual token counter): each key has
a counter of what it was given, and the smallest goes first. A key that comes back after a rest
starts level with the least served of those at work, so that nobody saves up turns by staying away.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Literal

from msgspec import Struct

__all__ = ["KINDS", "FairQueue", "Job", "Kind", "Weights"]

Kind = Literal["interactive", "agent", "background"]
"""A keystroke or a word of the person; a turn of a longer task; what nobody waits for."""

KINDS: tuple[Kind, ...] = ("interactive", "agent", "background")


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
    """Engines that have failed it already."""


class FairQueue:
    def __init__(self) -> None:
        self._waiting: dict[Kind, dict[str, deque[Job]]] = {kind: {} for kind in KINDS}
        self._served: dict[str, float] = {}
        self._at_work: dict[str, int] = {}
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def count(self, tier: str, kind: Kind) -> int:
        queues = self._waiting[kind].values()
        return sum(1 for queue in queues for job in queue if job.tier == tier)

    def has_like(self, job: Job) -> bool:
        """Whether one waits for the same engines with the same urgency."""
        queues = self._waiting[job.kind].values()
        return any(each.tier == job.tier and each.avoid == job.avoid for q in queues for each in q)

    # -- counting what was given ------------------------------------------------------------------

    def enter(self, owner: str) -> None:
        """The owner has one more turn here, waiting or running."""
        if owner not in self._at_work:
            others = [self._served[each] for each in self._at_work]
            self._served[owner] = max(self._served.get(owner, 0.0), min(others, default=0.0))
        self._at_work[owner] = self._at_work.get(owner, 0) + 1

    def leave(self, owner: str) -> None:
        self._at_work[owner] -= 1
        if not self._at_work[owner]:
            del self._at_work[owner]
            if not self._at_work:
                self._served.clear()  # nobody is here to be fair to

    def charge(self, owner: str, cost: float) -> None:
        """More was given, or less than was charged before."""
        self._served[owner] = self._served.get(owner, 0.0) + cost

    # -- waiting ----------------------------------------------------------------------------------

    def push(self, job: Job) -> None:
        self._waiting[job.kind].setdefault(job.owner, deque()).append(job)
        self._length += 1

    def remove(self, job: Job) -> bool:
        queue = self._waiting[job.kind].get(job.owner)
        if queue is None or job not in queue:
            return False
        queue.remove(job)
        if not queue:
            del self._waiting[job.kind][job.owner]
        self._length -= 1
        return True

    def pop(self, fits: Callable[[Job], bool]) -> Job | None:
        """The next one for whom there is room."""
        for kind in KINDS:
            owners = self._waiting[kind]
            for owner in sorted(owners, key=self._served.__getitem__):
                for job in owners[owner]:
                    if fits(job):
                        self.remove(job)
                        return job
        return None

    def places(self, tier: str) -> dict[str, int]:
        """For each that waits in a tier, how many would be taken before it if nobody else came."""
        return {job.id: place for place, job in enumerate(self._in_order(tier))}

    def _in_order(self, tier: str) -> Iterator[Job]:
        for kind in KINDS:
            served = dict(self._served)
            queues = {
                owner: deque(job for job in queue if job.tier == tier)
                for owner, queue in self._waiting[kind].items()
            }
            queues = {owner: queue for owner, queue in queues.items() if queue}
            while queues:
                owner = min(queues, key=served.__getitem__)
                job = queues[owner].popleft()
                served[owner] += job.cost
                if not queues[owner]:
                    del queues[owner]
                yield job

"""How long a turn in the queue will still wait, from how long turns have taken lately.

Nobody knows how long an answer will be, and a few are very long. So no mean is taken: turns that
ended lately are a sample, and what runs now will go on as those of the sample did that lasted at
least as long. Playing that through a few times gives the start of the one that waits.
"""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Sequence
from statistics import median

__all__ = ["Waits"]

_PLAYS = 9
_GOLDEN = 0.6180339887498949
_FAR = 48
"""Beyond this many turns ahead the mean is as good, and costs nothing."""


class Waits:
    def __init__(self, memory: int = 256) -> None:
        self._took: deque[float] = deque(maxlen=memory)
        self._turn = 0

    def ended(self, seconds: float) -> None:
        self._took.append(seconds)

    @property
    def mean(self) -> float:
        return sum(self._took) / len(self._took) if self._took else 0.0

    def estimate(self, ahead: int, running: Sequence[float], slots: int) -> float:
        """Seconds until a slot is free for the one behind ``ahead`` others.

        ``running``: how long each of those at work has been so.
        """
        return self.outlook(running, slots)(ahead)

    def outlook(self, running: Sequence[float], slots: int) -> Callable[[int], float]:
        """The same for everyone who waits, played through once for all of them."""
        if not self._took or not running:
            return lambda ahead: 0.0
        sample = sorted(self._took)
        plays = [self._play(sample, running) for _ in range(_PLAYS)]
        starts: list[float] = [median(each) for each in zip(*plays, strict=True)]
        beyond = self.mean / max(1, slots)

        def estimate(ahead: int) -> float:
            near = min(ahead, len(starts) - 1)
            return starts[near] + (ahead - near) * beyond

        return estimate

    def _play(self, sample: list[float], running: Sequence[float]) -> list[float]:
        """When a slot becomes free for the first, the second … of those who wait."""
        ends = [self._rest(sample, since) for since in running]
        heapq.heapify(ends)
        starts = []
        for _ in range(_FAR):
            starts.append(ends[0])
            heapq.heapreplace(ends, ends[0] + self._draw(sample))
        return [*starts, ends[0]]

    def _rest(self, sample: list[float], since: float) -> float:
        """How long something may still take that has taken this long."""
        longer = sample[bisect_right(sample, since) :]
        if not longer:  # longer than all we know; such a thing takes about as long again
            return max(since, sample[-1])
        return self._draw(longer) - since

    def _draw(self, sample: Sequence[float]) -> float:
        """One of them, each as often as the others: the golden ratio's steps spread evenly, and
        the same past always foretells the same."""
        self._turn += 1
        return sample[int(self._turn * _GOLDEN % 1 * len(sample))]

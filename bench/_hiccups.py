"""When the machine stood still, as told by processes that only sleep.

A shared machine takes its processors away for tens of milliseconds at a time, from everybody. One
sleeper on each processor asks to be woken every millisecond and notes when it was woken late. A
sample that overlaps such a moment says something of the machine and nothing of what is measured:
it is printed with all the others, and left out where a limit in milliseconds is judged.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import TypeVar

LATE = 0.010
"""Seconds: more than a busy neighbour in the run queue makes a sleeper wait."""
NAP = 0.001

T = TypeVar("T")
Span = tuple[float, float]
"""From, to, by ``time.perf_counter``, which all processes of a machine share."""


@dataclass
class Hiccups:
    """All of them, once the watching has ended."""

    spans: list[Span] = field(default_factory=list)

    def outside(self, samples: Sequence[T], spans: Sequence[Span]) -> list[T]:
        """The samples that were taken while the machine ran."""
        return [
            sample for sample, span in zip(samples, spans, strict=True) if not self._touch(span)
        ]

    def _touch(self, span: Span) -> bool:
        start, end = span
        return any(start < until and since < end for since, until in self.spans)


def _sleep(processor: int, stop: Connection) -> None:
    os.sched_setaffinity(0, {processor})
    spans: list[Span] = []
    slept = time.perf_counter()
    while not stop.poll():
        time.sleep(NAP)
        woke = time.perf_counter()
        if woke - slept > NAP + LATE:
            spans.append((slept, woke))
        slept = woke
    stop.send(spans)


@contextlib.contextmanager
def watched() -> Iterator[Hiccups]:
    """Watches while the block runs; what was seen is there when it ends."""
    hiccups = Hiccups()
    sleepers = []
    for processor in sorted(os.sched_getaffinity(0)):
        ours, theirs = multiprocessing.Pipe()
        sleeper = multiprocessing.Process(target=_sleep, args=(processor, theirs), daemon=True)
        sleeper.start()
        sleepers.append((sleeper, ours))
    try:
        yield hiccups
    finally:
        for sleeper, ours in sleepers:
            ours.send(None)
            hiccups.spans += ours.recv()
            sleeper.join()

"""Count what a piece of work costs, where a clock would judge the machine as well."""

from __future__ import annotations

import cProfile
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def calls(work: Callable[[], object]) -> int:
    """Return how many functions ``work`` calls, those written in C included.

    Counting makes the work about twice as slow.
    """
    profile = cProfile.Profile()
    profile.runcall(work)
    return sum(entry.callcount for entry in profile.getstats())


def lines_run(work: Callable[[], object]) -> int:
    """Return how many lines of Python ``work`` runs, each turn of a loop counted.

    Counting makes the work several times as slow.
    """
    count = 0

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    _traced(work, trace)
    return count


def instructions(work: Callable[[], object]) -> int:
    """Return how many instructions of Python ``work`` runs.

    Counting makes the work many times as slow, so that it suits short work.
    """
    count = 0

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal count
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        count += event == "opcode"
        return trace

    _traced(work, trace)
    return count


def _traced(work: Callable[[], object], trace: Callable[[FrameType, str, object], Any]) -> None:
    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)

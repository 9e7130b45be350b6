"""Python code in a thread beside an event loop, which gets the interpreter's lock back soon.

A thread that computes gives up the lock when another wants it, by default after 5 ms. The event
loop wants it anew for each socket that has something to say, so that with many connections it would
stand still for most of the time. While such work runs, the lock is given up ten times as often.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable
from typing import TypeVar, TypeVarTuple

__all__ = ["giving_way", "in_thread"]

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

_INTERVAL_S = 0.0005


class _SwitchInterval:
    """That of the interpreter, which is short while any work runs that gives way."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running = 0
        self._usual = 0.0

    def shorten(self) -> None:
        with self._lock:
            if not self._running:
                self._usual = sys.getswitchinterval()
                sys.setswitchinterval(_INTERVAL_S)
            self._running += 1

    def restore(self) -> None:
        with self._lock:
            self._running -= 1
            if not self._running:
                sys.setswitchinterval(self._usual)


_switch_interval = _SwitchInterval()


def giving_way(work: Callable[[*Ts], T], *args: *Ts) -> T:
    """Return what ``work`` does, in a thread of which this is called."""
    _switch_interval.shorten()
    try:
        return work(*args)
    finally:
        _switch_interval.restore()


async def in_thread(work: Callable[[*Ts], T], *args: *Ts) -> T:
    """Return what ``work`` does in a thread of the event loop's own."""
    return await asyncio.get_running_loop().run_in_executor(None, giving_way, work, *args)

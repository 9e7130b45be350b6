"""An event loop whose clock jumps to whatever is due next: hours pass in no time."""

from __future__ import annotations

import asyncio
import math
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

_SETTLED_S = 0.002
"""Real seconds in which nothing came over any socket, so that nothing is on its way."""


class _Selector(selectors.DefaultSelector):
    def __init__(self, tick: float, sockets: bool) -> None:
        super().__init__()
        self.now = 0.0
        self._tick = tick
        self._sockets = sockets

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout is None and self._sockets:
            return super().select()
        timeout = max(0.0, timeout or 0.0)
        settled = _SETTLED_S if timeout > _SETTLED_S else 0
        if self._sockets and (ready := super().select(settled)):
            return ready
        self.now += timeout
        if timeout and self._tick:
            self.now = self._tick * math.ceil(self.now / self._tick - 1e-9)
        return super().select(0)


class _Loop(asyncio.SelectorEventLoop):
    def __init__(self, tick: float, sockets: bool) -> None:
        self._virtual = _Selector(tick, sockets)
        super().__init__(self._virtual)

    def time(self) -> float:
        return self._virtual.now


def run(work: Coroutine[Any, Any, T], *, tick: float = 0.0, sockets: bool = False) -> T:
    """Run ``work`` on virtual time.

    ``tick``: timers are due at multiples of it only, as on loops that count whole milliseconds.
    ``sockets``: parts of ``work`` talk to each other over sockets; the clock jumps only when all of
    them wait. What another process or thread does takes no time at all by this clock.
    """
    with asyncio.Runner(loop_factory=lambda: _Loop(tick, sockets)) as runner:
        return runner.run(work)


async def elapse(seconds: float) -> None:
    """Let so much virtual time pass."""
    await asyncio.sleep(seconds)

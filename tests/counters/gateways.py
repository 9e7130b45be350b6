"""Gateways that share a Valkey, as far as limits go."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from typing import Any

from tests.support.valkey import Valkey
from tests.support.waiting import PATIENCE_S, eventually_async
from vivace.counters.line import Line
from vivace.counters.valkey import SCRIPT, ValkeyLimiter
from vivace.errors import TooManyRequests
from vivace.scheduling.limits import Limits

IN_TIME = 0.02
"""Seconds that a request waits for Valkey."""


@contextlib.asynccontextmanager
async def gateway(
    valkey: Valkey,
    gateways: int = 1,
    *,
    url: str | None = None,
    in_time: float = PATIENCE_S,
    **options: Any,
) -> AsyncIterator[ValkeyLimiter]:
    """Yield one that lives inside the block and dies without a word at its end.

    It waits much longer than others, so that a machine with much to do is not taken for a fault;
    ``frozen`` makes it impatient.
    """
    line = Line(url or valkey.url, SCRIPT, in_time=in_time)
    limiter = ValkeyLimiter(line, lambda: gateways, **options)
    await limiter.open()
    watching = asyncio.create_task(limiter.watch())
    try:
        yield limiter
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
        await limiter.close()


async def passes(
    limiter: ValkeyLimiter, limits: Limits, owner: str = "ada", output_tokens: int = 0
) -> bool:
    try:
        await limiter.charge(owner, "fast", limits, input_tokens=0, output_tokens=output_tokens)
    except TooManyRequests:
        return False
    return True


async def shared(limiter: ValkeyLimiter, expected: bool = True) -> None:
    await eventually_async(lambda: limiter.shared is expected)


@contextlib.contextmanager
def impatient(*limiters: ValkeyLimiter) -> Iterator[None]:
    """Let these wait for Valkey as long as in earnest inside the block."""
    for each in limiters:
        each._line._in_time = IN_TIME
    try:
        yield
    finally:
        for each in limiters:
            each._line._in_time = PATIENCE_S


@contextlib.asynccontextmanager
async def frozen(valkey: Valkey, *limiters: ValkeyLimiter) -> AsyncIterator[None]:
    """Make Valkey stand still inside the block, where these wait for 20 ms only."""
    # What was asked before would be waited for with the patience of before.
    await eventually_async(lambda: all(each._line._sending is None for each in limiters))
    valkey.freeze()
    try:
        with impatient(*limiters):
            yield
    finally:
        valkey.thaw()


class Clock:
    """The time of gateways and of Valkey's script, which stands still until it is moved."""

    def __init__(self, now: float = 10_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now

    monotonic = __call__

"""Gateways that share a Valkey, as far as limits go."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

from tests.support.valkey import Valkey
from vivace.counters.line import Line
from vivace.counters.valkey import SCRIPT, ValkeyLimiter
from vivace.errors import TooManyRequests
from vivace.scheduling.limits import Limits


@contextlib.asynccontextmanager
async def gateway(
    valkey: Valkey,
    gateways: int = 1,
    *,
    url: str | None = None,
    in_time: float = 0.25,
    **options: Any,
) -> AsyncIterator[ValkeyLimiter]:
    """One that lives inside the block and dies without a word at its end.

    It waits longer than others, so that a machine with much to do is not taken for a fault.
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
    async with asyncio.timeout(10):
        while limiter.shared is not expected:
            await asyncio.sleep(0.005)

"""What it costs to charge a request: in this process, and in Valkey, where several gateways meet.

A charge, a look at what is left and a settlement, one after another and many at once, the ways in
turns. Valkey (or Redis: VIVACE_VALKEY_SERVER=redis-server) is started for it on this machine.
"""

from __future__ import annotations

import asyncio
import time
from argparse import Namespace
from collections import defaultdict
from typing import Any

from msgspec.structs import replace
from tests.support.valkey import Valkey

from bench._report import Report, percentile
from vivace.counters.base import Limiter
from vivace.counters.line import Line
from vivace.counters.local import LocalLimiter
from vivace.counters.valkey import SCRIPT, ValkeyLimiter
from vivace.scheduling.limits import Limits

_LIMITS = Limits(
    requests_per_minute=10**9,
    input_tokens_per_minute=10**9,
    output_tokens_per_minute=10**9,
    concurrency=10**6,
)
_MOST = 1.0
"""Milliseconds that a charge may add to a first token."""

Times = dict[str, list[float]]


async def _one(limiter: Limiter, owner: str, times: Times, limits: Limits = _LIMITS) -> None:
    began = time.perf_counter()
    grant = await limiter.charge(owner, "fast", limits, input_tokens=900, output_tokens=256)
    charged = time.perf_counter()
    await limiter.windows(owner, "fast", limits)
    looked = time.perf_counter()
    await grant.settle(input_tokens=900, output_tokens=100)
    times["charge"].append(charged - began)
    times["look at what is left"].append(looked - charged)
    times["settle"].append(time.perf_counter() - looked)


async def _beside(report: Report, shared: Limiter, turns: int) -> None:
    """A settlement looks at all charges of the key that still matter: here all of them do."""
    limits = replace(_LIMITS, output_tokens_per_minute=(turns + 200) * 256)
    owner, times = f"runs {turns}", defaultdict[str, list[float]](list)
    running = [
        await shared.charge(owner, "fast", limits, input_tokens=900, output_tokens=256)
        for _ in range(turns)
    ]
    for _ in range(100):
        await _one(shared, owner, times, limits)
    for what in ("charge", "settle"):
        report.spread(f"{what}, shared, {turns} of the key run", times[what], "µs", 1e6)
    await asyncio.gather(*(each.settle(input_tokens=0, output_tokens=0) for each in running))


async def _measure(report: Report, valkey: Valkey, options: Namespace) -> None:
    shared = ValkeyLimiter(Line(valkey.url, SCRIPT, in_time=5))
    await shared.open()
    ways: dict[str, Limiter] = {"own": LocalLimiter(), "shared": shared}
    alone: dict[str, Times] = {way: defaultdict(list) for way in ways}
    crowd: dict[str, list[float]] = defaultdict(list)
    cpu: dict[str, list[float]] = defaultdict(list)
    for _ in range(options.rounds):
        for way, limiter in ways.items():
            for _ in range(options.charges):
                await _one(limiter, "ada", alone[way])
            began, used = time.perf_counter(), time.process_time()
            unused: Times = defaultdict(list)
            await asyncio.gather(
                *(_one(limiter, f"key {each % 8}", unused) for each in range(options.crowd))
            )
            crowd[way].append((time.perf_counter() - began) / options.crowd)
            cpu[way].append((time.process_time() - used) / options.crowd)
    for way in ways:
        for what, seconds in alone[way].items():
            report.spread(f"{what}, {way}", seconds, "µs", 1e6)
        report.spread(f"all three, {options.crowd} at once, each, {way}", crowd[way], "µs", 1e6)
        report.spread(f"and of this process's time, {way}", cpu[way], "µs", 1e6)
    for turns in (10, 100, 1000):
        await _beside(report, shared, turns)
    await shared.close()
    median = percentile(alone["shared"]["charge"], 0.5) * 1000
    report.goal(
        f"a charge that is shared: at most {_MOST:g} ms at the median",
        met=median <= _MOST,
        measured=f"{median:.2f} ms",
    )


def main() -> None:
    report, options = Report.from_arguments(
        "limits",
        "what it costs to charge a request, here and in Valkey",
        "redis",
        "hiredis",
        charges=(500, "one after another, in each round"),
        crowd=(200, "at once, in each round"),
        rounds=(6, "of each way"),
    )
    valkey = Valkey()
    try:
        with valkey.client() as client:
            told: Any = client.info("server")
        name = "valkey" if "valkey_version" in told else "redis"
        report.say("server", told.get("valkey_version") or told["redis_version"], name)
        asyncio.run(_measure(report, valkey, options))
    finally:
        valkey.stop()
    report.end()


if __name__ == "__main__":
    main()

"""What one key that sends far more than its share leaves to the others."""

from __future__ import annotations

import asyncio
import time
from argparse import Namespace
from collections import Counter
from collections.abc import Sequence
from contextlib import AsyncExitStack, ExitStack

from tests.support.http import key
from tests.support.valkey import Valkey

from bench._fleet import Fleet
from bench._keys import FREED, PAUSE, Asker, fleet_of, listed
from bench._report import Report

KEPT = 0.9
MODEST = tuple(f"key-{number}" for number in range(7))
GREEDY = "greedy"
STREAMS = 8
"""Requests that a key has open at a time, half of them at each gateway: enough to have some at
each node nearly always."""
TIMES = 50
_WARM = 2.0
"""Seconds before anything counts."""
_AT_THE_DOOR = 8
"""Clients that connect at the same time: a handshake may not take long."""


async def shares(
    ports: Sequence[int], greedy: int, seconds: float, codes: Counter[str], told: list[float]
) -> Counter[str]:
    """Output tokens of each key in so many seconds; what was refused, or failed; and how long the
    others waited for response.created, which no node has a part in."""
    streams = dict.fromkeys(MODEST, STREAMS) | {GREEDY: greedy}
    here, door = asyncio.Barrier(sum(streams.values()) + 1), asyncio.Semaphore(_AT_THE_DOOR)
    tokens: Counter[str] = Counter()

    async def one(owner: str, port: int) -> None:
        async with AsyncExitStack() as stack:
            async with door:
                client = await stack.enter_async_context(Asker.at(port, key(owner)))
            await here.wait()
            begin = time.monotonic() + _WARM
            while time.monotonic() < begin + seconds:
                done = await client.turn("shared", "fair")
                if isinstance(done, str):
                    codes[done] += 1
                    await asyncio.sleep(PAUSE)
                elif begin <= done.ended < begin + seconds:
                    tokens[owner] += done.usage["output_tokens"]
                    told.extend([done.created - done.asked] if owner != GREEDY else [])

    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(one(owner, ports[number % len(ports)]))
            for owner, count in streams.items()
            for number in range(count)
        ]
        await here.wait()
        await asyncio.wait(tasks, timeout=_WARM + seconds + 1)
        for task in tasks:  # nobody wants what a greedy key still waits for
            task.cancel()
    return tokens


def _until_idle(fleet: Fleet) -> None:
    """What was cancelled has left its node."""
    deadline = time.monotonic() + FREED
    while any(each.metric("vivace_turns_running", GREEDY) for each in fleet.gateways):
        assert time.monotonic() < deadline, "turns whose clients have left go on"
        time.sleep(0.1)


def judge_shares(report: Report, alike: Counter[str], greedy: Counter[str]) -> None:
    owners = (*MODEST, GREEDY)
    for told, got in (("all alike", alike), (f"{GREEDY} sends {TIMES} times", greedy)):
        report.say(f"tokens of each, {told}", " ".join(str(got[owner]) for owner in owners))
        fair = sum(got.values()) / len(owners)
        least = min(got[owner] for owner in MODEST) / fair
        report.say(f"  least of the others, of an even share ({fair:.0f})", f"{least:.0%}")
    together = sum(greedy[owner] for owner in MODEST) / sum(alike[owner] for owner in MODEST)
    report.say("all others together keep", f"{together:.0%}")
    least = min(greedy[owner] / alike[owner] for owner in MODEST)
    report.goal(
        f"one key with {TIMES} times its share leaves every other at least {KEPT:.0%}",
        met=least >= KEPT,
        measured=f"{least:.0%} ({len(MODEST)} others)",
    )


def share(report: Report, valkey: Valkey, options: Namespace) -> None:
    """A step takes 10 ms alone and 1% more for every further request."""
    got, codes = {False: Counter[str](), True: Counter[str]()}, Counter[str]()
    told: dict[bool, list[float]] = {False: [], True: []}
    with ExitStack() as stack:
        owners = (*MODEST, GREEDY)
        fleet = fleet_of(stack, valkey, owners, rate=100, growth=0.01, slots=8)
        ports = [each.port for each in fleet.gateways]
        for number in range(options.rounds):
            for is_greedy in (False, True) if number % 2 else (True, False):
                streams = STREAMS * (TIMES if is_greedy else 1)
                got[is_greedy] += asyncio.run(
                    shares(ports, streams, options.shared, codes, told[is_greedy])
                )
                _until_idle(fleet)
        report.say("share: losses of Valkey meanwhile", fleet.losses)
    report.say("share: refused or failed", listed(codes))
    report.say("seconds of each kind", options.rounds * options.shared)
    report.spread("to response.created of the others, all alike", told[False], "ms", 1e3)
    report.spread(f"  with one that sends {TIMES} times", told[True], "ms", 1e3)
    judge_shares(report, got[False], got[True])

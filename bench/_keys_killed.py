"""What is left of the turns of a gateway that was killed, where the limits of keys are counted."""

from __future__ import annotations

import asyncio
import time
from argparse import Namespace
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass
from typing import Any

from redis import Redis
from tests.support.http import key
from tests.support.process import Serve
from tests.support.valkey import Valkey

from bench._fleet import GATEWAYS, Fleet
from bench._keys import CONCURRENCY, FREED, PAUSE, Asker, Passed, fleet_of
from bench._report import Report

HOLDERS = tuple(f"holder-{number}" for number in range(4))


def counted(client: Redis) -> dict[str, int]:
    """How many turns Valkey takes for running, of each key that has had some."""
    any_client: Any = client
    seconds, millionths = any_client.time()
    now = f"({seconds}.{millionths:06d}"
    names = any_client.scan_iter("vivace:limits:*:turns")
    return {name: any_client.zcount(name, now, "+inf") for name in names}


@dataclass(frozen=True)
class Killed:
    """A gateway that was, and what it held."""

    at: float
    turns: Mapping[str, str]
    """Whose each is."""
    counted: Mapping[str, int]
    """By Valkey, of each key. A gateway that has just lost it counts alone; that dies with it."""
    refused: int
    """Keys that could begin nothing more at the other gateway."""


async def hold_and_kill(fleet: Fleet, number: int, client: Redis) -> Killed:
    """Every key uses up its concurrency at one gateway, which is killed then."""
    held: dict[str, str] = {}
    async with AsyncExitStack() as stack:
        for _ in range(CONCURRENCY):
            for owner in HOLDERS:
                port = fleet.gateways[number].port
                asker = await stack.enter_async_context(Asker.at(port, key(owner)))
                turn = await asker.begin("few", "hold")
                if turn is not None:
                    held[turn] = owner
        other = fleet.gateways[1 - number].port
        passed = [await _pass(other, owner, 1) for owner in HOLDERS]
        counts = counted(client)
        return Killed(fleet.kill(number), held, counts, passed.count(0))


async def _pass(port: int, owner: str, turns: int) -> int:
    """How many of so many turns at once a key gets through."""

    async def one() -> bool:
        async with Asker.at(port, key(owner)) as asker:
            return isinstance(await asker.turn("few", "few"), Passed)

    return sum(await asyncio.gather(*(one() for _ in range(turns))))


def freed(client: Redis, killed: Killed) -> list[float]:
    """Seconds until Valkey counts none any more, of each key."""
    waiting, found = {name for name, count in killed.counted.items() if count}, list[float]()
    assert waiting, "Valkey has counted nothing: this machine is too busy to measure anything"
    while waiting:
        now, counts = time.monotonic() - killed.at, counted(client)
        free = {name for name in waiting if not counts.get(name)}
        found += [now] * len(free)
        waiting -= free
        assert now < 3 * FREED, f"{len(waiting)} keys are not free again"
        time.sleep(0.05)
    return found


async def _whole(port: int, since: float) -> list[float]:
    """Seconds until as many turns of each key have passed at once as may; where a gateway counts
    alone for a moment, they do a moment later."""

    async def one(owner: str) -> float:
        while await _pass(port, owner, CONCURRENCY) < CONCURRENCY:
            assert time.monotonic() - since < 3 * FREED, "a key does not get its limit again"
            await asyncio.sleep(PAUSE)
        return time.monotonic() - since

    return await asyncio.gather(*map(one, HOLDERS))


def _completed(gateway: Serve, held: Mapping[str, str]) -> int:
    """How many of the turns have come to their end all the same."""
    done = 0
    for response, owner in held.items():
        with gateway.http(owner) as http:
            found = http.get(f"/v1/responses/{response}").raise_for_status().json()
        done += found["status"] == "completed"
    return done


def judge_kill(report: Report, seconds: Sequence[float], whole: Sequence[float]) -> None:
    report.spread("from the kill to no turn counted, of each key", seconds, "s")
    report.spread(f"to the end of {CONCURRENCY} at once at the other gateway", whole, "s")
    report.goal(
        f"concurrency is back to 0 within {FREED:.0f} s of a kill",
        met=max(seconds) <= FREED,
        measured=f"{max(seconds):.1f} s at most ({len(seconds)} keys)",
    )
    report.goal(
        f"and within {FREED:.0f} s a key has had its {CONCURRENCY} at once at the other gateway",
        met=max(whole) <= FREED,
        measured=f"{max(whole):.1f} s at most",
    )


def kill(report: Report, valkey: Valkey, options: Namespace) -> None:
    seconds: list[float] = []
    whole: list[float] = []
    turns: Counter[str] = Counter()
    with ExitStack() as stack:
        fleet = fleet_of(stack, valkey, HOLDERS, rate=50, slots=64)
        client = stack.enter_context(valkey.client())
        for count in range(options.kills):
            number = count % GATEWAYS
            if count:
                fleet.replace(1 - number)
            client.flushall()  # what other parts have left
            killed = asyncio.run(hold_and_kill(fleet, number, client))
            seconds += freed(client, killed)
            other = fleet.gateways[1 - number]
            whole += asyncio.run(_whole(other.port, killed.at))
            turns["held"] += len(killed.turns)
            turns["counted"] += sum(killed.counted.values())
            turns["refused"] += killed.refused
            turns["completed"] += _completed(other, killed.turns)
    report.say("kills of a gateway", options.kills)
    report.say("turns that it held; of these in Valkey", f"{turns['held']}; {turns['counted']}")
    report.say("of these completed by the other gateway", turns["completed"])
    everyone = options.kills * len(HOLDERS)
    report.say("keys refused there before the kill", f"{turns['refused']} of {everyone}")
    judge_kill(report, seconds, whole)

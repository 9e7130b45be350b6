"""Gateways that wake each other through a Valkey that stalls, dies and comes back."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.support.valkey import Valkey
from vivace.counters.bell import ValkeyBell

LATE = 5.0
"""Seconds after which nobody came."""


@asynccontextmanager
async def bells(valkey: Valkey, *names: str) -> AsyncIterator[list[ValkeyBell]]:
    made = [ValkeyBell(valkey.url, name) for name in names]
    tasks = [asyncio.create_task(each.watch()) for each in made]
    try:
        await until(lambda: all(each.up for each in made))
        yield made
        assert not any(task.done() for task in tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def until(so: Callable[[], bool], seconds: float = 10) -> None:
    async with asyncio.timeout(seconds):
        while not so():
            await asyncio.sleep(0.005)


async def waited(heard: Coroutine[Any, Any, None]) -> float:
    began = time.monotonic()
    await heard
    return time.monotonic() - began


def run(check: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(check(), 60))


def test_who_is_rung_wakes_and_who_rang_hears_of_the_answer(valkey: Valkey) -> None:
    async def check() -> None:
        async with bells(valkey, "gateway_a", "gateway_b", "gateway_c") as (a, b, c):
            with a.listening("resp_1") as ear, a.listening("resp_2") as other:
                await a.ring("gateway_b", "resp_1")
                assert await waited(b.heard(LATE)) < LATE
                await b.answered("resp_1")
                assert await waited(ear.heard(LATE)) < LATE
                assert await waited(other.heard(0.1)) >= 0.1
            assert await waited(c.heard(0.1)) >= 0.1

    run(check)


def test_who_was_rung_while_it_looked_looks_again(valkey: Valkey) -> None:
    async def check() -> None:
        async with bells(valkey, "gateway_a", "gateway_b") as (a, b):
            await a.ring("gateway_b", "resp_1")
            await until(b._orders.rang.is_set)
            assert await waited(b.heard(LATE)) < 1
            assert await waited(b.heard(0.1)) >= 0.1

    run(check)


def test_nobody_waits_while_valkey_stalls(valkey: Valkey) -> None:
    async def check() -> None:
        async with bells(valkey, "gateway_a", "gateway_b") as (a, b):
            valkey.freeze()
            began = time.monotonic()
            for number in range(1000):
                await a.ring("gateway_b", f"resp_{number}")
            assert time.monotonic() - began < 0.25
            await asyncio.sleep(0.3)
            valkey.thaw()
            assert await waited(b.heard(LATE)) < LATE  # late, and there
            assert a.up
            assert b.up

    run(check)


@pytest.mark.parametrize("fault", ["kill", "freeze"])
def test_a_loss_is_known_and_survived(
    valkey: Valkey, fault: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def check() -> None:
        async with bells(valkey, "gateway_a", "gateway_b") as (a, b):
            getattr(valkey, fault)()
            assert await waited(b.heard(30)) < 10  # it does not count on others any more
            await until(lambda: not a.up and not b.up)
            await a.ring("gateway_b", "resp_1")  # nobody hears it, and nobody waits
            await asyncio.to_thread(valkey.restore)
            await until(lambda: a.up and b.up)
            b._orders.rang.clear()
            await a.ring("gateway_b", "resp_1")
            assert await waited(b.heard(LATE)) < LATE

    run(check)
    said = [each.message for each in caplog.records if "found by looking" in each.message]
    assert len(said) == 2  # one for each, however long it takes


def test_ids_are_all_that_goes_there(valkey: Valkey) -> None:
    async def check() -> None:
        async with bells(valkey, "gateway_a", "gateway_b") as (a, b):
            with a.listening("resp_1") as ear:
                await a.ring("gateway_b", "resp_1")
                await b.heard(LATE)
                await b.answered("resp_1")
                await ear.heard(LATE)

    with valkey.watched() as lines:
        run(check)
    published = {line.split(" ", 1)[1] for line in lines if line.startswith("PUBLISH")}
    assert published == {
        "vivace:wake:gateway_a .",
        "vivace:wake:gateway_b .",
        "vivace:wake:gateway_b ?resp_1 gateway_a",
        "vivace:wake:gateway_a !resp_1",
    }


def test_what_makes_no_sense_wakes_nobody(valkey: Valkey) -> None:
    async def check() -> None:
        async with bells(valkey, "gateway_a") as (a,):
            with valkey.client() as client:
                for word in ("", "x", "!", "! ", "\N{BELL}", "!resp_9"):
                    client.publish("vivace:wake:gateway_a", word)
            assert await waited(a.heard(0.2)) >= 0.2
            assert a.up

    run(check)

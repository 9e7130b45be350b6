"""Gateways that wake each other through a Valkey that stalls, dies and comes back."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.support.valkey import Valkey
from tests.support.waiting import PATIENCE_S
from tests.support.waiting import eventually_async as until
from vivace.counters import bell
from vivace.counters.bell import Ear, ValkeyBell

FOR_EVER = 1e6


@pytest.fixture(autouse=True)
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine is not taken for a loss."""
    monkeypatch.setattr(bell, "_IN_TIME", PATIENCE_S)
    monkeypatch.setattr(bell, "_SILENCE", PATIENCE_S)


@asynccontextmanager
async def bells(valkey: Valkey, *names: str) -> AsyncIterator[list[ValkeyBell]]:
    made = [ValkeyBell(valkey.url, name) for name in names]
    tasks = [asyncio.create_task(each.watch()) for each in made]
    try:
        await until(lambda: all(each.up for each in made))
        yield made
        assert not [task.exception() for task in tasks if task.done()]
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def woken(listener: Ear | ValkeyBell) -> None:
    await asyncio.wait_for(listener.heard(FOR_EVER), PATIENCE_S)


def at_once(ringing: Coroutine[Any, Any, None]) -> None:
    """Run to its end what waits for nothing."""
    with pytest.raises(StopIteration):
        ringing.send(None)


def run(check: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(check(), 4 * PATIENCE_S))


def test_a_ring_wakes_its_gateway_and_the_answer_wakes_the_caller(valkey: Valkey) -> None:
    async def check() -> None:
        async with bells(valkey, "gateway_a", "gateway_b", "gateway_c") as (a, b, c):
            with a.listening("resp_1") as ear, a.listening("resp_2") as other:
                await a.ring("gateway_b", "resp_1")
                await woken(b)
                await b.answered("resp_1")
                await woken(ear)
                assert not other.rang.is_set()
            await a.ring("gateway_c", "resp_3")
            await woken(c)
            assert list(c._callers) == ["resp_3"], "it was rung for nothing else"

    run(check)


def test_a_ring_that_comes_while_its_gateway_looks_makes_it_look_again(valkey: Valkey) -> None:
    async def check() -> None:
        async with bells(valkey, "gateway_a", "gateway_b") as (a, b):
            await a.ring("gateway_b", "resp_1")
            await until(b._orders.rang.is_set)
            await woken(b)
            assert not b._orders.rang.is_set()

    run(check)


def test_a_ring_does_not_wait_while_valkey_stalls(valkey: Valkey) -> None:
    async def check() -> None:
        async with bells(valkey, "gateway_a", "gateway_b") as (a, b):
            valkey.freeze()
            for number in range(1000):
                at_once(a.ring("gateway_b", f"resp_{number}"))
            await until(lambda: not a._words)  # on their way
            assert not b._orders.rang.is_set()
            valkey.thaw()
            await woken(b)  # late, and there
            assert a.up
            assert b.up

    run(check)


@pytest.mark.parametrize("fault", ["kill", "freeze"])
def test_a_loss_is_known_and_survived(
    valkey: Valkey, fault: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def check() -> None:
        async with bells(valkey, "gateway_a", "gateway_b") as (a, b):
            getattr(valkey, fault)()
            monkeypatch.setattr(bell, "_IN_TIME", 0.05)  # no answer comes in any time
            await woken(b)  # it does not count on others any more
            await until(lambda: not a.up and not b.up)
            at_once(a.ring("gateway_b", "resp_1"))  # nobody hears it, and nobody waits
            monkeypatch.setattr(bell, "_IN_TIME", PATIENCE_S)
            await asyncio.to_thread(valkey.restore)
            await until(lambda: a.up and b.up)
            b._orders.rang.clear()
            await a.ring("gateway_b", "resp_1")
            await woken(b)

    run(check)
    said = [each.message for each in caplog.records if "found by looking" in each.message]
    assert len(said) == 2  # one for each, however long it takes


def test_a_valkey_that_tells_nothing_of_what_it_is_told_is_lost(
    valkey: Valkey, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def check() -> None:
        async with bells(valkey, "gateway_a") as (a,):
            await woken(a)
            await until(lambda: "is not to be reached (TimeoutError)" in caplog.text)

    caplog.set_level(logging.INFO, "vivace")
    monkeypatch.setattr(bell, "_SILENCE", 0.05)
    monkeypatch.setattr(bell, "_BEAT", FOR_EVER)
    run(check)


def test_ids_are_all_that_goes_there(valkey: Valkey) -> None:
    async def check() -> None:
        async with bells(valkey, "gateway_a", "gateway_b") as (a, b):
            with a.listening("resp_1") as ear:
                await a.ring("gateway_b", "resp_1")
                await woken(b)
                await b.answered("resp_1")
                await woken(ear)

    with valkey.watched() as lines:
        run(check)
    published = {line.split(" ", 1)[1] for line in lines if line.startswith("PUBLISH")}
    assert published == {
        "vivace:wake:gateway_a .",
        "vivace:wake:gateway_b .",
        "vivace:wake:gateway_b ?resp_1 gateway_a",
        "vivace:wake:gateway_a !resp_1",
    }


def test_words_that_make_no_sense_wake_nothing(valkey: Valkey) -> None:
    async def check() -> None:
        async with bells(valkey, "gateway_a") as (a,):
            with valkey.client() as client, a.listening("resp_last") as ear:
                for word in ("", "x", "!", "! ", "\N{BELL}", "!resp_9", "!resp_last"):
                    client.publish("vivace:wake:gateway_a", word)
                await woken(ear)
            assert not a._orders.rang.is_set()
            assert a.up

    run(check)

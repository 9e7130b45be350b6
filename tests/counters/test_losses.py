"""Valkey and gateways that die, stall, answer late or come back empty."""

from __future__ import annotations

import asyncio
import logging
import re
import struct
import time
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest
from redis import Redis

from tests.counters.gateways import gateway, passes, shared
from tests.support.valkey import Valkey
from tests.support.waiting import in_time
from vivace.counters.valkey import ValkeyLimiter
from vivace.errors import TooManyRequests
from vivace.scheduling.limits import Limits

MINUTE = Limits(requests_per_minute=60)
SIX = Limits(requests_per_minute=6)
"""One is given back in ten seconds."""
ONE = Limits(concurrency=1)
IN_TIME = 0.02
WAITED = 0.01
"""Seconds after which a charge counts as one that has waited for Valkey."""
LONGEST = 0.025


class Metronome:
    """How late this process is by itself, because the machine is taken away or has other work:
    what a request waits for that is not Valkey's."""

    def __init__(self) -> None:
        self._late: list[tuple[float, float]] = []

    async def tick(self) -> None:
        while True:
            due = time.monotonic() + 0.001
            await asyncio.sleep(0.001)
            self._late.append((time.monotonic(), time.monotonic() - due))

    def without_lateness(self, began: float, ended: float) -> float:
        late = sum(late for at, late in self._late if began <= at <= ended + 0.002 and late > 0.002)
        return ended - began - late


async def charged(limiter: ValkeyLimiter, limits: Limits, **tokens: int) -> Any:
    amounts = {"input_tokens": 0, "output_tokens": 0} | tokens
    return await limiter.charge("ada", "fast", limits, **amounts)


async def left(limiter: ValkeyLimiter, limits: Limits) -> int:
    await asyncio.sleep(0.06)  # what a charge told counts for so long
    (window,) = await limiter.windows("ada", "fast", limits)
    return window.left


def running(valkey: Valkey) -> int:
    with valkey.client() as client:
        return sum(client.zcard(key) for key in client.keys("*:turns"))


# -- nobody waits twice ---------------------------------------------------------------------------


class Asked:
    def __init__(self) -> None:
        self.passed = False
        self.took: list[tuple[float, float]] = []
        """To charge it, and to settle it: when that began and ended."""
        self.waits: list[float] = []
        """Of these, the seconds of those that waited for Valkey."""


async def traffic(limiter: ValkeyLimiter, limits: Limits, until: asyncio.Event) -> list[Asked]:
    """Clients one after another, five at a time; what became of each request."""
    told: list[Asked] = []

    async def client() -> None:
        while not until.is_set():
            asked = Asked()
            told.append(asked)
            began = time.monotonic()
            try:
                grant = await charged(limiter, limits, output_tokens=5)
            except TooManyRequests:
                grant = None
            asked.passed = grant is not None
            asked.took.append((began, time.monotonic()))
            await asyncio.sleep(0.002)
            if grant is not None:
                began = time.monotonic()
                await grant.settle(input_tokens=0, output_tokens=5)
                asked.took.append((began, time.monotonic()))

    await asyncio.gather(*(client() for _ in range(5)))
    return told


async def struck(
    valkey: Valkey, strike: Callable[[], Awaitable[None]]
) -> tuple[list[Asked], int, float]:
    """Traffic in the midst of which something is done to the server."""
    limits = Limits(requests_per_minute=600, output_tokens_per_minute=100_000, concurrency=100)
    metronome = Metronome()
    async with gateway(valkey, 2, in_time=IN_TIME) as limiter:
        done = asyncio.Event()
        began = time.monotonic()
        ticking = asyncio.create_task(metronome.tick())
        playing = asyncio.create_task(traffic(limiter, limits, done))
        await asyncio.sleep(0.3)
        await strike()
        await shared(limiter)
        await asyncio.sleep(0.3)
        done.set()
        told = await playing
        ticking.cancel()
        for each in told:
            seconds = [metronome.without_lateness(*took) for took in each.took]
            each.waits = [wait for wait in seconds if wait > WAITED]
        assert limiter.shared
        return told, limiter.losses, time.monotonic() - began


def judge(told: list[Asked], losses: int, seconds: float) -> None:
    """600 at once and 10 a second; each loss adds at most as much again."""
    assert losses >= 1
    passed = sum(each.passed for each in told)
    assert 600 <= passed <= 600 * (1 + losses) + 2 * 10 * seconds
    assert all(len(each.waits) <= 1 for each in told)
    waited = [wait for each in told for wait in each.waits]
    assert max(waited, default=0) < LONGEST
    assert len(waited) <= 5 * losses  # as many as ask at the same time


@in_time
def test_when_valkey_is_killed_nobody_waits_and_limits_hold_by_share(valkey: Valkey) -> None:
    async def strike() -> None:
        await asyncio.to_thread(valkey.kill)
        await asyncio.sleep(0.5)
        await asyncio.to_thread(valkey.start)

    judge(*asyncio.run(struck(valkey, strike)))


@in_time
def test_a_stall_is_waited_for_once_and_20_ms_at_most(valkey: Valkey) -> None:
    async def strike() -> None:
        for _ in range(3):
            valkey.freeze()
            await asyncio.sleep(0.3)
            valkey.thaw()
            await asyncio.sleep(0.3)

    judge(*asyncio.run(struck(valkey, strike)))


@in_time
def test_one_that_is_always_too_slow_is_waited_for_once(valkey: Valkey) -> None:
    async def slowly(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answers, on = await asyncio.open_connection("127.0.0.1", valkey.port)

        async def carry(
            source: asyncio.StreamReader, sink: asyncio.StreamWriter, late: bool
        ) -> None:
            while data := await source.read(65536):
                await asyncio.sleep(slow.seconds if late else 0)
                sink.write(data)
            sink.close()

        await asyncio.gather(carry(reader, on, False), carry(answers, writer, True))

    slow = SimpleNamespace(seconds=0.0)

    async def play() -> None:
        proxy = await asyncio.start_server(slowly, "127.0.0.1", 0)
        port = proxy.sockets[0].getsockname()[1]
        async with gateway(valkey, url=f"redis://127.0.0.1:{port}", in_time=IN_TIME) as limiter:
            assert limiter.shared
            slow.seconds = 0.04
            waits = []
            for _ in range(100):
                began = time.monotonic()
                await charged(limiter, Limits(requests_per_minute=1000))
                waits.append(time.monotonic() - began)
                await asyncio.sleep(0.01)
            assert sum(wait > WAITED for wait in waits) == 1
            assert max(waits) < LONGEST
            assert (limiter.shared, limiter.losses) == (False, 1)
            slow.seconds = 0.0
            await shared(limiter)
        proxy.close()

    asyncio.run(play())


def test_one_that_cannot_write_is_as_good_as_away(valkey: Valkey) -> None:
    async def play() -> None:
        async with gateway(valkey, 2) as limiter:
            with valkey.client() as client:
                client.replicaof("127.0.0.1", "1")
                try:
                    told = [await passes(limiter, MINUTE) for _ in range(40)]
                    assert told == [True] * 30 + [False] * 10  # its half
                    await asyncio.sleep(0.3)
                    assert (limiter.shared, limiter.losses) == (False, 1)
                finally:
                    client.replicaof("NO", "ONE")
            await shared(limiter)

    asyncio.run(play())


# -- what is lost, and what is not ----------------------------------------------------------------


def test_a_gateway_that_counts_alone_gives_out_its_share_and_says_so(valkey: Valkey) -> None:
    async def play() -> None:
        async with gateway(valkey, 3) as limiter:
            valkey.kill()
            limits = Limits(requests_per_minute=6, input_tokens_per_minute=900)
            for _ in range(2):
                await charged(limiter, limits)
            with pytest.raises(TooManyRequests) as refused:
                await charged(limiter, limits)
            assert "2 requests a minute at this gateway, one of 3" in refused.value.message
            with pytest.raises(TooManyRequests) as refused:
                await charged(limiter, limits, input_tokens=500)
            assert "its 3 gateways cannot count together" in refused.value.message
            assert refused.value.retry_after
            with pytest.raises(TooManyRequests, match="never"):
                await charged(limiter, limits, input_tokens=901)

    asyncio.run(play())


def test_valkey_may_be_away_from_the_start(
    valkey: Valkey, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "vivace")
    valkey.kill()

    async def play() -> None:
        url = f"redis://ada:secret@127.0.0.1:{valkey.port}/0"
        async with gateway(valkey, url=url) as limiter:
            assert await passes(limiter, ONE)
            await asyncio.sleep(0.3)
        assert len(caplog.records) == 1
        async with gateway(valkey) as limiter:
            await asyncio.to_thread(valkey.start)
            await shared(limiter)

    asyncio.run(play())
    assert f"Valkey on 127.0.0.1:{valkey.port} is not to be reached" in caplog.text
    assert "limits are counted with all other gateways" in caplog.text
    assert "secret" not in caplog.text


def test_what_is_settled_while_valkey_stalls_is_settled_when_it_is_back(valkey: Valkey) -> None:
    limits = Limits(output_tokens_per_minute=6000, concurrency=2)

    async def play() -> None:
        async with gateway(valkey) as limiter:
            grants = [await charged(limiter, limits, output_tokens=3000) for _ in range(2)]
            valkey.freeze()
            # Not answered in time: Valkey hears of it when it is back, and then once more.
            await grants[0].settle(input_tokens=0, output_tokens=9000)
            assert not limiter.shared
            await grants[1].settle(input_tokens=0, output_tokens=0)  # not even asked
            valkey.thaw()
            await shared(limiter)
            await asyncio.sleep(0.05)
            assert running(valkey) == 0
            (window,) = await limiter.windows("ada", "fast", limits)
            assert window.seconds == pytest.approx(90, abs=2)

    asyncio.run(play())


def test_a_charge_that_valkey_makes_too_late_is_taken_back(valkey: Valkey) -> None:
    async def play() -> None:
        async with gateway(valkey) as limiter:
            valkey.freeze()
            grant = await charged(limiter, SIX)
            valkey.thaw()
            await shared(limiter)
            await asyncio.sleep(0.05)
            assert running(valkey) == 0
            assert await left(limiter, SIX) == 5  # as it was given out alone
            await grant.settle(input_tokens=0, output_tokens=0)  # was our own
            assert await left(limiter, SIX) == 5

    asyncio.run(play())


def test_who_leaves_while_being_charged_is_not_charged(valkey: Valkey) -> None:
    limits = Limits(requests_per_minute=60, concurrency=1)

    async def play() -> None:
        async with gateway(valkey) as limiter:
            for turns in range(12):
                asking = asyncio.create_task(charged(limiter, limits))
                for _ in range(turns):
                    await asyncio.sleep(0)
                if asking.cancel():
                    await asyncio.gather(asking, return_exceptions=True)
                else:
                    await asking.result().settle(input_tokens=0, output_tokens=0)
            await (await charged(limiter, limits)).settle(input_tokens=0, output_tokens=0)
            assert running(valkey) == 0
            assert limiter.losses == 0

    asyncio.run(play())


def test_who_leaves_while_settling_has_settled(valkey: Valkey) -> None:
    async def play() -> None:
        async with gateway(valkey) as limiter:
            for turns in range(8):
                grant = await charged(limiter, ONE)
                settling = asyncio.create_task(grant.settle(input_tokens=0, output_tokens=0))
                for _ in range(turns):
                    await asyncio.sleep(0)
                settling.cancel()
                await asyncio.gather(settling, return_exceptions=True)
                if not turns:  # it had not begun
                    await grant.settle(input_tokens=0, output_tokens=0)
            await charged(limiter, ONE)

    asyncio.run(play())


def emptied(valkey: Valkey) -> None:
    valkey.kill()
    valkey.start()


async def passed(limiter: ValkeyLimiter, limits: Limits, asked: int) -> int:
    return sum([await passes(limiter, limits) for _ in range(asked)])


def test_one_that_comes_back_empty_is_told_what_was_used_before_and_meanwhile(
    valkey: Valkey,
) -> None:
    async def play() -> None:
        async with gateway(valkey, 2) as one, gateway(valkey, 2) as other:
            assert [await passed(each, SIX, 4) for each in (one, other)] == [4, 2]
            emptied(valkey)
            # Its share each, while nobody counts for both.
            assert [await passed(each, SIX, 4) for each in (one, other)] == [3, 3]
            await shared(one)
            await shared(other)
            assert [await passed(each, SIX, 4) for each in (one, other)] == [0, 0]
            assert (one.losses, other.losses) == (1, 1)

    asyncio.run(play())


def test_what_ended_before_it_was_emptied_is_told_as_it_was_used(valkey: Valkey) -> None:
    limits = Limits(output_tokens_per_minute=60_000)

    async def play() -> None:
        async with gateway(valkey) as limiter:
            began = time.monotonic()
            grant = await charged(limiter, limits, output_tokens=50_000)
            await grant.settle(input_tokens=0, output_tokens=10_000)
            emptied(valkey)
            assert await passes(limiter, limits, output_tokens=20_000)
            await shared(limiter)
            given_back = 1_000 * (time.monotonic() + 1 - began)
            assert 30_000 <= await left(limiter, limits) <= 30_000 + given_back

    asyncio.run(play())


def test_what_runs_while_it_is_emptied_runs_for_all_that_ask_it(valkey: Valkey) -> None:
    async def play() -> None:
        async with gateway(valkey) as one, gateway(valkey) as other:
            grant = await charged(one, ONE)
            emptied(valkey)
            assert await passes(one, ONE)  # by its own count
            await shared(one)
            assert await passes(other, ONE, owner="bob")
            await shared(other)
            assert not await passes(other, ONE)
            await grant.settle(input_tokens=0, output_tokens=0)
            assert await passes(other, ONE)

    asyncio.run(play())


def test_what_is_given_out_alone_is_told_once_and_nothing_else_where_it_only_stalled(
    valkey: Valkey,
) -> None:
    limits = Limits(output_tokens_per_minute=60_000)

    async def play() -> None:
        async with gateway(valkey, 2) as one, gateway(valkey, 2) as other:
            began = time.monotonic()
            grant = await charged(other, limits, output_tokens=30_000)
            assert await passes(one, limits)  # which sees the estimate
            await grant.settle(input_tokens=0, output_tokens=0)
            for _ in range(3):
                valkey.freeze()
                assert await passes(one, limits, output_tokens=2_000)
                valkey.thaw()
                await shared(one)
            assert one.losses == 3
            used = 60_000 - await left(one, limits)
            assert 6_000 - 1_000 * (time.monotonic() - began) <= used <= 6_000

    asyncio.run(play())


def test_an_old_grant_changes_nothing_where_it_is_not_known(valkey: Valkey) -> None:
    limits = Limits(requests_per_minute=60, output_tokens_per_minute=1000)

    async def play() -> None:
        async with gateway(valkey) as limiter:
            old = await charged(limiter, limits, output_tokens=100)
            with valkey.client() as client:
                client.flushall()
            await charged(limiter, limits, output_tokens=500)
            await old.settle(input_tokens=0, output_tokens=0)
            with pytest.raises(TooManyRequests):
                await charged(limiter, limits, output_tokens=700)
            assert running(valkey) == 1

    asyncio.run(play())


def test_a_script_that_was_forgotten_is_told_again(valkey: Valkey) -> None:
    async def play() -> None:
        async with gateway(valkey) as limiter:
            with valkey.client() as client:
                for _ in range(3):
                    client.script_flush()
                    grants = [await charged(limiter, MINUTE) for _ in range(2)]
                    client.script_flush()
                    for grant in grants:
                        await grant.settle(input_tokens=0, output_tokens=0)
            assert (limiter.shared, limiter.losses) == (True, 0)
            assert running(valkey) == 0
            assert await left(limiter, MINUTE) == 54

    asyncio.run(play())


# -- gateways that die ----------------------------------------------------------------------------


def test_what_a_dead_gateway_ran_is_freed_and_stays_paid(valkey: Valkey) -> None:
    limits = Limits(output_tokens_per_minute=6000, concurrency=1)

    async def play() -> None:
        async with gateway(valkey) as living:
            async with gateway(valkey, lease=1.0, renew_every=0.2) as dying:
                await charged(dying, limits, output_tokens=3000)
                await asyncio.sleep(1.5)
                assert not await passes(living, limits)  # it lives, and says so
            await asyncio.sleep(1.1)
            assert not await passes(living, limits, output_tokens=4000)
            assert await passes(living, limits)

    asyncio.run(play())


def test_one_that_only_seemed_dead_changes_nothing_when_it_settles(valkey: Valkey) -> None:
    limits = Limits(output_tokens_per_minute=6000, concurrency=1)

    async def play() -> None:
        async with gateway(valkey, lease=0.2, renew_every=60) as limiter:
            old = await charged(limiter, limits, output_tokens=600)
            await asyncio.sleep(0.3)
            new = await charged(limiter, limits, output_tokens=600)
            await old.settle(input_tokens=0, output_tokens=0)
            assert not await passes(limiter, limits)
            await new.settle(input_tokens=0, output_tokens=600)
            assert await left(limiter, limits) == pytest.approx(4840, abs=40)

    asyncio.run(play())


def test_a_clock_that_goes_back_stops_nobody(valkey: Valkey) -> None:
    clock = SimpleNamespace(now=10_000.0)

    async def play() -> None:
        async with gateway(valkey, clock=lambda: clock.now) as limiter:
            limits = Limits(requests_per_minute=2)
            assert [await passes(limiter, limits) for _ in range(3)] == [True, True, False]
            clock.now -= 0.5
            assert not await passes(limiter, limits)
            clock.now -= 3600
            assert [await passes(limiter, limits) for _ in range(3)] == [True, True, False]

    asyncio.run(play())


# -- what is there --------------------------------------------------------------------------------


def test_all_keys_go_by_themselves(valkey: Valkey) -> None:
    async def play() -> None:
        async with gateway(valkey) as limiter:
            with valkey.client() as client:
                await charged(limiter, MINUTE)
                keys = client.keys("vivace:limits:{*")
                assert len(keys) == 3
                assert all(0 < client.pttl(key) <= 31_000 for key in keys)
                grant = await limiter.charge("bob", "fast", ONE, input_tokens=0, output_tokens=0)
                await grant.settle(input_tokens=0, output_tokens=0)
                assert len(client.keys("vivace:limits:{*")) == 3

    asyncio.run(play())


def test_only_ids_and_numbers_are_told(valkey: Valkey) -> None:
    """Neither whose they are nor anything that was said."""
    limits = Limits(requests_per_minute=2, output_tokens_per_minute=100, concurrency=2)
    kept: list[bytes] = []

    async def play() -> list[str]:
        with valkey.watched() as asked, Redis(port=valkey.port) as client:
            async with gateway(valkey, lease=0.2, renew_every=0.05) as limiter:
                for owner in ("ada.lovelace", "viv_secret"):
                    grant = await limiter.charge(
                        owner, "confidential", limits, input_tokens=1, output_tokens=9
                    )
                    await asyncio.sleep(0.06)
                    await limiter.windows(owner, "confidential", limits)
                    await asyncio.sleep(0.1)
                    await grant.settle(input_tokens=1, output_tokens=99)
                    kept.extend(client.mget(client.keys("*:charges")))
        return asked

    told = asyncio.run(play())
    assert sum("EVALSHA" in each for each in told) > 6
    for line in told:
        if not line.startswith(
            ("CLIENT", "HELLO", "SCRIPT LOAD", "MONITOR", "ECHO", "KEYS", "MGET")
        ):
            words = line.split(" ")
            known = words[:2] if CHARGES.fullmatch(" ".join(words[:2])) else words
            assert [each for each in known if not WORD.fullmatch(each)] == [], line
    assert kept
    for charges in kept:
        for first in range(0, len(charges), 72):
            name, *numbers = struct.unpack("<24s6d", charges[first : first + 72])
            assert re.fullmatch(rb"[0-9a-f]{24}|-{24}", name)
            assert all(0 <= number < 1e11 for number in numbers)


OTHERS = ("CLIENT", "HELLO", "SCRIPT LOAD", "MONITOR", "ECHO", "KEYS", "MGET")
"""What the driver and this test ask."""
KEY = r"vivace:limits:\{[0-9a-f]{32}\}"
CHARGES = re.compile(rf"(SET|APPEND) {KEY}:charges")
"""What follows is in bytes, and looked at where it is kept."""
WORD = re.compile(
    r"\(?-?(inf|[\d.]+(e[-+]\d+)?)|\+inf|"
    rf"{KEY}:(arrivals|charges|turns)|vivace:limits:(memory|probe(:\d)?)|"
    r"[0-9a-f]{24}|[0-9a-f]{40}|[A-Z]+|admit|settle|renew|restore|look|now|"
)

"""Valkey and gateways that die, stall, answer late or come back empty."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import struct
from collections.abc import Awaitable, Callable, Iterator
from contextvars import ContextVar
from typing import Any

import pytest
from redis import Redis

from tests.counters.gateways import (
    IN_TIME,
    Clock,
    frozen,
    gateway,
    impatient,
    passes,
    shared,
)
from tests.support.valkey import Valkey
from tests.support.waiting import eventually_async as until
from vivace.counters import line
from vivace.counters.line import Answer
from vivace.counters.valkey import ValkeyLimiter
from vivace.errors import TooManyRequests
from vivace.scheduling.limits import Limits

MINUTE = Limits(requests_per_minute=60)
SIX = Limits(requests_per_minute=6)
ONE = Limits(concurrency=1)


async def charged(limiter: ValkeyLimiter, limits: Limits, **tokens: int) -> Any:
    amounts = {"input_tokens": 0, "output_tokens": 0} | tokens
    return await limiter.charge("ada", "fast", limits, **amounts)


async def left(limiter: ValkeyLimiter, limits: Limits) -> int:
    (window,) = await limiter.windows("ada", "fast", limits)
    return window.left


def running(valkey: Valkey) -> int:
    with valkey.client() as client:
        return sum(client.zcard(key) for key in client.keys("*:turns"))


def renewed_until(valkey: Valkey) -> float:
    """The latest time until which any turn is believed to run."""
    with valkey.client() as client:
        scores = [client.zrevrange(key, 0, 0, withscores=True) for key in client.keys("*:turns")]
    return float(max(score for [(_, score)] in scores))


async def renewed(valkey: Valkey) -> None:
    before = renewed_until(valkey)
    await until(lambda: renewed_until(valkey) > before)


def probes(limiter: ValkeyLimiter) -> list[bool]:
    """Decide the outcome of each later try to reach Valkey."""
    results: list[bool] = []
    probe = limiter._line.probe

    async def counted() -> bool:
        results.append(await probe())
        return results[-1]

    limiter._line.probe = counted  # type: ignore[method-assign]
    return results


# -- nobody waits twice ---------------------------------------------------------------------------


class Asked:
    """Send one request."""

    def __init__(self) -> None:
        self.passed = False
        self.waits = 0
        """How often it waited for an answer of Valkey's that did not come."""


_asked: ContextVar[Asked] = ContextVar("asked")


@contextlib.contextmanager
def waits_counted(limiter: ValkeyLimiter) -> Iterator[list[float]]:
    """Count the waits of each request; yield the limits, in seconds, of all that is waited for."""
    ask, within = limiter._line.ask, line._within
    limits: list[float] = []

    def counted(keys: Any, *arguments: str) -> asyncio.Future[Answer]:
        answer = ask(keys, *arguments)
        asked = _asked.get(None)

        def told(answer: asyncio.Future[Answer]) -> None:
            if asked is not None and not answer.cancelled():
                asked.waits += answer.result() is None

        if not answer.done():
            answer.add_done_callback(told)
        return answer

    async def limited(seconds: float, work: Any) -> Any:
        limits.append(seconds)
        return await within(seconds, work)

    limiter._line.ask = counted  # type: ignore[method-assign]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(line, "_within", limited)
        yield limits


async def request(limiter: ValkeyLimiter, limits: Limits, told: list[Asked]) -> None:
    asked = Asked()
    _asked.set(asked)
    told.append(asked)
    try:
        grant = await charged(limiter, limits, output_tokens=5)
    except TooManyRequests:
        await asyncio.sleep(0)  # it had to wait for nothing, and others want to run
        return
    asked.passed = True
    await asyncio.sleep(0)
    await grant.settle(input_tokens=0, output_tokens=5)


Strike = Callable[[ValkeyLimiter, Callable[[int], Awaitable[None]]], Awaitable[None]]
AT_ONCE = 5


async def struck(valkey: Valkey, clock: Clock, strike: Strike) -> tuple[list[Asked], int]:
    """Traffic in the midst of which something is done to the server: each request, and how often
    the server was lost. ``strike`` can wait for so many more requests."""
    limits = Limits(requests_per_minute=600, output_tokens_per_minute=100_000, concurrency=100)
    told: list[Asked] = []
    done = asyncio.Event()
    async with gateway(valkey, 2, clock=clock) as limiter:

        async def client() -> None:
            while not done.is_set():
                await request(limiter, limits, told)

        async def more(requests: int) -> None:
            enough = len(told) + requests
            await until(lambda: len(told) >= enough)

        with waits_counted(limiter):
            clients = [asyncio.create_task(client()) for _ in range(AT_ONCE)]
            await more(300)
            await strike(limiter, more)
            await shared(limiter)
            await more(700)
            done.set()
            await asyncio.gather(*clients)
        return told, limiter.losses


def judge(told: list[Asked], losses: int) -> None:
    """600 at once, for time stands still; each loss adds at most as much again."""
    passed = sum(each.passed for each in told)
    assert 600 <= passed <= 600 * (1 + losses)
    assert all(each.waits <= 1 for each in told)
    assert 1 <= sum(each.waits for each in told) <= AT_ONCE * losses


def test_when_valkey_is_killed_nobody_waits_and_limits_hold_by_share(
    valkey: Valkey, clock: Clock
) -> None:
    async def strike(limiter: ValkeyLimiter, more: Callable[[int], Awaitable[None]]) -> None:
        await asyncio.to_thread(valkey.kill)
        await more(500)
        await asyncio.to_thread(valkey.start)

    told, losses = asyncio.run(struck(valkey, clock, strike))
    assert losses == 1
    judge(told, losses)


def test_a_stall_is_waited_for_once(valkey: Valkey, clock: Clock) -> None:
    async def strike(limiter: ValkeyLimiter, more: Callable[[int], Awaitable[None]]) -> None:
        with impatient(limiter):
            for _ in range(3):
                await more(20)  # those that were asked with more patience have their answers
                async with frozen(valkey):
                    await shared(limiter, False)
                    await more(100)
                await shared(limiter)

    told, losses = asyncio.run(struck(valkey, clock, strike))
    assert losses >= 3  # a busy machine may look like one, too
    judge(told, losses)


def test_one_that_is_always_too_slow_is_waited_for_once_and_20_ms_at_most(valkey: Valkey) -> None:
    in_time = asyncio.Event()
    in_time.set()
    scripts = 0

    async def slowly(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answers, on = await asyncio.open_connection("127.0.0.1", valkey.port)
        late = False

        async def ask() -> None:
            nonlocal late, scripts
            while data := await reader.read(65536):
                late = late or b"EVALSHA" in data
                scripts += late
                on.write(data)
            on.close()

        async def answer() -> None:
            while data := await answers.read(65536):
                if late:
                    await in_time.wait()
                writer.write(data)
            writer.close()

        await asyncio.gather(ask(), answer())

    async def play() -> None:
        proxy = await asyncio.start_server(slowly, "127.0.0.1", 0)
        port = proxy.sockets[0].getsockname()[1]
        told: list[Asked] = []
        limits = Limits(requests_per_minute=1000)
        async with gateway(valkey, url=f"redis://127.0.0.1:{port}") as limiter:
            assert limiter.shared
            with impatient(limiter), waits_counted(limiter) as waited_for:
                in_time.clear()
                before = scripts
                for _ in range(50):
                    await request(limiter, limits, told)
                await until(lambda: scripts >= before + 2)  # it was tried, and is too slow still
                for _ in range(50):
                    await request(limiter, limits, told)
                assert sum(each.waits for each in told) == 1
                assert all(each.passed for each in told)
                assert (limiter.shared, limiter.losses) == (False, 1)
            assert set(waited_for) <= {IN_TIME, line._TO_CONNECT}
            in_time.set()
            await shared(limiter)
        proxy.close()

    asyncio.run(play())
    assert line._IN_TIME == IN_TIME


def test_one_that_cannot_write_is_as_good_as_away(valkey: Valkey, clock: Clock) -> None:
    async def play() -> None:
        async with gateway(valkey, 2, clock=clock) as limiter:
            tried = probes(limiter)
            with valkey.client() as client:
                client.replicaof("127.0.0.1", "1")
                try:
                    told = [await passes(limiter, MINUTE) for _ in range(40)]
                    assert told == [True] * 30 + [False] * 10  # its half
                    await until(lambda: len(tried) > 1)
                    assert not any(tried)
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
            tried = probes(limiter)
            assert await passes(limiter, ONE)
            await until(lambda: len(tried) > 1)
        assert len(caplog.records) == 1
        async with gateway(valkey) as limiter:
            await asyncio.to_thread(valkey.start)
            await shared(limiter)

    asyncio.run(play())
    assert f"Valkey on 127.0.0.1:{valkey.port} is not to be reached" in caplog.text
    assert "limits are counted with all other gateways" in caplog.text
    assert "secret" not in caplog.text


def test_what_is_settled_while_valkey_stalls_is_settled_when_it_is_back(
    valkey: Valkey, clock: Clock
) -> None:
    limits = Limits(output_tokens_per_minute=6000, concurrency=2)

    async def play() -> None:
        async with gateway(valkey, clock=clock) as limiter:
            grants = [await charged(limiter, limits, output_tokens=3000) for _ in range(2)]
            async with frozen(valkey, limiter):
                # Not answered in time: Valkey hears of it when it is back, and then once more.
                await grants[0].settle(input_tokens=0, output_tokens=9000)
                assert not limiter.shared
                await grants[1].settle(input_tokens=0, output_tokens=0)  # not even asked
            await shared(limiter)
            await until(lambda: running(valkey) == 0)
            (window,) = await limiter.windows("ada", "fast", limits)
            assert window.seconds == pytest.approx(90)

    asyncio.run(play())


def test_a_charge_that_valkey_makes_too_late_is_taken_back(valkey: Valkey, clock: Clock) -> None:
    async def play() -> None:
        async with gateway(valkey, clock=clock) as limiter:
            async with frozen(valkey, limiter):
                grant = await charged(limiter, SIX)
            await shared(limiter)
            await until(lambda: running(valkey) == 0)
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
    valkey: Valkey, clock: Clock
) -> None:
    async def play() -> None:
        async with (
            gateway(valkey, 2, clock=clock) as one,
            gateway(valkey, 2, clock=clock) as other,
        ):
            assert [await passed(each, SIX, 4) for each in (one, other)] == [4, 2]
            emptied(valkey)
            # Its share each, while nobody counts for both.
            assert [await passed(each, SIX, 4) for each in (one, other)] == [3, 3]
            await shared(one)
            await shared(other)
            assert [await passed(each, SIX, 4) for each in (one, other)] == [0, 0]
            assert (one.losses, other.losses) == (1, 1)

    asyncio.run(play())


def test_what_ended_before_it_was_emptied_is_told_as_it_was_used(
    valkey: Valkey, clock: Clock
) -> None:
    limits = Limits(output_tokens_per_minute=60_000)

    async def play() -> None:
        async with gateway(valkey, clock=clock) as limiter:
            grant = await charged(limiter, limits, output_tokens=50_000)
            await grant.settle(input_tokens=0, output_tokens=10_000)
            emptied(valkey)
            assert await passes(limiter, limits, output_tokens=20_000)
            await shared(limiter)
            assert await left(limiter, limits) == 30_000

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
    valkey: Valkey, clock: Clock
) -> None:
    limits = Limits(output_tokens_per_minute=60_000)

    async def play() -> None:
        async with (
            gateway(valkey, 2, clock=clock) as one,
            gateway(valkey, 2, clock=clock) as other,
        ):
            grant = await charged(other, limits, output_tokens=30_000)
            assert await passes(one, limits)  # which sees the estimate
            await grant.settle(input_tokens=0, output_tokens=0)
            for _ in range(3):
                async with frozen(valkey, one):
                    assert await passes(one, limits, output_tokens=2_000)
                await shared(one)
            assert one.losses == 3
            assert await left(one, limits) == 54_000

    asyncio.run(play())


def test_an_old_grant_changes_nothing_where_it_is_not_known(valkey: Valkey, clock: Clock) -> None:
    limits = Limits(requests_per_minute=60, output_tokens_per_minute=1000)

    async def play() -> None:
        async with gateway(valkey, clock=clock) as limiter:
            old = await charged(limiter, limits, output_tokens=100)
            with valkey.client() as client:
                client.flushall()
            await charged(limiter, limits, output_tokens=500)
            await old.settle(input_tokens=0, output_tokens=0)
            with pytest.raises(TooManyRequests):
                await charged(limiter, limits, output_tokens=700)
            assert running(valkey) == 1

    asyncio.run(play())


def test_a_script_that_was_forgotten_is_told_again(valkey: Valkey, clock: Clock) -> None:
    async def play() -> None:
        async with gateway(valkey, clock=clock) as limiter:
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


def test_what_a_dead_gateway_ran_is_freed_and_stays_paid(valkey: Valkey, clock: Clock) -> None:
    limits = Limits(output_tokens_per_minute=6000, concurrency=1)

    async def play() -> None:
        async with gateway(valkey, clock=clock) as living:
            async with gateway(valkey, clock=clock, lease=10.0, renew_every=0.01) as dying:
                await charged(dying, limits, output_tokens=5900)
                clock.now += 9
                await until(lambda: renewed_until(valkey) == clock.now + 10)
                assert not await passes(living, limits)  # it lives, and says so
            clock.now += 11
            # 2000 of what it paid have come back.
            assert not await passes(living, limits, output_tokens=4000)
            assert await passes(living, limits)

    asyncio.run(play())


def test_one_that_only_seemed_dead_changes_nothing_when_it_settles(
    valkey: Valkey, clock: Clock
) -> None:
    limits = Limits(output_tokens_per_minute=600, concurrency=1)

    async def play() -> None:
        async with gateway(valkey, clock=clock, lease=30.0, renew_every=1e6) as limiter:
            old = await charged(limiter, limits, output_tokens=500)
            clock.now += 31
            new = await charged(limiter, limits, output_tokens=300)
            await old.settle(input_tokens=0, output_tokens=0)
            assert not await passes(limiter, limits)
            await new.settle(input_tokens=0, output_tokens=300)
            assert await left(limiter, limits) == 600 - (500 - 310) - 300

    asyncio.run(play())


def test_a_clock_that_goes_back_stops_nobody(valkey: Valkey, clock: Clock) -> None:
    async def play() -> None:
        async with gateway(valkey, clock=clock) as limiter:
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


def test_only_ids_and_numbers_are_told(valkey: Valkey, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither whose they are nor anything that was said."""
    monkeypatch.setattr("vivace.counters.valkey._FRESH", 0.0)  # what was told is asked again
    limits = Limits(requests_per_minute=2, output_tokens_per_minute=100, concurrency=2)
    kept: list[bytes] = []

    async def play() -> list[str]:
        with valkey.watched() as asked, Redis(port=valkey.port) as client:
            async with gateway(valkey, renew_every=0.01) as limiter:
                for owner in ("ada.lovelace", "viv_secret"):
                    grant = await limiter.charge(
                        owner, "confidential", limits, input_tokens=1, output_tokens=9
                    )
                    await limiter.windows(owner, "confidential", limits)
                    await renewed(valkey)
                    await grant.settle(input_tokens=1, output_tokens=99)
                    kept.extend(client.mget(client.keys("*:charges")))
        return asked

    told = asyncio.run(play())
    assert sum("EVALSHA" in each for each in told) > 6
    for asked in told:
        if not asked.startswith(OTHERS):
            words = asked.split(" ")
            known = words[:2] if CHARGES.fullmatch(" ".join(words[:2])) else words
            assert [each for each in known if not WORD.fullmatch(each)] == [], asked
    assert kept
    for charges in kept:
        for first in range(0, len(charges), 72):
            name, *numbers = struct.unpack("<24s6d", charges[first : first + 72])
            assert re.fullmatch(rb"[0-9a-f]{24}|-{24}", name)
            assert all(0 <= number < 1e11 for number in numbers)


OTHERS = ("CLIENT", "HELLO", "SCRIPT LOAD", "MONITOR", "ECHO", "KEYS", "MGET", "ZREVRANGE")
"""What the driver and this test ask."""
KEY = r"vivace:limits:\{[0-9a-f]{32}\}"
CHARGES = re.compile(rf"(SET|APPEND) {KEY}:charges")
"""What follows is in bytes, and looked at where it is kept."""
WORD = re.compile(
    r"\(?-?(inf|[\d.]+(e[-+]\d+)?)|\+inf|"
    rf"{KEY}:(arrivals|charges|turns)|vivace:limits:(memory|probe(:\d)?)|"
    r"[0-9a-f]{24}|[0-9a-f]{40}|[A-Z]+|admit|settle|renew|restore|look|now|"
)

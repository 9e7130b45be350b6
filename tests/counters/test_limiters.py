"""What the port promises, asked of every implementation there is."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from tests.counters.gateways import Clock, gateway
from tests.support.valkey import Valkey
from vivace.counters.base import Limiter
from vivace.counters.local import LocalLimiter
from vivace.errors import TooManyRequests
from vivace.scheduling.limits import Limits

TWO = Limits(requests_per_minute=2, output_tokens_per_minute=1000)
Play = Callable[[Limiter], Awaitable[None]]


@pytest.fixture(params=["local", "valkey"])
def run(request: pytest.FixtureRequest, clock: Clock) -> Callable[[Play], None]:
    async def locally(play: Play) -> None:
        await play(LocalLimiter())

    async def together(play: Play) -> None:
        async with gateway(request.getfixturevalue("valkey"), clock=clock) as limiter:
            await play(limiter)
            assert limiter.shared
            assert limiter.losses == 0

    way = locally if request.param == "local" else together
    return lambda play: asyncio.run(way(play))


def test_a_limit_holds_for_each_key_and_tier_alone(run: Callable[[Play], None]) -> None:
    async def play(limiter: Limiter) -> None:
        for _ in range(2):
            await limiter.charge("ada", "fast", TWO, input_tokens=1, output_tokens=1)
        with pytest.raises(TooManyRequests) as refused:
            await limiter.charge("ada", "fast", TWO, input_tokens=1, output_tokens=1)
        assert refused.value.retry_after is not None
        await limiter.charge("ada", "deep", TWO, input_tokens=1, output_tokens=1)
        await limiter.charge("bob", "fast", TWO, input_tokens=1, output_tokens=1)

    run(play)


def test_what_was_charged_and_not_used_is_given_back_once(run: Callable[[Play], None]) -> None:
    async def play(limiter: Limiter) -> None:
        limits = Limits(output_tokens_per_minute=1000)
        for _ in range(3):
            grant = await limiter.charge("ada", "fast", limits, input_tokens=0, output_tokens=900)
            await grant.settle(input_tokens=0, output_tokens=0)
            await grant.settle(input_tokens=0, output_tokens=900)
        (tokens,) = await limiter.windows("ada", "fast", limits)
        assert (tokens.left, tokens.used) == (1000, 0)

    run(play)


def test_as_many_run_at_once_as_may(run: Callable[[Play], None]) -> None:
    async def play(limiter: Limiter) -> None:
        limits = Limits(concurrency=1)
        first = await limiter.charge("ada", "fast", limits, input_tokens=0, output_tokens=0)
        with pytest.raises(TooManyRequests):
            await limiter.charge("ada", "fast", limits, input_tokens=0, output_tokens=0)
        await first.settle(input_tokens=0, output_tokens=0)
        await limiter.charge("ada", "fast", limits, input_tokens=0, output_tokens=0)

    run(play)


def test_what_a_charge_left_is_told_at_once(run: Callable[[Play], None]) -> None:
    async def play(limiter: Limiter) -> None:
        for left in (1, 0):
            await limiter.charge("ada", "fast", TWO, input_tokens=0, output_tokens=100)
            requests, tokens = await limiter.windows("ada", "fast", TWO)
            assert requests.left == left
            assert tokens.left == 800 + 100 * left

    run(play)


def test_many_at_once_are_counted_each(run: Callable[[Play], None]) -> None:
    limits = Limits(requests_per_minute=300)

    async def play(limiter: Limiter) -> None:
        asked = [
            limiter.charge("ada", "fast", limits, input_tokens=0, output_tokens=0)
            for _ in range(500)
        ]
        told = await asyncio.gather(*asked, return_exceptions=True)
        refused = [each for each in told if isinstance(each, TooManyRequests)]
        assert len(refused) == 200
        assert all(isinstance(each, TooManyRequests) or hasattr(each, "settle") for each in told)

    run(play)


def test_without_a_limit_nobody_is_asked(valkey: Valkey) -> None:
    async def play() -> list[str]:
        async with gateway(valkey) as limiter:
            with valkey.watched() as asked:
                none = Limits()
                grant = await limiter.charge("ada", "fast", none, input_tokens=9, output_tokens=9)
                assert await limiter.windows("ada", "fast", none) == []
                await grant.settle(input_tokens=9, output_tokens=9)
        return asked

    assert [each for each in asyncio.run(play()) if "EVALSHA" in each] == []

"""How a server is measured: on the real gateway, and on one that does not stop when told to."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.plain_endpoint import ResponsesEndpoint
from tests.support.server import MODEL, RunningGateway, configuration
from vivace.client.checkup import fill_gap, measure_cancel, measure_speed
from vivace.client.errors import ClientError
from vivace.engines.base import Work
from vivace.engines.scripted import Reply, Say, Stall
from vivace.engines.scripted_prompts import Prompt

WORDS = [Reply(then=(Say("one ", times=2000),))]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Replace the clock of a client."""
    fake = SimpleNamespace(now=0.0)
    fake.perf_counter = lambda: fake.now
    monkeypatch.setattr("vivace.client.connection.time", fake)
    return fake


def prompts_read(gateway: RunningGateway) -> list[Prompt]:
    """The prompts that the engine reads from now on."""
    prompts: list[Prompt] = []
    cache = gateway.engine._cache
    read = cache.read

    def reading(work: Work, texts: Iterable[str]) -> Prompt:
        prompts.append(read(work, texts))
        return prompts[-1]

    cache.read = reading  # type: ignore[method-assign]
    return prompts


def test_reading_and_writing_speed_are_tokens_by_seconds(clock: SimpleNamespace) -> None:
    # Made, asked, the first text, and all further texts.
    readings = itertools.chain([0.0, 1.0, 1.5], itertools.repeat(1.81))
    clock.perf_counter = lambda: next(readings)
    with RunningGateway(WORDS) as gateway:
        prompts = prompts_read(gateway)
        speed = asyncio.run(measure_speed(gateway.url, None, MODEL))
    assert speed.writing == pytest.approx((32 - 1) / 0.31)
    assert speed.reading == pytest.approx(prompts[0].length / 0.5)


def test_a_text_that_was_measured_before_is_read_again() -> None:
    with RunningGateway(WORDS) as gateway:
        prompts = prompts_read(gateway)
        for _ in range(2):
            asyncio.run(measure_speed(gateway.url, None, MODEL))
    assert len(prompts) == 2
    assert all(each.length > 300 and each.cached < 10 for each in prompts)


def test_a_gap_is_filled() -> None:
    with RunningGateway([Reply(then=(Say("a + b"),))]) as gateway:
        assert asyncio.run(fill_gap(gateway.url, None, MODEL)) == "a + b"


def test_a_server_that_knows_of_no_gaps_says_so() -> None:
    with (
        ResponsesEndpoint(lambda _: []) as endpoint,
        pytest.raises(ClientError, match="fill a gap"),
    ):
        asyncio.run(fill_gap(endpoint.url, None, "any"))


def test_after_a_cancel_the_gateway_answers_as_ever() -> None:
    """Or it would never answer: those that were cancelled have all its slots, for an hour."""
    replies = [Reply(when="1000", then=(Say("one "), Stall(3600))), *WORDS]
    config = configuration(engine={"slots": 2})
    with RunningGateway(replies, config=config) as gateway:
        cancel = asyncio.run(measure_cancel(gateway.url, None, MODEL))
    assert cancel.after_cancel > 0


def test_an_engine_that_goes_on_is_found_out(clock: SimpleNamespace) -> None:
    busy_until = 0.0

    def answer(body: dict[str, Any]) -> list[str]:
        nonlocal busy_until
        if body["max_output_tokens"] > 100:
            busy_until = clock.now + 1.5
        else:
            clock.now = max(clock.now, busy_until)
        return ["some", "words"]

    with ResponsesEndpoint(answer) as endpoint:
        cancel = asyncio.run(measure_cancel(endpoint.url, None, "any"))
    assert (cancel.usual, cancel.after_cancel) == (0, 1.5)

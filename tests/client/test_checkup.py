"""How a server is measured: on the real gateway, and on one that does not stop when told to."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from tests.support.plain_endpoint import ResponsesEndpoint
from tests.support.server import MODEL, RunningGateway, configuration
from vivace.client.checkup import fill_gap, measure_cancel, measure_speed
from vivace.client.errors import ClientError
from vivace.engines.scripted import Reply, Say

WORDS = [Reply(then=(Say("one ", times=2000),))]


def test_reading_and_writing_speed_are_those_of_the_engine() -> None:
    config = configuration(engine={"rate": 100, "prefill_rate": 2000})
    with RunningGateway(WORDS, config=config) as gateway:
        speed = asyncio.run(measure_speed(gateway.url, None, MODEL))
    assert speed.writing == pytest.approx(100, rel=0.5)
    assert speed.reading == pytest.approx(2000, rel=0.7)


def test_a_text_that_was_measured_before_is_read_again() -> None:
    with RunningGateway(WORDS, config=configuration(engine={"prefill_rate": 1000})) as gateway:
        speeds = [asyncio.run(measure_speed(gateway.url, None, MODEL)) for _ in range(2)]
    assert all(speed.reading is not None and speed.reading < 1200 for speed in speeds)


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
    config = configuration(engine={"rate": 100, "slots": 2})
    with RunningGateway(WORDS, config=config) as gateway:
        cancel = asyncio.run(measure_cancel(gateway.url, None, MODEL))
    assert cancel.after_cancel < cancel.usual + 0.5


def test_an_engine_that_goes_on_is_found_out() -> None:
    busy_until = 0.0

    def answer(body: dict[str, Any]) -> list[str]:
        nonlocal busy_until
        if body["max_output_tokens"] > 100:
            busy_until = time.monotonic() + 1.5
        else:
            time.sleep(max(0.0, busy_until - time.monotonic()))
        return ["some", "words"]

    with ResponsesEndpoint(answer) as endpoint:
        cancel = asyncio.run(measure_cancel(endpoint.url, None, "any"))
    assert cancel.usual < 0.5
    assert cancel.after_cancel > 1.0

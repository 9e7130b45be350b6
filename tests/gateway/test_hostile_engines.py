"""Engines that do not end, or lie about what they took: what the gateway and the key owe them."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import pytest

from tests.support.http import RESPONSES
from tests.support.server import RunningGateway, configuration
from tests.support.socket import Socket
from tests.support.waiting import eventually
from vivace.conversation.deltas import MAX_TOKENS, Delta, Finished, TextDelta, Tokens
from vivace.engines.base import Work
from vivace.engines.scripted import Reply, Say

CONTEXT = 5000


def liar(gateway: RunningGateway, tokens: Tokens) -> None:
    """Have its engine say one word, and that it took so many tokens."""

    async def generate(work: Work) -> AsyncGenerator[Delta, None]:
        yield TextDelta("word")
        yield Finished("stop", tokens)

    gateway.engine.generate = generate  # type: ignore[method-assign]


@pytest.mark.parametrize(
    ("limit", "value"), [("MAX_ANSWER_BYTES", 1000), ("MAX_ANSWER_DELTAS", 200)]
)
def test_answer_that_does_not_end_is_ended(
    limit: str, value: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"vivace.gateway.attempts.{limit}", value)
    endless = [Reply(then=(Say(" word", times=10**9),))]
    with RunningGateway(endless) as gateway:
        with Socket(gateway.url) as socket:
            socket.create("Go")
            last = socket.until_end()[-1]
        assert last["type"] == "response.incomplete"
        assert last["response"]["incomplete_details"]["reason"] == "max_output_tokens"
        text = last["response"]["output"][0]["content"][0]["text"]
        assert 300 < len(text) < 2000
        eventually(lambda: gateway.engine.running() == 0)


def test_key_owes_no_more_than_a_context_holds_whatever_its_engine_says() -> None:
    limits: dict[str, Any] = {"input_tokens_per_minute": CONTEXT + 1000}
    config = configuration(
        engine={"context": CONTEXT},
        tiers=[{"name": "fast", "engines": ["scripted"], "limits": limits}],
    )
    with RunningGateway(config=config) as gateway, gateway.http as http:
        liar(gateway, Tokens(input=2**62, output=2**62))
        body = {"model": "fast", "input": "hi"}
        assert http.post(RESPONSES, json=body).json()["status"] == "completed"
        assert http.post(RESPONSES, json=body).status_code == 200
        assert http.post(RESPONSES, json=body).status_code == 429


@pytest.mark.parametrize("count", [-(2**62), -1, 2**62])
def test_counts_that_cannot_be_are_told_as_ones_that_can(count: int) -> None:
    with RunningGateway() as gateway, gateway.http as http:
        liar(gateway, Tokens(count, count, count, count, count, count))
        answer = http.post(RESPONSES, json={"input": "hi", "store": True}).json()
        assert answer["status"] == "completed"
        assert 0 <= answer["usage"]["input_tokens"] <= MAX_TOKENS
        assert 0 <= answer["usage"]["output_tokens"] <= MAX_TOKENS
        assert http.get(f"{RESPONSES}/{answer['id']}").json() == answer
        assert http.get("/metrics").status_code == 200

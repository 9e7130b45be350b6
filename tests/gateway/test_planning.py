"""What a turn needs before it runs, where no scripted engine can show it as it is."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.engines.endpoint import Endpoint, delta, stream
from tests.support.http import RESPONSES
from tests.support.server import RunningGateway, configuration
from vivace.gateway.app import Gateway
from vivace.gateway.client_connection import connect
from vivace.gateway.http import Collector
from vivace.protocol.codec import decode_create
from vivace.protocol.items import Item

LIMIT = 2000


async def ask(gateway: Gateway, body: dict[str, Any]) -> None:
    async with gateway.running():
        collector = Collector()
        connection = connect(gateway.runner, collector, "local", "r")
        await connection.receive(decode_create(json.dumps(body).encode()))
        await connection.finished()
        assert collector.result().status == "completed"


async def talk(gateway: Gateway, turns: int) -> None:
    """Turns that follow each other, each of some 300 tokens."""
    async with gateway.running():
        previous = None
        for _ in range(turns):
            collector = Collector()
            connection = connect(gateway.runner, collector, "local", "r")
            body = {"input": "word " * 180, "truncation": "auto", "previous_response_id": previous}
            await connection.receive(decode_create(json.dumps(body).encode()))
            await connection.finished()
            previous = collector.result().id


def test_an_endpoint_that_does_not_count_is_handed_no_more_than_fits(tmp_path: Path) -> None:
    with Endpoint() as endpoint:
        endpoint.answers(stream(delta(content="Yes."), delta(reason="stop")))
        engine = {"kind": "openai", "model": "m", "url": endpoint.url, "context": LIMIT}
        config = configuration(engines=[{"name": "e", **engine}])
        asyncio.run(talk(Gateway(config, tmp_path), 12))
        handed = [len(json.dumps(body["messages"])) // 3 for body in endpoint.asked]
    assert len(handed) == 12
    assert max(handed) < LIMIT
    assert max(handed) > LIMIT // 2


def test_a_gap_is_fitted_to_the_context_with_room_for_its_answer(tmp_path: Path) -> None:
    lines = "".join(f"value_{number} = {number}\n" for number in range(5000))
    with Endpoint() as endpoint:
        endpoint.answers(stream({"choices": [{"text": "x", "finish_reason": "stop"}]}))
        engine = {"kind": "openai", "model": "m", "url": endpoint.url, "context": LIMIT}
        config = configuration(engines=[{"name": "e", **engine}])
        fill = {"prefix": lines, "suffix": lines, "typed": "value", "files": []}
        asyncio.run(ask(Gateway(config, tmp_path), {"fill": fill, "max_output_tokens": 100}))
        [body] = endpoint.asked
    prompt, suffix = body["prompt"], body["suffix"]
    assert (lines + "value").endswith(prompt)
    assert prompt.startswith("value_")
    assert lines.startswith(suffix)
    assert suffix.endswith("\n")
    assert LIMIT // 2 < (len(prompt) + len(suffix)) / 3 < LIMIT - 100


@pytest.mark.parametrize(("words", "beside"), [(10, False), (20_000, True)], ids=["few", "many"])
def test_a_long_conversation_is_counted_beside_the_event_loop(
    gateway: RunningGateway, words: int, beside: bool
) -> None:
    """An engine may have to tokenise what it counts, which takes a second for a long one."""
    counters: set[threading.Thread] = set()
    loop = gateway._thread
    begun, goes_on = threading.Event(), threading.Event()

    def count(items: Sequence[Item], model: str) -> int:
        counters.add(threading.current_thread())
        begun.set()
        if beside:
            goes_on.wait()
        return words

    gateway.engine.count = count  # type: ignore[method-assign]
    body = {"input": "word " * words, "store": False}
    asking = threading.Thread(target=lambda: gateway.http.post(RESPONSES, json=body))
    asking.start()
    begun.wait()
    with gateway.http as http:
        for _ in range(3):
            http.get("/healthz").raise_for_status()
        assert asking.is_alive() or not beside
    goes_on.set()
    asking.join()
    assert (loop not in counters) == beside
    assert counters


@pytest.mark.parametrize(("asked", "sent"), [(900, 900), (1500, None), (5000, None)])
def test_a_limit_beyond_what_the_prompt_leaves_is_not_sent_on(
    tmp_path: Path, asked: int, sent: int | None
) -> None:
    """Some endpoints refuse a prompt and a limit that do not fit together."""
    with Endpoint() as endpoint:
        endpoint.answers(stream(delta(content="Yes."), delta(reason="stop")))
        engine = {"kind": "openai", "model": "m", "url": endpoint.url, "context": LIMIT}
        gateway = Gateway(configuration(engines=[{"name": "e", **engine}]), tmp_path)
        asyncio.run(ask(gateway, {"input": "word " * 500, "max_output_tokens": asked}))
        (body,) = endpoint.asked
    assert body.get("max_tokens") == sent

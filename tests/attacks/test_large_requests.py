"""A large request of one key holds up nobody else: its work is bounded, and done beside the loop.

What is judged is the number of calls in a turn of the event loop, for streams of others stand still
that long. 460,000 items took 14 seconds, at some 60 calls each, in one turn.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.fleets import KEY, RunningNode
from tests.support.http import RESPONSES
from tests.support.loop_turns import CountingLoop
from tests.support.server import MODEL, RunningGateway, configuration
from tests.support.socket import Socket
from tests.support.waiting import eventually
from vivace.engines.scripted import Reply, Say
from vivace.protocol.bounds import MAX_ITEMS, MAX_VALUES

ITEMS = 4_000
CALLS_PER_ITEM = 12
"""In the turn that has the most of them; 20 to 55 where all work is done on the loop."""

USER: dict[str, Any] = {"role": "user", "content": "x"}
ASSISTANT: dict[str, Any] = {"role": "assistant", "content": "x"}
CALL = {"type": "function_call", "call_id": "c", "name": "n", "arguments": "{}"}
OUTPUT = {"type": "function_call_output", "call_id": "c", "output": "x"}
TOOL_USE = {"type": "tool_use", "id": "c", "name": "n", "input": {}}
TOOL_RESULT = {"type": "tool_result", "tool_use_id": "c", "content": "x"}
CHAT_CALL = {"id": "c", "type": "function", "function": {"name": "n", "arguments": "{}"}}

CHAT, MESSAGES = "/v1/chat/completions", "/v1/messages"


def several(*units: Any) -> list[Any]:
    return [*units] * (ITEMS // len(units))


BODIES: dict[str, tuple[str, dict[str, Any], float]] = {
    "messages of both sides": (
        RESPONSES,
        {"input": several(ASSISTANT, USER), "store": False},
        CALLS_PER_ITEM,
    ),
    "messages that are stored": (RESPONSES, {"input": several(ASSISTANT, USER)}, CALLS_PER_ITEM),
    "calls": (RESPONSES, {"input": several(CALL, OUTPUT), "store": False}, CALLS_PER_ITEM),
    "items that are skipped": (
        RESPONSES,
        {"input": [*several({"type": "web_search_call"}), USER], "store": False},
        1,
    ),
    "properties of a schema": (
        RESPONSES,
        {
            "input": "x",
            "tools": [{"type": "function", "name": "f", "parameters": {"a": several({}, [])}}],
        },
        1,
    ),
    "truncation": (
        RESPONSES,
        {"input": several(ASSISTANT, USER), "store": False, "truncation": "auto"},
        CALLS_PER_ITEM,
    ),
    "an idempotency key": (
        RESPONSES,
        {"input": several(ASSISTANT, USER), "idempotency_key": "once"},
        CALLS_PER_ITEM,
    ),
    "compaction": (f"{RESPONSES}/compact", {"input": several(ASSISTANT, USER)}, CALLS_PER_ITEM),
    "chat": (CHAT, {"messages": several(ASSISTANT, USER)}, CALLS_PER_ITEM),
    "calls in chat": (
        CHAT,
        {
            "messages": several(
                {"role": "assistant", "tool_calls": [CHAT_CALL]},
                {"role": "tool", "tool_call_id": "c", "content": "x"},
            )
        },
        CALLS_PER_ITEM,
    ),
    "messages": (MESSAGES, {"messages": several(ASSISTANT, USER), "max_tokens": 5}, CALLS_PER_ITEM),
    "tool uses in messages": (
        MESSAGES,
        {
            "messages": several(
                {"role": "assistant", "content": [TOOL_USE]},
                {"role": "user", "content": [TOOL_RESULT]},
            ),
            "max_tokens": 5,
        },
        CALLS_PER_ITEM,
    ),
    "reminders in messages": (
        MESSAGES,
        {"messages": [USER, *several({"role": "system", "content": "x"})], "max_tokens": 5},
        1,
    ),
    "counting": (f"{MESSAGES}/count_tokens", {"messages": several(ASSISTANT, USER)}, 6),
}


@pytest.fixture(scope="module")
def loops() -> list[CountingLoop]:
    return []


def new_loop(loops: list[CountingLoop]) -> CountingLoop:
    loops.append(CountingLoop())
    return loops[-1]


@pytest.fixture(scope="module")
def gateway(loops: list[CountingLoop]) -> Iterator[RunningGateway]:
    config = configuration(engine={"context": 10**9})
    with RunningGateway(config=config, loop=lambda: new_loop(loops)) as running:
        yield running


@pytest.mark.parametrize(("path", "body", "calls_per_item"), BODIES.values(), ids=BODIES)
def test_a_large_request_takes_few_calls_in_any_turn_of_the_event_loop(
    gateway: RunningGateway,
    loops: list[CountingLoop],
    path: str,
    body: dict[str, Any],
    calls_per_item: float,
) -> None:
    with gateway.http as http:
        loops[0].most_calls = 0
        answer = http.post(path, json={"model": MODEL, **body})
    assert answer.status_code == 200, answer.text
    assert loops[0].most_calls < calls_per_item * ITEMS


def test_a_large_request_over_a_socket_takes_few_calls_in_any_turn(
    gateway: RunningGateway, loops: list[CountingLoop]
) -> None:
    with Socket(gateway.url) as socket:
        loops[0].most_calls = 0
        previous = None
        for _ in range(3):
            socket.create(several(ASSISTANT, USER), model=MODEL, previous_response_id=previous)
            ended = socket.until_end()[-1]
            assert ended["type"] == "response.completed"
            previous = ended["response"]["id"]
    assert loops[0].most_calls < 2 * CALLS_PER_ITEM * ITEMS  # the past is looked through, too


def test_a_request_beyond_the_bounds_costs_the_event_loop_next_to_nothing(
    gateway: RunningGateway, loops: list[CountingLoop]
) -> None:
    items = [USER] * (MAX_ITEMS + 1)
    values = [{**USER, "content": [{"type": "input_text", "text": "x"}] * MAX_VALUES}]
    with gateway.http as http, Socket(gateway.url) as socket:
        for more in (items, values):
            body = json.dumps({"model": MODEL, "input": more, "stream_id": "lane"})
            loops[0].most_calls = 0
            answer = http.post(RESPONSES, content=body)
            assert answer.status_code == 413
            assert answer.json()["error"]["code"] == "request_too_large"
            socket.raw.send(body[:-1] + ',"type":"response.create"}')
            refused = socket.read()
            assert (refused["status"], refused["stream_id"]) == (413, "lane")
            assert loops[0].most_calls < MAX_ITEMS
        assert socket.turn("x", model=MODEL)["type"] == "response.completed"


def test_a_conversation_that_grows_by_continuing_it_is_bounded(gateway: RunningGateway) -> None:
    with Socket(gateway.url) as socket:
        previous, kinds = None, []
        for _ in range(MAX_ITEMS // ITEMS):  # each has an output, too
            socket.create(several(ASSISTANT, USER), model=MODEL, previous_response_id=previous)
            ended = socket.until_end()[-1]
            kinds.append(ended["type"])
            previous = ended.get("response", {}).get("id")
        assert kinds == ["response.completed"] * (len(kinds) - 1) + ["error"]
        assert (ended["status"], ended["error"]["code"]) == (413, "request_too_large")
        assert "Leave out its oldest items" in ended["error"]["message"]


def test_large_requests_end_no_stream_that_an_engine_node_writes(
    monkeypatch: pytest.MonkeyPatch, loops: list[CountingLoop]
) -> None:
    monkeypatch.setenv("VIVACE_FLEET_KEY", KEY)
    endless = Reply(when="endless", then=(Say(" word", times=10_000_000),))
    items = several(ASSISTANT, USER)[: ITEMS // 2]
    schema = {"type": "function", "name": "f", "parameters": {"a": [{}] * ITEMS}}
    bodies: list[dict[str, Any]] = [
        {"input": items, "store": False},
        {"input": items, "truncation": "auto"},
        {"input": "x", "tools": [schema]},
    ]
    with RunningNode("a", [endless], rate=50, slots=4) as node:
        config = configuration(
            engines=[],
            tiers=[{"name": "fast", "engines": ["coder"]}],
            fleet={"engines": [node.url]},
        )
        with (
            RunningGateway(config=config, loop=lambda: new_loop(loops)) as gateway,
            Socket(gateway.url) as victim,
            gateway.http as http,
        ):
            eventually(lambda: http.get("/readyz").is_success)
            victim.create("endless", model="fast")
            numbers = [victim.until("response.output_text.delta")["sequence_number"]]
            loops[-1].most_calls = 0
            for body in bodies:
                answer = http.post(RESPONSES, json={"model": "fast", **body})
                assert answer.status_code == 200, answer.text
            assert loops[-1].most_calls < CALLS_PER_ITEM * len(items)
            for _ in range(50):
                event = victim.read()
                assert event["type"] == "response.output_text.delta"
                numbers.append(event["sequence_number"])
            assert numbers == list(range(numbers[0], numbers[0] + 51))
            assert node.running == 1

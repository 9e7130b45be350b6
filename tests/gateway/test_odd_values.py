"""Ids and numbers that a store or an engine node cannot take are the request's fault, and are
refused before either is asked.

A real PostgreSQL, whose text takes no NUL, and an engine node behind a link, whose whole numbers
have 64 bits.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Iterator
from contextlib import ExitStack
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from tests.support.fleets import KEY, Fleet
from tests.support.http import RESPONSES, sse
from tests.support.postgres import Postgres
from tests.support.socket import Socket
from tests.support.store import StoreCalls
from vivace.conversation.deltas import Delta
from vivace.engines.base import Work
from vivace.engines.scripted import Reply, Say

ODD_IDS = ["\0", "resp_\0a", "a" * 257, "resp_é", "resp_\n", "resp_\x7f"]
WORD = [Reply(then=(Say("word"),))]


_CLIENT_CALLS = (
    *("accept", "chain", "delete", "find", "find_key", "find_order", "load", "may_be_continued"),
    *("open_turns", "order", "response", "stat", "weight"),
)
"""Calls of the store that carry values of clients."""


class OddFleet:
    """A gateway, its PostgreSQL, and an engine node that notes what it is to work on."""

    def __init__(self, fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
        engine = fleet.node().engine
        self.works: list[Work] = []
        generate = engine.generate

        def noted(work: Work) -> AsyncGenerator[Delta, None]:
            self.works.append(work)
            return generate(work)

        monkeypatch.setattr(engine, "generate", noted)
        self.gateway = fleet.gateway()
        store = self.gateway.gateway.archive._store
        self.store_calls = StoreCalls(monkeypatch, store, *_CLIENT_CALLS).made


@pytest.fixture(scope="module")
def shared(postgres: Postgres) -> Iterator[OddFleet]:
    with ExitStack() as stack:
        monkeypatch = stack.enter_context(pytest.MonkeyPatch.context())
        monkeypatch.setenv("VIVACE_FLEET_KEY", KEY)
        yield OddFleet(Fleet(stack, postgres.emptied(), WORD), monkeypatch)


@pytest.fixture
def fleet(shared: OddFleet) -> Iterator[OddFleet]:
    shared.works.clear()
    shared.store_calls.clear()
    yield shared
    with shared.gateway.http as http:
        assert http.get("/readyz").text.startswith("ready")


@pytest.fixture
def http(fleet: OddFleet) -> Iterator[httpx.Client]:
    with fleet.gateway.http as client:
        yield client


def code(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["error"]["code"]


# -- ids ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("odd", ODD_IDS)
def test_response_of_an_impossible_id_is_not_found(
    fleet: OddFleet, http: httpx.Client, odd: str
) -> None:
    path = f"{RESPONSES}/{quote(odd)}"
    for answer in (
        http.get(path),
        http.get(path, params={"stream": "true", "starting_after": 0}),
        http.get(f"{path}/input_items"),
        http.delete(path),
        http.post(f"{path}/cancel"),
        http.post(f"{path}/steer", json={"input": "x"}, headers={"idempotency-key": "k"}),
        http.post(f"{path}/interrupt", json={}),
    ):
        assert code(answer) == (404, "response_not_found")
    assert fleet.store_calls == []


@pytest.mark.parametrize("odd", ODD_IDS)
def test_response_of_an_impossible_id_cannot_be_continued(
    fleet: OddFleet, http: httpx.Client, odd: str
) -> None:
    body = {"input": "x", "previous_response_id": odd}
    for path, more in (
        (RESPONSES, {}),
        (RESPONSES, {"stream": True}),
        (RESPONSES, {"background": True}),
        (RESPONSES, {"store": False}),
        (f"{RESPONSES}/compact", {"model": "fast"}),
    ):
        answer = http.post(path, json=body | more)
        assert code(answer) == (400, "previous_response_not_found")
        assert answer.json()["error"]["param"] == "previous_response_id"
    assert fleet.store_calls == []


@pytest.mark.parametrize("odd", ODD_IDS)
def test_impossible_id_over_a_socket_is_refused_and_the_socket_stays(
    fleet: OddFleet, odd: str
) -> None:
    with Socket(fleet.gateway.url) as socket:
        for event, expected in (
            ({"type": "response.create", "previous_response_id": odd}, 400),
            ({"type": "response.steer", "previous_response_id": odd}, 404),
            ({"type": "response.interrupt", "response_id": odd}, 404),
            ({"type": "response.resume", "response_id": odd, "starting_after": 0}, 404),
        ):
            socket.send(input="x", **event)
            assert socket.read()["status"] == expected
        assert fleet.store_calls == []
        socket.create("x")
        assert socket.until_end()[-1]["type"] == "response.completed"


@pytest.mark.parametrize("text", ["\0", "\uffff", "\u202e", "é" * 60])
def test_text_that_is_no_id_is_kept_as_it_is(http: httpx.Client, text: str) -> None:
    body = {
        "input": text,
        "instructions": text,
        "metadata": {text: text},
        "prompt_cache_key": text,
        "safety_identifier": text,
    }
    made = http.post(RESPONSES, json=body).json()
    kept = http.get(f"{RESPONSES}/{made['id']}").json()
    assert kept == made
    assert (kept["metadata"], kept["prompt_cache_key"]) == ({text: text}, text)
    items = http.get(f"{RESPONSES}/{made['id']}/input_items").json()["data"]
    assert items[0]["content"][0]["text"] == text
    streamed = http.get(f"{RESPONSES}/{made['id']}", params={"stream": "true"})
    assert [*sse(streamed.text.splitlines())][-1]["response"] == made


@pytest.mark.parametrize("key", ["\0", "a\0", "k" * 257, ""])
def test_idempotency_key_that_a_store_cannot_have_is_refused(
    fleet: OddFleet, http: httpx.Client, key: str
) -> None:
    answer = http.post(RESPONSES, json={"input": "x", "idempotency_key": key})
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "idempotency_key"
    assert fleet.store_calls == []


# -- numbers --------------------------------------------------------------------------------------

TOO_LARGE = [str(2**63), str(2**64), str(-(2**63) - 1), "9" * 400, "9" * 5000]
NO_WHOLE_NUMBER = ["1.5", "1e3", "1e400", "NaN", "Infinity", '"7"', "true"]
CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
BODIES: dict[str, dict[str, Any]] = {
    RESPONSES: {"input": "x"},
    CHAT: {"model": "fast", "messages": [{"role": "user", "content": "x"}]},
    COMPLETIONS: {"model": "fast", "prompt": "x"},
}


def with_number(path: str, field: str, number: str) -> bytes:
    return json.dumps(BODIES[path] | {field: 0}).replace(": 0", f": {number}").encode()


@pytest.mark.parametrize("path", BODIES)
def test_seed_that_no_engine_can_take_is_refused(
    fleet: OddFleet, http: httpx.Client, path: str
) -> None:
    for number in (*TOO_LARGE, *NO_WHOLE_NUMBER):
        answer = http.post(path, content=with_number(path, "seed", number))
        assert answer.status_code == 400, (number, answer.text)
    assert fleet.works == []


@pytest.mark.parametrize("path", BODIES)
def test_seed_of_64_bits_reaches_the_engine_node(
    fleet: OddFleet, http: httpx.Client, path: str
) -> None:
    seeds = [2**63 - 1, -(2**63), 0, -1]
    for seed in seeds:
        assert http.post(path, json=BODIES[path] | {"seed": seed}).status_code == 200
    assert [work.sampling.seed for work in fleet.works] == seeds


def test_number_out_of_bounds_is_refused(fleet: OddFleet, http: httpx.Client) -> None:
    fields = ("max_output_tokens", "max_tool_calls", "temperature", "top_p", "presence_penalty")
    for field in fields:
        for number in ("-3", *TOO_LARGE, *NO_WHOLE_NUMBER[2:]):
            answer = http.post(RESPONSES, content=with_number(RESPONSES, field, number))
            assert answer.status_code == 400, (field, number, answer.text)
    assert fleet.works == []


@pytest.mark.parametrize(("number", "status"), [(2**64 - 1, 200), (2**64, 400), (-(2**70), 400)])
def test_number_in_a_schema_is_one_that_an_engine_node_can_take(
    fleet: OddFleet, http: httpx.Client, number: int, status: int
) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer", "maximum": number}}}
    tool = {"type": "function", "name": "f", "parameters": schema}
    form = {"format": {"type": "json_schema", "name": "s", "schema": schema}}
    tools = {"type": "additional_tools", "tools": [tool]}
    called = {"type": "function", "function": {"name": "f", "parameters": schema}}
    claude = {"name": "f", "input_schema": schema}
    said = {"messages": [{"role": "user", "content": "x"}], "model": "fast", "max_tokens": 5}
    for path, body in (
        (RESPONSES, {"input": "x", "tools": [tool]}),
        (RESPONSES, {"input": "x", "text": form}),
        (RESPONSES, {"input": [tools, {"role": "user", "content": "x"}]}),
        (CHAT, said | {"tools": [called]}),
        ("/v1/messages", said | {"tools": [claude]}),
    ):
        answer = http.post(path, json=body)
        assert answer.status_code == status, (path, body, answer.text)
        assert '"failed"' not in answer.text
    assert bool(fleet.works) == (status == 200)


def test_number_in_the_arguments_of_a_call_may_be_any(http: httpx.Client) -> None:
    """Arguments are text, as a model wrote it."""
    call = {"type": "tool_use", "id": "t", "name": "f", "input": {"n": 10**30}}
    messages = [
        {"role": "user", "content": "x"},
        {"role": "assistant", "content": [call]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "x"}]},
    ]
    body = {"model": "fast", "max_tokens": 5, "messages": messages}
    assert http.post("/v1/messages", json=body).status_code == 200

"""Whatever goes wrong while a client is served, the client hears of it and can go on."""

from __future__ import annotations

import asyncio
import logging
import re
from functools import reduce
from typing import Any

import pytest
from msgspec.structs import replace

from tests.support.http import RESPONSES, sse
from tests.support.server import RunningGateway
from tests.support.socket import Socket
from tests.support.waiting import eventually
from vivace.counters.local import LocalLimiter
from vivace.engines.scripted import Fail, Reply, Say
from vivace.gateway import http as http_module

TOLD = {"error", "response.failed", "response.completed"}


def corrupt(gateway: RunningGateway, response_id: str, **columns: bytes) -> None:
    """Write what another version, or a bad disk, might have left."""
    archive = gateway.gateway.archive

    async def write() -> None:
        turn = await archive._store.load(response_id, "local")
        assert turn is not None
        await archive._store.save(replace(turn, **columns))

    gateway.run(write())
    archive._links.clear("local")


UNREADABLE = [
    ("input", b'[{"type":"new_kind"}]', []),
    ("input", b"\xff\xfe", ["/input_items"]),
    ("input", b'[{"type":"message"},{"type":"message"}', ["/input_items"]),
    ("response", b"{", [""]),
    ("response", b'{"output":[{"type":"new_kind"}]}', []),
]


@pytest.mark.parametrize(("column", "value", "refused_parts"), UNREADABLE)
def test_a_stored_turn_that_cannot_be_read_is_said_to_be_so_and_can_be_deleted(
    gateway: RunningGateway, column: str, value: bytes, refused_parts: list[str]
) -> None:
    """``refused_parts``: what cannot be shown of it; the rest is shown as it was stored."""
    with gateway.http as http, Socket(gateway.url) as socket:
        made = http.post(RESPONSES, json={"input": "x"}).json()
        corrupt(gateway, made["id"], **{column: value})

        socket.create("go on", previous_response_id=made["id"])
        refused = socket.until_end()[-1]
        assert refused["status"] == 500
        assert refused["error"]["code"] == "response_unreadable"
        assert socket.turn("another question")["type"] == "response.completed"

        path = f"{RESPONSES}/{made['id']}"
        continued = {"input": "x", "previous_response_id": made["id"]}
        for answer in (
            *(http.get(f"{path}{part}") for part in refused_parts),
            http.post(RESPONSES, json=continued),
            http.post(RESPONSES, json=continued | {"stream": True}),
            http.post(RESPONSES, json=continued | {"background": True}),
        ):
            assert answer.status_code == 500
            assert answer.json()["error"]["code"] == "response_unreadable"
            assert "cannot be read" in answer.json()["error"]["message"]
        assert http.delete(path).status_code == 200


def failing(*_: Any, **__: Any) -> Any:
    raise LookupError("a secret word of the prompt")


def cancelled(*_: Any, **__: Any) -> Any:
    raise asyncio.CancelledError  # of something that was waited for, not of the task


@pytest.mark.parametrize(
    ("part", "fault"),
    [
        ("archive.link", failing),
        ("archive.link", cancelled),
        ("keeper.store.accept", failing),
        ("keeper.store.end", failing),
        ("keeper.store.end", cancelled),
        ("planner.plan", failing),
        ("planner.settle", failing),
        ("planner.shown", failing),
        ("planner.abandon", failing),
        ("metrics.turns.labels", failing),
        ("metrics.running.labels", failing),
    ],
)
def test_a_fault_anywhere_is_said_and_gives_back_its_place(
    gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch, part: str, fault: Any
) -> None:
    runner = gateway.gateway.runner
    with gateway.http as http, Socket(gateway.url) as socket:
        parent = http.post(RESPONSES, json={"input": "x"}).json()["id"]
        gateway.gateway.archive._links.clear("local")
        with monkeypatch.context() as broken:
            *path, name = part.split(".")
            broken.setattr(reduce(getattr, path, runner), name, fault)
            socket.create("go on", previous_response_id=parent)
            told = socket.until_end()
            assert told[-1]["type"] in TOLD
            if told[-1]["type"] == "error":
                assert told[-1]["error"]["code"] == "server_error"
                assert "secret" not in told[-1]["error"]["message"]
        assert socket.turn("and again")["type"] == "response.completed"
    eventually(lambda: not runner._running)
    limiter = gateway.gateway.limiter
    assert isinstance(limiter, LocalLimiter)
    assert [account.running for account in limiter.ledger._accounts.values()] == [0]
    assert gateway.gateway.dispatch._places == {}


def test_a_fault_while_answering_ends_the_turn_as_failed(
    gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Socket(gateway.url) as socket:
        with monkeypatch.context() as broken:
            broken.setattr(gateway.engine, "generate", failing)
            last = socket.turn("x")
        assert last["type"] == "response.failed"
        assert last["response"]["error"]["code"] == "server_error"
        assert socket.turn("x")["type"] == "response.completed"


def test_a_fault_of_an_endpoint_is_answered_with_words(
    gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gateway.gateway.archive, "response", failing)
    with gateway.http as http:
        answer = http.get(f"{RESPONSES}/resp_1", headers={"x-request-id": "mine"})
    assert answer.status_code == 500
    assert answer.json()["error"]["code"] == "server_error"
    assert "mine" in answer.json()["error"]["message"]
    assert "secret" not in answer.text


@pytest.mark.parametrize("path", [RESPONSES, "/v1/chat/completions"])
def test_a_stream_whose_end_cannot_be_written_ends_with_an_error(
    gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    gateway.engine.play([Reply(then=(Say("Good day."),))])
    real = http_module.EventStream._put

    async def breaking(self: Any, message: Any) -> None:
        if re.search(rb'"response.completed"|"stop"', message.get("body", b"")):
            raise LookupError("a secret word")
        await real(self, message)

    monkeypatch.setattr(http_module.EventStream, "_put", breaking)
    body = {"input": "x", "messages": [{"role": "user", "content": "x"}], "stream": True}
    with gateway.http as http:
        last = list(sse(http.post(path, json=body, timeout=5).text.splitlines()))[-1]
    assert last["error"]["code"] == "server_error"
    gateway.witness.problems.clear()  # that the response had no end of its own is the point


def test_what_went_wrong_is_found_in_the_log_by_the_request_and_the_turn(
    gateway: RunningGateway, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO, "vivace")
    gateway.engine.play([Reply(when="fail", then=(Say("so far"), Fail()))])
    with Socket(gateway.url, {"x-request-id": "trace-me"}) as socket:
        socket.turn("x", previous_response_id="resp_nobody")
        assert "refused request_id=trace-me code=previous_response_not_found" in caplog.messages
        failed = socket.turn("fail")["response"]["id"]
        assert f"failed request_id=trace-me turn={failed} server_error" in caplog.messages

        def unable(*_: object) -> None:
            raise RuntimeError("no room")

        monkeypatch.setattr(gateway.gateway.keeper.store, "end", unable)
        kept = socket.turn("keep this")["response"]
        assert kept["store"] is False
        assert f"not stored request_id=trace-me turn={kept['id']}" in caplog.messages
        monkeypatch.setattr(gateway.gateway.runner.planner, "plan", unable)
        socket.turn("plan this")
        faults = [line for line in caplog.messages if line.startswith("fault request_id=trace-me ")]
        assert re.search(r"turn=resp_\w+$", faults[-1])

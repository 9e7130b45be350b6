"""Background responses: begun by one request, read by others, whoever leaves meanwhile."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from msgspec.structs import replace

from tests.support.http import RESPONSES, said, sse
from tests.support.server import RunningGateway
from tests.support.socket import Socket
from tests.support.waiting import eventually
from vivace.engines.scripted import Reply, Say, Stall
from vivace.errors import StoreError
from vivace.protocol.codec import encode

LONG = (Say("early "), Stall(600), Say("late"))
"""Until the gateway is told to ``go_on``."""


@pytest.fixture
def http(gateway: RunningGateway) -> Iterator[httpx.Client]:
    with gateway.http as client:
        yield client


def replay(http: httpx.Client, response_id: str, after: int = -1) -> list[dict[str, Any]]:
    query = {"stream": "true"} | ({"starting_after": str(after)} if after >= 0 else {})
    answer = http.get(f"{RESPONSES}/{response_id}", params=query)
    assert answer.status_code == 200, answer.text
    return list(sse(answer.text.splitlines()))


def begin(socket: Socket, words: str = "x", **body: Any) -> str:
    socket.create(words, background=True, **body)
    response_id: str = socket.until("response.created")["response"]["id"]
    return response_id


def turns_of(http: httpx.Client) -> int:
    """How many turns have ended, by the metrics."""
    figures = re.findall(r"^vivace_turns_total{.*} (\d+)", http.get("/metrics").text, re.MULTILINE)
    return sum(int(figure) for figure in figures)


def test_over_a_socket_it_lives_on_when_the_socket_is_gone(
    gateway: RunningGateway, http: httpx.Client
) -> None:
    gateway.engine.play([Reply(then=LONG)])
    with Socket(gateway.url) as socket:
        response_id = begin(socket, stream_id="a")
        first = socket.until("response.output_text.delta")
        socket.vanish()
    gateway.go_on()
    later = replay(http, response_id, first["sequence_number"])
    assert [event["sequence_number"] for event in later] == list(
        range(first["sequence_number"] + 1, first["sequence_number"] + 1 + len(later))
    )
    assert later[-1]["type"] == "response.completed"
    assert not any("stream_id" in event for event in later)  # which is a socket's
    assert said(http.get(f"{RESPONSES}/{response_id}").json()) == "early late"


def test_over_a_socket_that_stays_it_is_told_and_recorded_alike(
    gateway: RunningGateway, http: httpx.Client
) -> None:
    gateway.engine.play([Reply(then=LONG)])
    with Socket(gateway.url) as socket:
        socket.create("x", background=True)
        gateway.go_on()
        told = socket.until_end()
    assert replay(http, told[0]["response"]["id"]) == told


def test_a_turn_that_waits_behind_it_goes_with_the_socket(
    gateway: RunningGateway, http: httpx.Client
) -> None:
    gateway.engine.play([Reply(then=LONG)])
    with Socket(gateway.url) as socket:
        response_id = begin(socket)
        socket.create("not in the background")
        socket.create("y", background=True)
        socket.until("response.output_text.delta")
        socket.vanish()
    eventually(lambda: gateway.gateway.metrics.connections._value.get() == 0)
    gateway.go_on()
    assert replay(http, response_id)[-1]["type"] == "response.completed"
    assert turns_of(http) == 1


def test_it_can_be_steered_when_its_socket_is_gone_and_so_can_what_follows(
    gateway: RunningGateway, http: httpx.Client
) -> None:
    gateway.engine.play([Reply(when="shorter", then=LONG), Reply(then=(Say("one"), Stall(60)))])
    with Socket(gateway.url) as socket:
        response_id = begin(socket)
        socket.until("response.output_text.delta")
        socket.vanish()
    eventually(lambda: gateway.gateway.metrics.connections._value.get() == 0)
    steered = http.post(f"{RESPONSES}/{response_id}/steer", json={"input": "shorter"}).json()
    successor = steered["successor_id"]
    eventually(lambda: http.get(f"{RESPONSES}/{successor}").status_code == 200)
    assert replay(http, response_id)[-1]["response"]["incomplete_details"]["reason"] == "steered"
    gateway.go_on("early ")
    assert replay(http, successor)[-1]["type"] == "response.completed"
    assert said(http.get(f"{RESPONSES}/{successor}").json()) == "early late"


@pytest.mark.parametrize("word", ["cancel", "interrupt"])
def test_it_can_be_stopped_when_its_socket_is_gone(
    gateway: RunningGateway, http: httpx.Client, word: str
) -> None:
    gateway.engine.play([Reply(then=(Say("one"), Stall(60)))])
    with Socket(gateway.url) as socket:
        response_id = begin(socket)
        socket.until("response.output_text.delta")
        socket.vanish()
    path = f"{RESPONSES}/{response_id}"
    assert http.post(f"{path}/{word}").status_code == 200
    eventually(lambda: http.get(path).json()["status"] in ("cancelled", "incomplete"))
    assert gateway.engine.running() == 0
    assert http.delete(path).status_code == 200
    assert http.get(path).status_code == 404


def test_when_its_key_is_revoked_it_ends_though_its_socket_is_gone(
    gateway: RunningGateway, http: httpx.Client
) -> None:
    gateway.engine.play([Reply(then=(Say("one"), Stall(60)))])
    with Socket(gateway.url) as socket:
        response_id = begin(socket)
        socket.until("response.output_text.delta")
        socket.vanish()
    eventually(lambda: gateway.gateway.metrics.connections._value.get() == 0)

    async def revoke() -> None:
        gateway.gateway.runner.revoke("local")

    gateway.run(revoke())
    eventually(lambda: http.get(f"{RESPONSES}/{response_id}").json()["status"] == "failed")
    assert gateway.engine.running() == 0


def test_over_a_socket_too_it_must_be_stored(gateway: RunningGateway) -> None:
    with Socket(gateway.url) as socket:
        refused = socket.turn("x", background=True, store=False)
        assert (refused["status"], refused["error"]["param"]) == (400, "store")


def test_one_that_cannot_be_kept_is_refused_before_it_begins(
    gateway: RunningGateway, http: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def full(*_: object) -> None:
        raise StoreError("The disk is full.")

    monkeypatch.setattr(gateway.gateway.archive._store, "accept", full)
    answer = http.post(RESPONSES, json={"input": "x", "background": True})
    assert answer.status_code == 503
    assert "disk is full" in answer.json()["error"]["message"]
    assert turns_of(http) == 0


def test_one_whose_end_could_not_be_stored_is_still_answered(
    gateway: RunningGateway, http: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway.engine.play([Reply(then=LONG)])
    path = (
        f"{RESPONSES}/{http.post(RESPONSES, json={'input': 'x', 'background': True}).json()['id']}"
    )

    async def full(*_: object) -> None:
        raise StoreError("The disk is full.")

    monkeypatch.setattr(gateway.gateway.archive._store, "end", full)
    gateway.go_on()
    eventually(lambda: http.get(path).json()["status"] == "completed")
    answer = http.get(path).json()
    assert said(answer) == "early late"
    assert answer["store"] is False


def test_an_end_is_read_when_it_is_on_record(
    gateway: RunningGateway, http: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may still be that it cannot be stored, and then it says so."""
    tried, over = asyncio.Event(), asyncio.Event()

    async def full_in_a_while(*_: object) -> None:
        tried.set()
        await over.wait()
        raise StoreError("The disk is full.")

    monkeypatch.setattr(gateway.gateway.archive._store, "end", full_in_a_while)
    made = http.post(RESPONSES, json={"input": "x", "background": True}).json()
    eventually(tried.is_set)
    with ThreadPoolExecutor(1) as aside:
        reading = aside.submit(http.get, f"{RESPONSES}/{made['id']}")
        eventually(lambda: reading.done() or gateway.witness.requests == 1)
        for _ in range(5):  # an answer to the other one would not come behind these
            assert gateway.http.get("/healthz").is_success
        assert not reading.done()
        gateway.run(_set(over))
        answer = reading.result().json()
    assert (answer["status"], answer["store"]) == ("completed", False)


async def _set(event: asyncio.Event) -> None:
    event.set()


def test_one_in_progress_cannot_be_continued_yet(
    gateway: RunningGateway, http: httpx.Client
) -> None:
    gateway.engine.play([Reply(when="x", then=(Say("one"), Stall(60)))])
    running = http.post(RESPONSES, json={"input": "x", "background": True}).json()
    body = {"input": "y", "previous_response_id": running["id"]}
    refused = http.post(RESPONSES, json=body)
    assert refused.status_code == 400
    assert "in progress" in refused.json()["error"]["message"]
    http.post(f"{RESPONSES}/{running['id']}/cancel")
    assert http.post(RESPONSES, json=body).status_code == 200


def test_an_earlier_process_that_died_leaves_a_failed_response(
    gateway: RunningGateway, http: httpx.Client
) -> None:
    """As after ``kill -9``: accepted, stored as in progress, and nobody runs it."""
    gateway.engine.play([Reply(then=LONG)])
    made = http.post(RESPONSES, json={"input": "x", "background": True}).json()
    path = f"{RESPONSES}/{made['id']}"
    archive = gateway.gateway.archive
    gateway.go_on()
    eventually(lambda: http.get(path).json()["status"] == "completed")

    async def forget() -> None:
        turn = await archive._store.load(made["id"], "local")
        assert turn is not None
        await archive._store.save(replace(turn, response=encode(made)))
        archive._links.clear("local")
        await archive.events.delete(made["id"], "local")

    gateway.run(forget())
    answer = http.get(path).json()
    assert answer["status"] == "failed"
    assert answer["error"]["code"] == "server_restarted"
    assert answer | {"status": made["status"], "error": None} == made
    assert http.get(f"{path}/input_items").json()["data"][0]["role"] == "user"
    assert http.get(path, params={"stream": "true"}).status_code == 404
    continued = http.post(RESPONSES, json={"input": "y", "previous_response_id": made["id"]})
    assert continued.status_code == 400
    assert continued.json()["error"]["code"] == "previous_response_not_found"
    assert "has failed" in continued.json()["error"]["message"]
    assert http.post(f"{path}/cancel").json() == answer
    assert http.delete(path).status_code == 200
    assert http.get(path).status_code == 404

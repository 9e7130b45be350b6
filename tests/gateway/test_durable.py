"""A turn that was accepted is never lost: what anybody has seen of it is there after a crash."""

from __future__ import annotations

import asyncio
import json
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.support.http import RESPONSES
from tests.support.process import Serve
from tests.support.server import RunningGateway, configuration
from tests.support.socket import Socket
from tests.support.waiting import eventually
from vivace.engines.scripted import Reply, Say, Stall

STORY = """
[[replies]]
when = "story"
then = [{ do = "say", text = " word", times = 1000000 }]
"""


def words(socket: Socket, count: int) -> tuple[str, str]:
    """The id of a response and its first words, as far as they were read."""
    response_id, text = "", ""
    while count:
        event = socket.read()
        if event["type"] == "response.created":
            response_id = event["response"]["id"]
        if event["type"] == "response.output_text.delta":
            text += event["delta"]
            count -= 1
    return response_id, text


def text_of(response: dict[str, Any]) -> str:
    return "".join(
        part["text"]
        for item in response["output"]
        if item["type"] == "message"
        for part in item["content"]
    )


def test_what_was_seen_of_an_answer_is_there_when_the_server_was_killed(tmp_path: Path) -> None:
    with Serve(tmp_path, STORY, rate=500) as server, Socket(server.url) as socket:
        socket.create("a story")
        response_id, seen = words(socket, 40)
        server.process.send_signal(signal.SIGKILL)
    with Serve(tmp_path, STORY) as server, server.http() as http:
        found = http.get(f"/v1/responses/{response_id}").json()
        assert found["status"] in ("incomplete", "cancelled")
        assert text_of(found).startswith(seen)
        goes_on = {"input": "and now?", "previous_response_id": response_id}
        assert http.post("/v1/responses", json=goes_on).json()["status"] == "completed"
        assert server.errors == []


def test_a_turn_in_the_background_is_told_with_what_it_had_said(tmp_path: Path) -> None:
    with Serve(tmp_path, STORY, rate=500) as server, server.http() as http:
        made = http.post("/v1/responses", json={"input": "a story", "background": True}).json()
        path = f"/v1/responses/{made['id']}"
        seen = ""
        with http.stream("GET", path, params={"stream": "true"}) as stream:
            for line in stream.iter_lines():
                if line.startswith("data: "):
                    seen += json.loads(line[6:]).get("delta", "")
                if len(seen) > 200:
                    break
        server.process.send_signal(signal.SIGKILL)
    with Serve(tmp_path, STORY) as server, server.http() as http:
        found = http.get(path).json()
        assert found["status"] == "failed"
        assert found["error"]["code"] == "server_restarted"
        assert seen == "" or found["output"] == [] or text_of(found).startswith(seen)


def test_nobody_hears_of_a_turn_before_it_is_on_record_and_the_engine_does_not_wait(
    gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = gateway.gateway.keeper.store
    accept, waiting = store.accept, asyncio.Event()

    async def slowly(turn: Any) -> Any:
        await waiting.wait()
        return await accept(turn)

    monkeypatch.setattr(store, "accept", slowly)
    gateway.engine.play([Reply(then=(Say("word "), Stall(0.5), Say("end")))])
    with Socket(gateway.url) as socket:
        socket.create("hi")
        eventually(lambda: gateway.engine.running() == 1)
        with pytest.raises(TimeoutError):
            socket.read(timeout=0.2)
        gateway.run(_set(waiting))
        kinds = [event["type"] for event in socket.until_end()]
    assert kinds[0] == "response.created"
    assert kinds[-1] == "response.completed"


async def _set(event: asyncio.Event) -> None:
    event.set()


def test_a_turn_whose_parent_is_gone_by_then_is_refused_and_never_heard_of(
    gateway: RunningGateway,
) -> None:
    with Socket(gateway.url) as socket:
        parent = socket.turn("first")["response"]["id"]
        store = gateway.gateway.keeper.store
        gateway.run(store.delete(parent, "local"))  # by another gateway, as it were
        socket.create("on", previous_response_id=parent)
        [told] = socket.until_end()
        assert told["error"]["code"] == "previous_response_not_found"
        assert socket.turn("anew")["type"] == "response.completed"
    assert gateway.engine.running() == 0


def test_a_turn_after_one_that_is_not_kept_brings_all_that_came_before(tmp_path: Path) -> None:
    config = configuration(store={"path": "turns.db"})
    with RunningGateway(config=config, base=tmp_path) as gateway, Socket(gateway.url) as socket:
        passing = socket.turn("malachite", store=False)["response"]["id"]
        kept = socket.turn("obsidian", previous_response_id=passing)["response"]["id"]
    with RunningGateway(config=config, base=tmp_path) as gateway:
        items = gateway.http.get(f"{RESPONSES}/{kept}/input_items?order=asc").json()["data"]
        assert "malachite" in json.dumps(items)
        body = {"input": "and?", "previous_response_id": kept}
        assert gateway.http.post(RESPONSES, json=body).json()["status"] == "completed"


def test_a_steer_and_the_turn_that_it_made_are_on_record(gateway: RunningGateway) -> None:
    gateway.engine.play([Reply(when="story", then=(Say("word ", times=5), Stall(60)))])
    store = gateway.gateway.keeper.store
    with Socket(gateway.url) as socket:
        socket.create("a story")
        first, _ = words(socket, 1)
        socket.send(type="response.steer", previous_response_id=first, input="shorter")
        accepted = socket.until("response.steer.accepted")["steer"]["id"]
        order = gateway.run(store.find_order(accepted, "local"))
        assert order is not None
        assert order.turn_id == first
        successor = socket.until("response.created")["response"]["id"]
        order = gateway.run(store.find_order(accepted, "local"))
        assert order is not None
        assert (order.state, order.applied_by) == ("applied", successor)
        socket.until_end()
    record = gateway.run(store.find(successor, "local"))
    assert record is not None
    assert record.previous_id == first

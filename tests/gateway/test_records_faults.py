"""What becomes of a running turn when something is wrong with its record."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.support.http import RESPONSES, sse
from tests.support.server import RunningGateway, configuration
from tests.support.socket import Socket
from tests.support.waiting import eventually
from vivace.engines.scripted import Call, Die, Fail, Reply, Say, Stall
from vivace.errors import StoreError
from vivace.gateway import app


def running(socket: Socket) -> str:
    """The id of a turn that has said a word."""
    socket.create("a story")
    response_id: str = socket.until("response.created")["response"]["id"]
    socket.until("response.output_text.delta")
    return response_id


def test_steers_of_a_turn_that_failed_are_on_record_as_handed_back(
    gateway: RunningGateway,
) -> None:
    calls = (Say("word"), Call("look", "{}"), Call("look", "{}"))
    gateway.engine.play([Reply(then=(*calls, Stall(0.4), Fail("Out of luck.")))])
    with Socket(gateway.url) as socket:
        first = running(socket)
        for _ in range(2):
            socket.until("response.output_item.done")
        steer = {"previous_response_id": first, "input": "shorter", "when": "item_end"}
        socket.send(type="response.steer", **steer)
        steer_id = socket.until("response.steer.accepted")["steer"]["id"]
        assert socket.until_end()[-1]["type"] == "response.failed"
        socket.until("response.steer.failed")
    order = gateway.run(gateway.gateway.keeper.store.find_order(steer_id, "local"))
    assert order is not None
    assert order.state == "returned"


def test_a_fault_while_a_steer_is_written_ends_the_turn_and_is_told(
    gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway.engine.play([Reply(when="story", then=(Say("word "), Stall(60)))])
    monkeypatch.setattr(gateway.gateway.keeper.store, "order", faulty)
    with Socket(gateway.url) as socket:
        first = running(socket)
        steer = {"previous_response_id": first, "input": "shorter", "when": "item_end"}
        socket.send(type="response.steer", **steer)
        ended = socket.until_end()[-1]
        assert ended["response"]["error"]["code"] == "server_error"
        assert first in ended["response"]["error"]["message"]
        assert gateway.http.get(f"{RESPONSES}/{first}").json()["status"] == "failed"
        assert socket.turn("hi")["type"] == "response.completed"


def test_a_fault_while_another_attempt_is_written_ends_the_turn_and_is_told(
    gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On its first engine, as it were: what counts is that its words wait for the record."""
    gateway.engine.play([Reply(when="story", then=(Say("word ", times=5000), Stall(60)))])
    monkeypatch.setattr(gateway.gateway.keeper.store, "attempt", faulty)
    with Socket(gateway.url) as socket:
        running(socket)
        [run] = gateway.gateway.runner._running
        assert run.kept is not None
        gateway.run(_another_attempt(run.kept))
        assert socket.until_end()[-1]["type"] == "response.failed"
        assert socket.turn("hi")["type"] == "response.completed"


async def _another_attempt(kept: Any) -> None:
    kept.attempt()


async def faulty(*_: Any) -> Any:
    raise RuntimeError("nobody foresaw this")


# -- a turn that is another gateway's by now ------------------------------------------------------


def take_away(gateway: RunningGateway, response_id: str) -> None:
    gateway.run(gateway.gateway.keeper.store.take(response_id, 1, "another"))


def test_who_lost_a_turn_tells_no_end_of_it(gateway: RunningGateway) -> None:
    gateway.engine.play([Reply(when="story", then=(Say("word "), Stall(0.4), Say("end")))])
    store = gateway.gateway.keeper.store
    with Socket(gateway.url) as socket:
        first = running(socket)
        take_away(gateway, first)
        ended = socket.until_end()[-1]
        assert (ended["type"], ended["error"]["code"]) == ("error", "resumed_elsewhere")
        assert socket.turn("hi")["type"] == "response.completed"
    found = gateway.run(store.find(first, "local"))
    assert found is not None
    assert (found.status, found.holder) == (None, "another")
    assert gateway.http.get(f"{RESPONSES}/{first}?stream=true").status_code == 404


def test_who_lost_a_turn_says_nothing_of_what_a_steer_would_have_made(
    gateway: RunningGateway,
) -> None:
    gateway.engine.play([Reply(when="story", then=(Say("word "), Stall(60)))])
    with Socket(gateway.url) as socket:
        first = running(socket)
        take_away(gateway, first)
        socket.send(type="response.steer", previous_response_id=first, input="shorter")
        events = socket.until_end()
        assert events[-1]["error"]["code"] == "resumed_elsewhere"
        assert socket.turn("hi")["type"] == "response.completed"
    assert gateway.engine.running() == 0


def test_a_stream_over_http_of_a_turn_that_was_lost_ends_with_an_error(
    gateway: RunningGateway,
) -> None:
    gateway.engine.play([Reply(then=(Say("word "), Stall(0.5), Say("end")))])
    with gateway.http.stream(
        "POST", RESPONSES, json={"input": "a story", "stream": True}
    ) as stream:
        events = []
        for line in stream.iter_lines():
            for event in sse([line]):
                events.append(event)
                if event["type"] == "response.created":
                    take_away(gateway, event["response"]["id"])
    said, error = events[-2:]
    assert (error["type"], error["code"]) == ("error", "resumed_elsewhere")
    assert error["sequence_number"] == said["sequence_number"] + 1
    assert error["message"] == error["error"]["message"]
    assert not {event["type"] for event in events} & {"response.completed", "response.failed"}
    gateway.witness.problems.clear()  # that the response had no end of its own is the point


def test_words_of_an_attempt_that_came_too_late_are_not_said(gateway: RunningGateway) -> None:
    gateway.engine.play([Reply(when="story", then=(Say("word "), Stall(0.3), Say("late "), Die()))])
    with Socket(gateway.url) as socket:
        first = running(socket)
        take_away(gateway, first)
        [run] = gateway.gateway.runner._running
        assert run.kept is not None
        gateway.run(_another_attempt(run.kept))
        events = socket.until_end()
        assert events[-1]["error"]["code"] == "resumed_elsewhere"
        assert "late " not in [event.get("delta") for event in events]
    eventually(lambda: not gateway.gateway.runner._running)


def test_what_happens_to_a_turn_comes_on_record_after_the_turn(
    gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, held = gateway.gateway.keeper.store, asyncio.Event()
    accept = store.accept

    async def slowly(new: Any) -> Any:
        await held.wait()
        return await accept(new)

    monkeypatch.setattr(store, "accept", slowly)
    gateway.engine.play([Reply(when="story", then=(Say("word "), Stall(1), Say("more")))])
    with Socket(gateway.url) as socket:
        socket.create("a story")
        eventually(lambda: len(gateway.gateway.runner._running) == 1)
        [run] = gateway.gateway.runner._running
        assert run.kept is not None
        gateway.run(_another_attempt(run.kept))
        gateway.run(_set(held))
        assert socket.until_end()[-1]["type"] == "response.completed"
        assert gateway.http.get(f"{RESPONSES}/{run.id}").json()["status"] == "completed"


async def _set(event: asyncio.Event) -> None:
    event.set()


# -- what is deleted ------------------------------------------------------------------------------


def test_nothing_is_left_in_any_file_of_a_turn_that_was_deleted_while_another_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app, "_PRUNE_EVERY", 0.1)
    config = configuration(store={"path": "turns.db"})
    replies = [Reply(when="story", then=(Say("word "), Stall(60))), Reply(then=(Say("Yes."),))]
    with (
        RunningGateway(replies, config=config, base=tmp_path) as gateway,
        Socket(gateway.url) as socket,
        gateway.http as http,
    ):
        first = running(socket)
        made = http.post(RESPONSES, json={"input": "hi", "instructions": "malachite"}).json()
        assert found_in(tmp_path / "turns.db-said", b"malachite")
        assert http.delete(f"{RESPONSES}/{made['id']}").status_code == 200
        eventually(lambda: not found_in(tmp_path, b"malachite"))
        eventually(lambda: found_in(tmp_path / "turns.db-said", first.encode()))


def found_in(folder: Path, words: bytes) -> bool:
    return any(words in path.read_bytes() for path in folder.rglob("*") if path.is_file())


# -- a store that is away -------------------------------------------------------------------------


@pytest.mark.parametrize("ask", [{}, {"stream": True}, {"background": True}])
def test_nobody_hears_of_a_turn_that_must_be_kept_while_the_store_is_away(
    gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch, ask: dict[str, bool]
) -> None:
    keeper = gateway.gateway.keeper
    monkeypatch.setattr(keeper, "must", True)
    monkeypatch.setattr(keeper.store, "accept", away)
    with gateway.http as http, Socket(gateway.url) as socket:
        refused = http.post(RESPONSES, json={"input": "hi", **ask})
        assert refused.status_code == 503
        assert refused.json()["error"]["code"] == "store_unavailable"
        assert refused.headers["retry-after"] == "1"
        socket.create("hi")
        [told] = socket.until_end()
        assert (told["status"], told["error"]["code"]) == (503, "store_unavailable")
        assert socket.turn("hi", store=False)["type"] == "response.completed"


def test_a_conversation_that_cannot_be_read_now_is_refused_as_such(
    gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    with gateway.http as http:
        first = http.post(RESPONSES, json={"input": "hi"}).json()["id"]
        gateway.gateway.archive.forget("local")
        monkeypatch.setattr(gateway.gateway.keeper.store, "chain", away)
        body = {"input": "on", "previous_response_id": first}
        refused = http.post(RESPONSES, json=body)
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "store_unavailable")


async def away(*_: Any) -> Any:
    raise StoreError("The store is away.")

"""Durable turns at awkward moments: whatever the store or a restart does, a client hears an end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.gateway.test_durable import A_STORY, HERE, words
from tests.gateway.test_recovery import Gate, left_by_crash
from tests.gateway.test_resume import begin, resume
from tests.support.http import said
from tests.support.server import MODEL, RunningGateway, configuration
from tests.support.socket import Socket
from tests.support.waiting import eventually
from vivace.engines.scripted import Reply, Say, Stall
from vivace.errors import StoreError


def test_a_turn_that_is_refused_after_its_engine_has_finished_says_so(
    gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Socket(gateway.url) as socket:
        parent = socket.turn("first")["response"]["id"]
        gateway.run(gateway.gateway.keeper.store.delete(parent, "local"))
        gate = Gate(gateway, "accept", monkeypatch)
        socket.create("on", previous_response_id=parent)
        eventually(lambda: gate.waiting == 1 and gateway.engine.running() == 0)
        gate.open()
        [told] = socket.until_end()
        assert told["error"]["code"] == "previous_response_not_found"
        assert socket.turn("anew")["type"] == "response.completed"


def test_a_turn_that_moves_while_its_end_is_written_is_followed_where_it_went(
    gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway.engine.play([Reply(when="y", then=(Say("after"),)), Reply(then=(Say("a "), Stall(60)))])
    with Socket(gateway.url) as old, Socket(gateway.url) as new:
        response_id, _ = begin(old, stream_id="a")
        gate = Gate(gateway, "end", monkeypatch)
        old.send(type="response.steer", previous_response_id=response_id, input="y")
        eventually(lambda: gate.waiting == 1)
        resume(new, response_id, stream_id="b")
        assert old.until_end()[-1]["error"]["code"] == "resumed_elsewhere"
        gate.open()
        ends = [new.until_end()[-1] for _ in range(2)]
        assert [each["type"] for each in ends] == ["response.incomplete", "response.completed"]
        assert {each["stream_id"] for each in ends} == {"b"}


def test_a_successor_on_record_that_may_not_begin_has_an_end_and_keeps_its_steers(
    gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeper, runner = gateway.gateway.keeper, gateway.gateway.runner
    gateway.engine.play([Reply(then=(Say("a "), Stall(60)))])
    with Socket(gateway.url) as socket:
        response_id, _ = begin(socket)
        gate = Gate(gateway, "end", monkeypatch)
        socket.send(type="response.steer", previous_response_id=response_id, input="y")
        eventually(lambda: gate.waiting == 1)
        runner.leaving = True
        gate.open()
        steer_id = socket.until("response.steer.accepted")["steer"]["id"]
        assert socket.until_end()[-1]["response"]["incomplete_details"]["reason"] == "steered"
        created, failed = socket.until_end()
        assert created["response"]["previous_response_id"] == response_id
        assert failed["response"]["error"]["code"] == "server_shutting_down"
    successor = gateway.run(keeper.store.find(created["response"]["id"], "local"))
    assert successor is not None
    assert successor.status == "failed"
    order = gateway.run(keeper.store.find_order(steer_id, "local"))
    assert order is not None
    assert (order.state, order.applied_by) == ("applied", successor.id)
    assert not keeper.on_record


def test_a_turn_that_may_not_go_on_after_a_restart_ends_for_who_comes_back(tmp_path: Path) -> None:
    before = tmp_path / "before"
    before.mkdir()
    here, renamed = (configuration(**HERE, engine=each) for each in ({}, {"model": "another"}))
    with (
        RunningGateway([A_STORY], config=here, base=before) as gateway,
        Socket(gateway.url) as socket,
    ):
        socket.create("a story", model=MODEL)
        response_id, _ = words(socket, 5)
        after = left_by_crash(before, tmp_path / "after")
    with RunningGateway(config=renamed, base=after) as gateway, gateway.http as http:
        with Socket(gateway.url) as socket:
            resume(socket, response_id)
            failed = socket.until_end()[-1]
        assert failed["response"]["error"]["code"] == "model_not_found"
        found = http.get(f"/v1/responses/{response_id}").json()
        assert (found["status"], found["error"]["code"]) == ("failed", "model_not_found")


def test_what_follows_a_steered_turn_is_found_though_only_the_store_knows_that_one(
    gateway: RunningGateway,
) -> None:
    gateway.engine.play(
        [
            Reply(when="y", then=(Say("b "), Stall(600), Say("c"))),
            Reply(then=(Say("a "), Stall(60))),
        ]
    )
    with Socket(gateway.url) as old, Socket(gateway.url) as new:
        response_id, _ = begin(old)
        old.send(type="response.steer", previous_response_id=response_id, input="y")
        old.until("response.incomplete")
        old.until("response.created")
        gateway.run(gateway.gateway.archive.events.delete(response_id, "local"))
        resume(new, response_id)
        first = new.until_end()
        gateway.go_on("b ")
        assert first[-1]["response"]["id"] == response_id
        assert said(new.until_ends(1)[-1]["response"]) == "b c"


def test_a_steer_that_the_store_did_not_take_does_not_cost_its_turn_the_end_on_record(
    gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def full(*_given: Any, **_more: Any) -> Any:
        raise StoreError("The disk is full.")

    store = gateway.gateway.keeper.store
    monkeypatch.setattr(store, "order", full)
    gateway.engine.play([Reply(when="y", then=(Say("b"),)), Reply(then=(Say("a "), Stall(60)))])
    with Socket(gateway.url) as socket:
        response_id, _ = begin(socket)
        socket.send(type="response.steer", previous_response_id=response_id, input="y")
        after = socket.until_ends(2)[-1]["response"]
        assert said(after) == "b"
    for each in (response_id, after["id"]):
        record = gateway.run(store.find(each, "local"))
        assert record is not None
        assert record.status in ("incomplete", "completed")

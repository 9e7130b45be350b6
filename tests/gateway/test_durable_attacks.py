"""Durable turns at awkward moments: whatever the store or a restart does, a client hears an end."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.gateway.test_resume import begin, resume
from tests.support.server import RunningGateway
from tests.support.socket import Socket
from tests.support.waiting import eventually
from vivace.engines.scripted import Reply, Say, Stall


class Gate:
    """Calls of a store's method wait here until it is opened."""

    def __init__(self, gateway: RunningGateway, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self._gateway = gateway
        self._open = asyncio.Event()
        self.waiting = 0
        store = gateway.gateway.keeper.store
        call = getattr(store, name)

        async def late(*given: Any) -> Any:
            self.waiting += 1
            await self._open.wait()
            return await call(*given)

        monkeypatch.setattr(store, name, late)

    def open(self) -> None:
        async def work() -> None:
            self._open.set()

        self._gateway.run(work())


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

"""Gateways on one PostgreSQL that does not say, or not at once, what became of a statement: nobody
is told what is not so, and nothing stays open."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest

from tests.gateway.test_takeover import REPLIES, begun, id_of, path, response
from tests.support.fleets import KEY, Fleet
from tests.support.http import RESPONSES
from tests.support.postgres import Postgres
from tests.support.server import RunningGateway
from tests.support.socket import Socket
from tests.support.waiting import eventually
from vivace.errors import StoreError
from vivace.gateway.runs import Run


@pytest.fixture
def fleet(postgres: Postgres, monkeypatch: pytest.MonkeyPatch) -> Iterator[Fleet]:
    monkeypatch.setenv("VIVACE_FLEET_KEY", KEY)
    with ExitStack() as stack:
        fleet = Fleet(stack, postgres.emptied(), REPLIES)
        fleet.node()
        yield fleet


def lose(
    monkeypatch: pytest.MonkeyPatch,
    gateway: RunningGateway,
    name: str,
    *,
    at: int = 1,
    done: bool = True,
) -> list[Any]:
    """The answer to the ``at``-th statement of this kind, which the store carries out if ``done``;
    returns what it was given each time."""
    store = gateway.gateway.keeper.store
    inner, given = getattr(store, name), list[Any]()

    async def losing(*arguments: Any) -> Any:
        given.append(arguments[0])
        if len(given) == at and not done:
            raise StoreError("away")
        answer = await inner(*arguments)
        if len(given) == at:
            raise StoreError("away", uncertain=True)
        return answer

    monkeypatch.setattr(store, name, losing, raising=False)
    return given


def test_a_steer_is_carried_out_though_it_is_not_said_that_it_was_claimed(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = fleet.gateway(), fleet.gateway()
    lose(monkeypatch, one, "claim")
    with Socket(one.url) as socket:
        events = begun(socket, "endless")
        told = other.http.post(f"{path(id_of(events))}/steer", json={"input": "after all"}).json()
        assert told["type"] == "response.steer.accepted"
        end = socket.until_end()[-1]["response"]
        assert end["incomplete_details"] == {"reason": "steered"}
        assert socket.until_end()[-1]["response"]["id"] == told["successor_id"]


def test_a_steer_whose_turn_has_a_fault_is_not_tried_for_ever(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = fleet.gateway(), fleet.gateway()
    tried, looks = list[object](), list[str]()
    store = one.gateway.keeper.store
    asked_of = store.asked_of

    async def looked(holder: str) -> Any:
        looks.append(holder)
        return await asked_of(holder)

    monkeypatch.setattr(store, "asked_of", looked, raising=False)

    async def failing(_: Run, event: object) -> object:
        tried.append(event)
        raise ValueError

    with Socket(one.url) as socket, ThreadPoolExecutor(1) as aside:
        name = id_of(begun(socket, "endless"))
        monkeypatch.setattr(Run, "tell", failing)
        asking = aside.submit(other.http.post, f"{path(name)}/steer", json={"input": "x"})
        eventually(lambda: len(tried) > 0)
        before = len(looks)
        eventually(lambda: len(looks) >= before + 5)
        assert len(tried) == 1
        one.http.post(f"{path(name)}/cancel")
        asking.result()


def test_a_steer_for_a_turn_that_another_gateway_has_taken_is_not_accepted(fleet: Fleet) -> None:
    one = fleet.gateway()
    with Socket(one.url) as socket:
        name = id_of(begun(socket, "endless"))
        fleet.give_away(name)
        told = one.http.post(f"{path(name)}/steer", json={"input": "after all"})
        assert (told.status_code, told.json()["error"]["code"]) == (503, "response_elsewhere")
        last = socket.until_end()[-1]
        assert last["error"]["code"] == "resumed_elsewhere"


def test_a_steer_that_is_refused_is_told_so_though_the_reply_is_not_written_at_once(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = fleet.gateway(), fleet.gateway()
    lose(monkeypatch, one, "reply", done=False)
    with Socket(one.url) as socket:
        name = id_of(begun(socket, "endless"))
        for _ in range(16):
            more = {"previous_response_id": name, "input": "x", "when": "item_end"}
            socket.send(type="response.steer", **more)
            socket.until("response.steer.accepted")
        body = {"input": "one too many", "when": "item_end"}
        told = other.http.post(f"{path(name)}/steer", json=body)
        assert told.status_code == 400
        assert told.json()["error"]["code"] == "too_many_pending_steers"


def test_an_interrupt_that_worked_is_told_so_though_the_reply_comes_after_the_end(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = fleet.gateway(), fleet.gateway()
    store = one.gateway.keeper.store
    reply = store.reply

    async def late(*given: Any) -> None:
        await asyncio.to_thread(eventually, lambda: fleet.status(name) is not None)
        await reply(*given)

    monkeypatch.setattr(store, "reply", late, raising=False)
    with Socket(one.url) as socket:
        name = id_of(begun(socket, "endless"))
        told = other.http.post(f"{path(name)}/interrupt").json()
        assert told == {"type": "response.interrupt.accepted", "response_id": name}
        end = socket.until_end()[-1]["response"]
        assert end["incomplete_details"] == {"reason": "interrupted"}


def test_a_request_that_may_be_on_record_is_answered_wherever_it_is_sent_again(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = fleet.gateway(), fleet.gateway()
    lose(monkeypatch, one, "accept")
    fleet.go()
    given: dict[str, Any] = {"json": {"input": "short"}, "headers": {"Idempotency-Key": "once"}}
    assert one.http.post(RESPONSES, **given).status_code == 503
    assert other.http.post(RESPONSES, **given).json()["status"] == "completed"


def test_what_a_steer_made_and_was_refused_comes_to_its_end_on_record(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiers = [{"name": "fast", "engines": ["coder"], "limits": {"requests_per_minute": 1}}]
    one, other = (fleet.gateway(tiers=tiers) for _ in range(2))
    ends = lose(monkeypatch, one, "end", at=2, done=False)
    with Socket(one.url) as socket:
        name = id_of(begun(socket, "endless"))
        socket.send(type="response.steer", previous_response_id=name, input="after all")
        socket.until_end()
        assert socket.until_end()[-1]["type"] == "response.failed"
    follower = ends[1].id
    eventually(lambda: response(other, follower)["status"] == "failed")
    assert response(one, follower)["status"] == "failed"

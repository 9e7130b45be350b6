"""A request that is sent again under its idempotency key runs once, whatever became of it."""

from __future__ import annotations

import asyncio
import json
import logging
import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from tests.gateway.test_recovery import left_by_crash
from tests.gateway.test_resume import Patience
from tests.support.http import RESPONSES, bearer, keys, said, sse
from tests.support.server import RunningGateway, configuration
from tests.support.socket import Event, Socket
from tests.support.waiting import PATIENCE_S, eventually
from vivace.engines.scripted import Reply, Say, Stall
from vivace.errors import StoreError

if TYPE_CHECKING:
    from tests.support.postgres import Postgres

HERE = {"path": "turns.db"}
SLOW = Reply(when="slow", then=(Say("early "), Stall(600), Say("late")))
STORY = Reply(when="story", then=(Say("word ", times=5), Stall(600)))
KEY = {"Idempotency-Key": "k"}
TALE = Reply(when="tale", then=(Say(" word", times=300),))


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[RunningGateway]:
    config = configuration(store=HERE, limits={"orphan_seconds": 600})
    with RunningGateway([SLOW, STORY], config=config, base=tmp_path) as running:
        yield running


@pytest.fixture
def http(gateway: RunningGateway) -> Iterator[httpx.Client]:
    with gateway.http as client:
        yield client


def made(folder: Path) -> list[str]:
    """The turns on record, oldest first."""
    with sqlite3.connect(folder / "turns.db") as db:
        return [each for (each,) in db.execute("SELECT id FROM turns ORDER BY seq")]


def ask(http: httpx.Client, text: str = "hi", key: str | None = "k", **body: Any) -> httpx.Response:
    headers = {"Idempotency-Key": key} if key is not None else {}
    return http.post(RESPONSES, json={"input": text, **body}, headers=headers)


def problem(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["error"]["code"]


def requests(gateway: RunningGateway) -> int:
    """How many requests over HTTP have come and were not answered yet."""
    return gateway.witness.requests


def events_in(answer: httpx.Response) -> list[Event]:
    assert answer.status_code == 200, answer.text
    return list(sse(answer.text.splitlines()))


def until_word(socket: Socket) -> list[Event]:
    events = [socket.read()]
    while events[-1]["type"] not in ("response.output_text.delta", "error"):
        events.append(socket.read())
    return events


def without_lane(events: list[Event]) -> list[Event]:
    return [{name: each[name] for name in each if name != "stream_id"} for each in events]


# -- the same request -----------------------------------------------------------------------------


def test_a_request_that_is_sent_again_gets_the_response_of_the_first_time(
    http: httpx.Client, tmp_path: Path
) -> None:
    first = ask(http).json()
    assert first["status"] == "completed"
    assert ask(http).json() == first
    again = ask(http, key=None, idempotency_key="k").json()  # as a field, too
    assert again == first
    assert made(tmp_path) == [first["id"]]
    other = ask(http, key="another").json()
    assert made(tmp_path) == [first["id"], other["id"]]


def test_its_stream_is_told_from_its_start_byte_for_byte(
    http: httpx.Client, tmp_path: Path
) -> None:
    first = ask(http, stream=True)
    again = ask(http, stream=True)
    assert again.content == first.content
    whole = ask(http).json()  # how it is told is not part of what is asked
    assert whole == events_in(first)[-1]["response"]
    assert len(made(tmp_path)) == 1


def test_a_socket_may_send_again_what_was_sent_over_http_and_the_other_way_round(
    gateway: RunningGateway, http: httpx.Client, tmp_path: Path
) -> None:
    first = events_in(ask(http, stream=True))
    with Socket(gateway.url) as socket:
        socket.create("hi", idempotency_key="k", stream_id="a")
        again = socket.until_end()
        assert {each["stream_id"] for each in again} == {"a"}
        assert without_lane(again) == first
        last = socket.turn("hi", idempotency_key="l", stream_id="a")  # and the lane is free
    assert ask(http, key="l").json() == last["response"]
    assert len(made(tmp_path)) == 2


def test_another_body_under_the_same_key_is_refused_and_not_run(
    gateway: RunningGateway, http: httpx.Client, tmp_path: Path
) -> None:
    first = ask(http).json()["id"]
    for changed in ({"text": "ho"}, {"temperature": 0.5}, {"metadata": {"a": "b"}}):
        assert problem(ask(http, **changed)) == (422, "idempotency_key_reused")
    with Socket(gateway.url) as socket:
        event = socket.turn("ho", idempotency_key="k")
        assert (event["status"], event["error"]["code"]) == (422, "idempotency_key_reused")
        assert socket.turn("ho")["type"] == "response.completed"
    assert made(tmp_path)[0] == first
    assert len(made(tmp_path)) == 2


def test_a_key_is_its_owners(tmp_path: Path) -> None:
    config = configuration(store=HERE, keys=keys("ann", "bob"))
    with RunningGateway(config=config, base=tmp_path) as gateway, gateway.http as http:
        ids = [
            http.post(RESPONSES, json={"input": words}, headers=bearer(owner) | KEY).json()["id"]
            for owner, words in (("ann", "hi"), ("bob", "ho"), ("ann", "hi"))
        ]
    assert ids[0] == ids[2]
    assert made(tmp_path) == ids[:2]


@pytest.mark.parametrize("key", ["", "x" * 257, "a\nb", "\x00"])
def test_what_is_no_key_is_refused(http: httpx.Client, key: str) -> None:
    refused = ask(http, key=None, idempotency_key=key)
    assert refused.status_code == 400
    assert refused.json()["error"]["param"] == "idempotency_key"
    assert ask(http, key="x" * 256).status_code == 200


def test_a_key_needs_a_record(gateway: RunningGateway, http: httpx.Client) -> None:
    refused = ask(http, store=False)
    assert problem(refused) == (400, "idempotency_key_needs_store")
    assert "a key needs a record" in refused.json()["error"]["message"].lower()
    assert problem(ask(http, text="", fill={"prefix": "x"}))[0] == 400
    with Socket(gateway.url) as socket:
        told = socket.turn("hi", store=False, idempotency_key="k")
        assert told["error"]["code"] == "idempotency_key_needs_store"


def test_header_and_field_may_not_differ(http: httpx.Client) -> None:
    assert problem(ask(http, idempotency_key="l")) == (400, "invalid_value")
    assert ask(http, idempotency_key="k").status_code == 200


def test_a_refused_request_does_not_use_its_key_up(http: httpx.Client, tmp_path: Path) -> None:
    assert ask(http, model="nobody").status_code == 404
    assert ask(http, previous_response_id="resp_nobody").status_code == 400
    assert made(tmp_path) == []
    assert ask(http).json()["status"] == "completed"


# -- while it runs --------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [False, True])
def test_of_many_at_once_one_runs_and_all_have_its_answer(
    gateway: RunningGateway, http: httpx.Client, tmp_path: Path, stream: bool
) -> None:
    with ThreadPoolExecutor(8) as many:
        asked = [many.submit(ask, http, "slow", stream=stream) for _ in range(8)]
        eventually(lambda: requests(gateway) == 8)
        gateway.go_on_until(lambda: all(each.done() for each in asked))
        answers = [each.result() for each in asked]
    assert [each.status_code for each in answers] == [200] * 8
    assert len({each.content for each in answers}) == 1
    assert len(made(tmp_path)) == 1
    assert "early late" in answers[0].text


@pytest.mark.parametrize("text", ["slow", "hi"])
def test_the_store_decides_and_not_who_looks_first(
    gateway: RunningGateway,
    http: httpx.Client,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    text: str,
) -> None:
    async def unknown(*_: Any) -> None:
        """All of them look before the first is on record."""

    monkeypatch.setattr(gateway.gateway.keeper.store, "find_key", unknown)
    with ThreadPoolExecutor(4) as many:
        asked = [many.submit(ask, http, text) for _ in range(4)]
        if text == "slow":
            eventually(lambda: requests(gateway) == 4)
            gateway.go_on_until(lambda: all(each.done() for each in asked))
        answers = [each.result() for each in asked]
    assert len({each.content for each in answers}) == 1
    assert ask(http, text).json() == answers[0].json()
    assert problem(ask(http, "ho")) == (422, "idempotency_key_reused")
    with Socket(gateway.url) as socket:
        assert socket.turn(text, idempotency_key="k")["response"] == answers[0].json()
        assert socket.turn("hi")["type"] == "response.completed"
    assert len(made(tmp_path)) == 2
    eventually(lambda: gateway.engine.running() == 0)


def test_of_many_at_once_on_postgres_one_runs(postgres: Postgres) -> None:
    url = postgres.emptied()
    config = configuration(store={"url": url})
    with RunningGateway([SLOW], config=config) as gateway, gateway.http as http:
        with ThreadPoolExecutor(8) as many:
            asked = [many.submit(ask, http, "slow") for _ in range(8)]
            eventually(lambda: requests(gateway) == 8)
            gateway.go_on_until(lambda: all(each.done() for each in asked))
            answers = [each.result() for each in asked]
        assert len({each.json()["id"] for each in answers}) == 1
        assert {said(each.json()) for each in answers} == {"early late"}
        assert ask(http, "slow").json() == answers[0].json()
        assert problem(ask(http, "other")) == (422, "idempotency_key_reused")
    assert asyncio.run(_count(url)) == 1


def test_what_runs_on_another_gateway_is_told_here_when_it_has_ended(postgres: Postgres) -> None:
    url = postgres.emptied()
    config = configuration(store={"url": url})
    with (
        RunningGateway([SLOW], config=config) as one,
        RunningGateway([SLOW], config=config) as other,
        Socket(one.url) as socket,
        other.http as http,
    ):
        socket.create("slow", idempotency_key="k")
        until_word(socket)
        with ThreadPoolExecutor(1) as aside:
            asked = aside.submit(ask, http, "slow")
            eventually(lambda: requests(other) == 1)
            one.go_on()
            elsewhere = asked.result().json()
        done = socket.until_end()[-1]["response"]
        assert elsewhere == done
        assert ask(http, "slow").json() == done
        assert other.engine.running() == 0
    assert asyncio.run(_count(url)) == 1


async def _count(url: str) -> int:
    import asyncpg

    connection = await asyncpg.connect(url)
    try:
        return int(await connection.fetchval("SELECT count(*) FROM turns"))
    finally:
        await connection.close()


def test_who_reads_it_again_over_http_takes_it_from_nobody(
    gateway: RunningGateway, http: httpx.Client
) -> None:
    with Socket(gateway.url) as socket:
        socket.create("slow", idempotency_key="k")
        events = until_word(socket)
        with ThreadPoolExecutor(1) as aside:
            asked = aside.submit(ask, http, "slow", stream=True)
            eventually(lambda: requests(gateway) == 1)
            gateway.go_on()
            again = events_in(asked.result())
        events += socket.until_end()
    assert again == events


def test_a_socket_takes_it_over_and_can_steer_it(gateway: RunningGateway) -> None:
    with Socket(gateway.url) as first, Socket(gateway.url) as second:
        first.create("a story", idempotency_key="k")
        begun = until_word(first)
        second.create("a story", idempotency_key="k", stream_id="b")
        again = until_word(second)
        assert without_lane(again)[: len(begun)] == begun
        assert first.until("error")["error"]["code"] == "resumed_elsewhere"
        target = begun[0]["response"]["id"]
        second.send(type="response.steer", previous_response_id=target, input="hi")
        assert second.until("response.steer.accepted")["stream_id"] == "b"
        steered = second.until_end()[-1]
        assert steered["response"]["incomplete_details"] == {"reason": "steered"}
        assert second.until_end()[-1]["type"] == "response.completed"
        assert first.turn("hi")["type"] == "response.completed"


def test_on_one_socket_it_waits_for_its_lane(gateway: RunningGateway, tmp_path: Path) -> None:
    with Socket(gateway.url) as socket:
        socket.create("slow", idempotency_key="k")
        socket.create("slow", idempotency_key="k")
        socket.create("hi")
        gateway.go_on()
        first, second, third = (socket.until_end() for _ in range(3))
    assert first == second
    assert third[-1]["type"] == "response.completed"
    assert len(made(tmp_path)) == 2


def leave(gateway: RunningGateway, **body: Any) -> None:
    """Send a request with a key, and go away when the engine works on it."""
    connection = HTTPConnection("127.0.0.1", gateway.port, timeout=PATIENCE_S)
    headers = KEY | {"Content-Type": "application/json"}
    connection.request("POST", RESPONSES, json.dumps(body), headers)
    eventually(lambda: requests(gateway) == 1 and gateway.engine.running() == 1)
    connection.close()
    eventually(lambda: requests(gateway) == 0)


def test_one_with_a_key_waits_for_its_client_to_send_it_again(
    gateway: RunningGateway, http: httpx.Client, tmp_path: Path
) -> None:
    leave(gateway, input="slow")
    with ThreadPoolExecutor(1) as aside:
        asked = aside.submit(ask, http, "slow")
        eventually(lambda: requests(gateway) == 1)
        gateway.go_on()
        answer = asked.result().json()
    assert (answer["status"], said(answer)) == ("completed", "early late")
    assert len(made(tmp_path)) == 1


def test_it_ends_when_its_client_does_not_come_back(
    gateway: RunningGateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    patience = Patience(monkeypatch)
    leave(gateway, input="a story")
    leave(gateway, input="a story")  # again
    assert gateway.engine.running() == 1
    patience.end()
    eventually(lambda: gateway.engine.running() == 0)
    assert len(made(tmp_path)) == 1


def test_one_that_is_not_to_wait_ends_when_its_client_leaves(
    gateway: RunningGateway, http: httpx.Client
) -> None:
    leave(gateway, input="a story", on_disconnect="stop")
    eventually(lambda: gateway.engine.running() == 0)
    ended = ask(http, "a story", on_disconnect="stop").json()
    assert ended["status"] in ("incomplete", "cancelled")


def test_in_the_background_it_is_told_as_it_stands(
    gateway: RunningGateway, http: httpx.Client, tmp_path: Path
) -> None:
    first = ask(http, "slow", background=True).json()
    again = ask(http, "slow", background=True).json()
    assert again["id"] == first["id"]
    assert again["status"] in ("queued", "in_progress")
    gateway.go_on()
    told = events_in(ask(http, "slow", background=True, stream=True))
    assert told[-1]["type"] == "response.completed"
    assert ask(http, "slow", background=True).json() == told[-1]["response"]
    assert len(made(tmp_path)) == 1


# -- afterwards -----------------------------------------------------------------------------------


def test_its_parent_may_be_gone(http: httpx.Client, tmp_path: Path) -> None:
    parent = ask(http, key=None).json()["id"]
    first = ask(http, previous_response_id=parent).json()
    http.delete(f"{RESPONSES}/{parent}")
    assert ask(http, previous_response_id=parent).json() == first
    assert made(tmp_path) == [first["id"]]


def test_the_key_of_a_deleted_response_runs_nothing(
    gateway: RunningGateway, http: httpx.Client, tmp_path: Path
) -> None:
    first = ask(http).json()["id"]
    http.delete(f"{RESPONSES}/{first}")
    for stream in (False, True):
        answer = ask(http, stream=stream)
        assert problem(answer) == (404, "response_not_found")
        assert first in answer.json()["error"]["message"]
    with Socket(gateway.url) as socket:
        assert socket.turn("hi", idempotency_key="k")["error"]["code"] == "response_not_found"
    assert made(tmp_path) == []


def test_a_steered_one_is_told_with_what_follows_it(
    gateway: RunningGateway, http: httpx.Client, tmp_path: Path
) -> None:
    with Socket(gateway.url) as socket:
        socket.create("a story", idempotency_key="k")
        target = until_word(socket)[0]["response"]["id"]
        with ThreadPoolExecutor(1) as other:
            reading = other.submit(ask, http, "a story", stream=True)
            eventually(lambda: gateway.run(_readers(gateway, target)) == 1)
            socket.send(type="response.steer", previous_response_id=target, input="hi")
            first, second = socket.until_end(), socket.until_end()
            told = events_in(reading.result())
    ids = list(dict.fromkeys(each["response"]["id"] for each in told if "response" in each))
    assert ids == [target, second[-1]["response"]["id"]]
    assert first[-1] in told
    assert told[-1] == second[-1]
    after = events_in(ask(http, "a story", stream=True))  # when all of it is over
    assert after[-1] == first[-1]
    with Socket(gateway.url) as late:
        assert late.turn("a story", idempotency_key="k") == first[-1]
        assert late.turn("hi")["type"] == "response.completed"
    assert len(made(tmp_path)) == 3


async def _readers(gateway: RunningGateway, response_id: str) -> int:
    record = await gateway.gateway.archive.events.find(response_id, "local")
    return 0 if record is None or record.unread_since is not None else 1


def test_after_a_restart_the_key_still_stands_for_its_turn(tmp_path: Path) -> None:
    config = configuration(store=HERE)
    with RunningGateway(config=config, base=tmp_path) as gateway, gateway.http as http:
        first = ask(http, stream=True).content
    with RunningGateway(config=config, base=tmp_path) as gateway, gateway.http as http:
        assert ask(http, stream=True).content == first
        assert problem(ask(http, "ho")) == (422, "idempotency_key_reused")


@pytest.mark.parametrize("again", ["http", "socket"])
def test_after_a_crash_sending_it_again_has_it_go_on(
    tmp_path: Path, again: str, caplog: pytest.LogCaptureFixture
) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    before.mkdir()
    slow, fast = (configuration(store=HERE, engine={"rate": rate}) for rate in (200, 2000))
    with (
        RunningGateway([TALE], config=slow, base=before) as gateway,
        Socket(gateway.url) as socket,
    ):
        socket.create("a tale", idempotency_key="k")
        seen = until_word(socket)
        for _ in range(20):
            seen.append(socket.read())
        left_by_crash(before, after)
    with RunningGateway([TALE], config=fast, base=after) as gateway:
        if again == "http":
            with gateway.http as http:
                told = events_in(ask(http, "a tale", stream=True))
        else:
            with Socket(gateway.url) as socket:
                socket.create("a tale", idempotency_key="k")
                told = socket.until_end()
        assert told[: len(seen)] == seen
        assert said(told[-1]["response"]) == " word" * 300
    assert [each for each in caplog.records if each.levelno >= logging.ERROR] == []
    assert len(made(after)) == 1


def test_a_turn_whose_record_cannot_be_made_is_refused(
    gateway: RunningGateway, http: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = gateway.gateway.keeper.store
    accept = store.accept

    async def away(*_: Any) -> Any:
        raise StoreError("The store is away.")

    async def in_doubt(*given: Any) -> Any:
        await accept(*given)
        raise StoreError("Whether it was recorded is not known.", uncertain=True)

    monkeypatch.setattr(store, "accept", away)
    assert ask(http).status_code == 503
    assert ask(http, key=None).status_code == 200  # who asks for no promise gets an answer
    monkeypatch.setattr(store, "accept", in_doubt)
    assert ask(http).status_code == 503
    monkeypatch.undo()
    answer = ask(http).json()  # it is on record: the same turn, which begins only now
    assert answer["status"] == "completed"
    assert ask(http).json() == answer


# -- steers ---------------------------------------------------------------------------------------


def steer(socket: Socket, target: str, text: str = "hi", **more: Any) -> None:
    socket.send(
        type="response.steer",
        previous_response_id=target,
        input=text,
        idempotency_key="s",
        **more,
    )


def inputs(http: httpx.Client, response_id: str) -> list[str]:
    items = http.get(f"{RESPONSES}/{response_id}/input_items").json()["data"]
    return [part["text"] for item in items for part in item["content"]]


def test_a_steer_that_is_sent_again_is_applied_once(
    gateway: RunningGateway, http: httpx.Client, tmp_path: Path
) -> None:
    with Socket(gateway.url) as socket:
        socket.create("a story")
        target = until_word(socket)[0]["response"]["id"]
        steer(socket, target)
        steer(socket, target)  # at once
        events = socket.until_ends(2)  # the second receipt may come behind the first end
        receipts = [each["steer"] for each in events if each["type"] == "response.steer.accepted"]
        assert receipts == [receipts[0]] * 2
        done = events[-1]["response"]
        assert inputs(http, done["id"]) == ["hi"]
        steer(socket, target)  # when it is over
        assert socket.read()["steer"] == receipts[0]
        steer(socket, target, "ho")
        assert socket.read()["error"]["code"] == "idempotency_key_reused"
        steer(socket, target, when="item_end")
        assert socket.read()["error"]["code"] == "idempotency_key_reused"
    assert len(made(tmp_path)) == 2


def test_over_http_too(gateway: RunningGateway, http: httpx.Client, tmp_path: Path) -> None:
    with Socket(gateway.url) as socket:
        socket.create("a story")
        target = until_word(socket)[0]["response"]["id"]
        path, headers = f"{RESPONSES}/{target}/steer", {"Idempotency-Key": "s"}
        with ThreadPoolExecutor(4) as many:
            body = {"input": "hi"}
            send = [many.submit(http.post, path, json=body, headers=headers) for _ in range(4)]
            receipts = [each.result().json() for each in send]
        socket.until_end()
        done = socket.until_end()[-1]["response"]
        receipts.append(http.post(path, json={"input": "hi"}, headers=headers).json())
        told = {(each["steer"]["id"], each["successor_id"]) for each in receipts}
        assert len(told) == 1
        assert receipts[0]["successor_id"] == done["id"]
        assert inputs(http, done["id"]) == ["hi"]
        refused = http.post(path, json={"input": "ho"}, headers=headers)
        assert problem(refused) == (422, "idempotency_key_reused")
    assert len(made(tmp_path)) == 2


def test_a_steer_of_a_passing_turn_has_no_key(gateway: RunningGateway) -> None:
    with Socket(gateway.url) as socket:
        socket.create("a story", store=False)
        target = until_word(socket)[0]["response"]["id"]
        steer(socket, target)
        failed = socket.until("response.steer.failed")
        assert failed["error"]["code"] == "idempotency_key_needs_store"
        socket.send(type="response.interrupt", response_id=target)
        socket.until_end()

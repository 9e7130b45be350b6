"""Several gateways on one PostgreSQL: any of them answers for any conversation."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.support.fleets import SLOW, Fleet, Frozen
from tests.support.http import RESPONSES, bearer, keys
from tests.support.postgres import Postgres
from tests.support.process import Serve
from tests.support.server import MODEL, RunningGateway
from tests.support.socket import Event, Socket
from tests.support.store import StoreCalls
from tests.support.valkey import Valkey
from tests.support.waiting import eventually
from tests.support.witness import TERMINAL
from vivace.counters.bell import ValkeyBell
from vivace.engines.scripted import Reply, Say
from vivace.gateway.reads import MAX_READS_PER_KEY
from vivace.store import connections
from vivace.store.connections import Connections

STALL = '[[replies]]\nthen = [{ do = "stall", seconds = 600 }]'
REPLIES = [
    Reply(when="story", then=(Say(" word", times=1_000_000),)),
    Reply(when="tale", then=(Say(" word", times=100),)),
    Reply(when="saga", then=(Say(" word", times=1_000),)),
]
BRISK = {"heartbeat_seconds": 0.2}
"""Beside ``SLOW``: what a heartbeat brings comes soon, and no gateway is gone for a pause."""
ENGINE = {"name": "scripted", "kind": "scripted", "model": MODEL, "rate": 200}


class Gateways(Fleet):
    """Each has an engine of its own, so nothing of a turn outlives its gateway but its record."""

    def start(self, **tables: Any) -> RunningGateway:
        fleet = BRISK | tables.pop("fleet", {})
        gateway = self.gateway(engines=[ENGINE], tiers=[], fleet=fleet, **tables)
        gateway.engine.play(REPLIES)
        return gateway

    def kill(self, gateway: RunningGateway) -> Frozen:
        """Stop it where it is; to the others it has been gone for long."""
        frozen = self.freeze(gateway)
        self.bury(gateway)
        return frozen

    def orders(self, response_id: str) -> int:
        """Count what is asked of a turn and not answered yet."""
        sql = "SELECT count(*) FROM orders WHERE turn_id = $1"
        return int(self._value(sql, response_id))

    def holder(self, response_id: str) -> str:
        sql = "SELECT holder FROM turns WHERE id = $1"
        return str(self._value(sql, response_id))


def let_lease_run_out(gateway: RunningGateway) -> None:
    """Have a gateway that is frozen, or cut off, find that it was so for too long."""
    presence = gateway.gateway.keeper.presence
    presence._until -= 3600
    presence._awake -= 3600
    presence._alone = False


def metric(gateway: RunningGateway, name: str, **labels: str) -> float:
    """The sum over all samples of this name that have these labels."""
    text = gateway.gateway.metrics.exposition().decode()
    return sum(
        sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == name and labels.items() <= sample.labels.items()
    )


class Pair:
    """Two gateways, each with its own engine."""

    def __init__(self, fleet: Gateways, one: RunningGateway, other: RunningGateway) -> None:
        self.fleet = fleet
        self.one = one
        self.other = other
        self.here = one.http
        self.there = other.http


def story(socket: Socket, text: str = "a story", **body: Any) -> str:
    """The id of a turn of which the first has said some words."""
    socket.create(text, **body)
    response_id: str = socket.until("response.created")["response"]["id"]
    for _ in range(5):
        socket.until("response.output_text.delta")
    return response_id


@pytest.fixture
def fleet(postgres: Postgres) -> Iterator[Gateways]:
    with ExitStack() as stack:
        yield Gateways(stack, postgres.emptied(), REPLIES)


@pytest.fixture
def pair(fleet: Gateways, caplog: pytest.LogCaptureFixture) -> Iterator[Pair]:
    pair = Pair(fleet, fleet.start(), fleet.start())
    with pair.here, pair.there:
        yield pair
    faults = [each for each in caplog.get_records("call") if each.levelno >= logging.ERROR]
    assert faults == []


def path(response_id: str) -> str:
    return f"{RESPONSES}/{response_id}"


def streamed(http: httpx.Client, method: str, url: str, **given: Any) -> list[Event]:
    with http.stream(method, url, **given) as stream:
        return [json.loads(line[6:]) for line in stream.iter_lines() if line.startswith("data: {")]


def code(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["error"]["code"]


def until_error(socket: Socket) -> list[Event]:
    events = [socket.read()]
    while events[-1]["type"] != "error":
        events.append(socket.read())
        assert len(events) < 10_000
    return events


# -- orders ---------------------------------------------------------------------------------------


def test_a_turn_is_cancelled_from_another_gateway(pair: Pair) -> None:
    with Socket(pair.one.url) as socket:
        response_id = story(socket)
        cancelled = pair.there.post(f"{path(response_id)}/cancel")
        assert cancelled.status_code == 200
        assert cancelled.json() == socket.until_end()[-1]["response"]
        assert cancelled.json()["status"] == "cancelled"
        assert pair.here.get(path(response_id)).json() == cancelled.json()
    assert metric(pair.one, "vivace_orders_carried_out_total", kind="cancel") == 1
    assert metric(pair.other, "vivace_orders_asked_total", kind="cancel", outcome="answered") == 1


def _is_known(there: httpx.Client, at: str) -> bool:
    return there.get(at).status_code == 200


def test_a_wake_up_that_is_late_or_lost_costs_time_only(fleet: Gateways) -> None:
    valkey = Valkey()
    with ExitStack() as stack:
        stack.callback(valkey.stop)
        one, other = (fleet.start(fleet={"valkey": valkey.url}) for _ in range(2))
        there = stack.enter_context(other.http)
        faults: list[tuple[Callable[[], object], Callable[[], object]]] = [
            (lambda: None, lambda: None),
            (valkey.freeze, valkey.thaw),
            (valkey.kill, valkey.start),
        ]
        for fault, heal in faults:
            with Socket(one.url) as socket:
                response_id = story(socket)
                fault()
                steered = there.post(f"{path(response_id)}/steer", json={"input": "a saga"})
                assert steered.status_code == 200
                successor = path(steered.json()["successor_id"])
                heal()
                eventually(partial(_is_known, there, successor))
                cancelled = there.post(f"{successor}/cancel").json()
                assert cancelled.get("status") == "cancelled", cancelled


def test_a_gateway_ends_though_valkey_is_lost_at_that_moment(
    fleet: Gateways, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def lost_at_the_end(*_: Any) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            raise ConnectionResetError

    monkeypatch.setattr(ValkeyBell, "_listen", lost_at_the_end)
    with ExitStack() as stack:
        valkey = Valkey()
        stack.callback(valkey.stop)
        gateway = fleet.start(fleet={"valkey": valkey.url})
        eventually(lambda: bool(valkey.client().pubsub_channels()))
        gateway.stop()  # fails if it does not end


def test_a_turn_is_interrupted_from_another_gateway(pair: Pair) -> None:
    with Socket(pair.one.url) as socket:
        response_id = story(socket)
        receipt = pair.there.post(f"{path(response_id)}/interrupt")
        assert receipt.status_code == 200
        assert receipt.json() == {
            "type": "response.interrupt.accepted",
            "response_id": response_id,
        }
        last = socket.until_end()[-1]["response"]
        assert last["incomplete_details"] == {"reason": "interrupted"}
    again = pair.there.post(f"{path(response_id)}/interrupt")
    assert code(again) == (400, "response_already_completed")


def test_a_turn_is_steered_from_another_gateway_and_what_follows_too(pair: Pair) -> None:
    with Socket(pair.one.url) as socket:
        first = story(socket)
        for words in ("rather a story of cats", "and of dogs, a tale"):
            told = pair.there.post(f"{path(first)}/steer", json={"input": words}).json()
            assert told["type"] == "response.steer.accepted"
            assert told["steer"]["previous_response_id"] == first
            assert socket.until("response.steer.accepted")["steer"]["id"] == told["steer"]["id"]
            ended = socket.until_end()[-1]["response"]
            assert ended["incomplete_details"] == {"reason": "steered"}
            follows = socket.until("response.created")["response"]
            assert follows["id"] == told["successor_id"]
            assert follows["previous_response_id"] == ended["id"]
        assert socket.until_end()[-1]["type"] == "response.completed"
    items = pair.there.get(f"{path(told['successor_id'])}/input_items").json()["data"]
    assert [each["content"][0]["text"] for each in items] == ["and of dogs, a tale"]


def test_a_steer_with_a_key_is_applied_once_wherever_it_is_sent_again(pair: Pair) -> None:
    with Socket(pair.one.url) as socket:
        first = story(socket)
        body = {"input": "a tale", "idempotency_key": "s"}
        with ThreadPoolExecutor(6) as many:
            clients = [pair.there, pair.here, pair.there] * 2
            url = f"{path(first)}/steer"
            told = list(many.map(lambda http: http.post(url, json=body).json(), clients))
        assert [each["type"] for each in told] == ["response.steer.accepted"] * 6, told
        assert {each["steer"]["id"] for each in told} == {told[0]["steer"]["id"]}
        follows = socket.until("response.created")["response"]["id"]
        assert socket.until_end()[-1]["type"] == "response.completed"
    items = pair.there.get(f"{path(follows)}/input_items").json()["data"]
    assert len(items) == 1


def test_what_a_holder_refuses_is_refused_in_its_words(pair: Pair) -> None:
    with Socket(pair.one.url) as socket:
        response_id = story(socket)
        url = f"{path(response_id)}/steer"
        system = [{"type": "message", "role": "system", "content": "no"}]
        bodies: list[dict[str, Any]] = [
            {"input": []},
            {"input": system},
            {"input": "no", "when": "end_thinking"},
        ]
        for body in bodies:
            here, there = pair.here.post(url, json=body), pair.there.post(url, json=body)
            assert there.status_code == here.status_code == 400
            assert there.json()["error"]["code"] == here.json()["error"]["code"]
        pair.there.post(f"{path(response_id)}/cancel")
        unknown = path("resp_" + "0" * 32)
        assert code(pair.there.post(f"{unknown}/steer", json={"input": "hi"}))[0] == 404


def test_a_turn_is_deleted_from_another_gateway_and_ends_there(pair: Pair) -> None:
    with Socket(pair.one.url) as socket:
        response_id = story(socket)
        assert pair.there.delete(path(response_id)).status_code == 200
        assert socket.until_end()[-1]["response"]["status"] == "cancelled"
        for http in (pair.here, pair.there):
            assert http.get(path(response_id)).status_code == 404
            assert http.get(path(response_id), params={"stream": "true"}).status_code == 404
    eventually(lambda: metric(pair.one, "vivace_turns_running") == 0)


def test_reads_of_a_turn_that_runs_elsewhere_take_turns_too(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The row of an open turn is as large as its request was."""
    calls = StoreCalls(monkeypatch, pair.other.gateway.archive._store, "open_turns")
    with Socket(pair.one.url) as socket, ThreadPoolExecutor(3 * MAX_READS_PER_KEY) as pool:
        at = path(story(socket))
        calls.go.clear()
        polls = [pool.submit(pair.there.get, at) for _ in range(3 * MAX_READS_PER_KEY)]
        eventually(lambda: calls.running == MAX_READS_PER_KEY)
        pair.other._loop.call_soon_threadsafe(calls.go.set)
        assert {poll.result().json()["status"] for poll in polls} == {"in_progress"}
        assert calls.most_running == MAX_READS_PER_KEY
        assert pair.there.post(f"{at}/cancel").json()["status"] == "cancelled"


def test_another_key_neither_sees_nor_stops_it(fleet: Gateways) -> None:
    one, other = (fleet.start(keys=keys("ada", "bob")) for _ in range(2))
    with Socket(one.url, bearer("ada")) as socket, other.http as http:
        socket.create("a story")
        response_id = socket.until("response.created")["response"]["id"]
        http.headers.update(bearer("bob"))
        for method, more in (("GET", ""), ("DELETE", ""), ("POST", "/interrupt")):
            assert http.request(method, path(response_id) + more).status_code == 404
        assert http.post(f"{path(response_id)}/cancel").status_code == 404
        http.headers.update(bearer("ada"))
        assert http.get(path(response_id)).json()["status"] == "in_progress"


def test_a_command_to_a_gateway_that_dies_is_refused_and_not_carried_out_later(pair: Pair) -> None:
    fleet = pair.fleet
    with Socket(pair.one.url) as socket, ThreadPoolExecutor(1) as aside:
        response_id = story(socket)
        frozen = fleet.freeze(pair.one)
        url = f"{path(response_id)}/steer"
        told = aside.submit(pair.there.post, url, json={"input": "a tale"})
        eventually(lambda: fleet.orders(response_id) == 1)
        fleet.bury(pair.one)  # and with it what the turn has said
        assert code(told.result()) == (400, "response_already_completed")
        let_lease_run_out(pair.one)
        frozen.thaw()
        assert pair.there.get(path(response_id)).json()["error"]["code"] == "lost_midway"
        # No number that its client saw means something else now, and it hears of the end.
        rest = f"{path(response_id)}?stream=true&starting_after=5"
        told_again = streamed(pair.there, "GET", rest)
        assert [(each["type"], each["sequence_number"]) for each in told_again] == [
            ("response.created", 1_000_000),
            ("response.failed", 1_000_001),
        ]
        events = until_error(socket)
        assert not any(each["type"].startswith("response.steer") for each in events)
        assert events[-1]["error"]["code"] == "resumed_elsewhere"


# -- reads ----------------------------------------------------------------------------------------


def test_a_turn_is_read_from_another_gateway_and_has_ended_there_as_soon_as_here(
    pair: Pair,
) -> None:
    with Socket(pair.one.url) as socket:
        for _ in range(3):
            socket.create("a tale")
            response_id = socket.until("response.created")["response"]["id"]
            there = pair.there.get(path(response_id)).json()
            assert (there["id"], there["status"]) == (response_id, "in_progress")
            end = socket.until_end()[-1]["response"]
            assert pair.there.get(path(response_id)).json() == end


def test_the_rest_of_a_turn_is_told_by_another_gateway_as_it_was(pair: Pair) -> None:
    with Socket(pair.one.url) as socket:
        socket.create("a tale")
        seen = [socket.read() for _ in range(40)]
        response_id = seen[0]["response"]["id"]
        with ThreadPoolExecutor(2) as many:
            parts = many.map(
                lambda query: streamed(pair.there, "GET", path(response_id), params=query),
                ({"stream": "true"}, {"stream": "true", "starting_after": 20}),
            )
            seen += socket.until_end()
            assert list(parts) == [seen, seen[21:]]


def test_a_turn_is_resumed_on_another_gateway_which_others_on_that_socket_do_not_wait_for(
    pair: Pair,
) -> None:
    with Socket(pair.one.url) as socket, Socket(pair.other.url) as elsewhere:
        response_id = story(socket, "a tale")
        elsewhere.send(
            type="response.resume", response_id=response_id, starting_after=3, stream_id="a"
        )
        elsewhere.create("hello", stream_id="b")
        between = elsewhere.until_end()
        assert between[-1]["stream_id"] == "b"
        assert between[-1]["type"] == "response.completed"
        end = socket.until_end()[-1]["response"]
        rest = elsewhere.until_end()
        assert {event["stream_id"] for event in rest} == {"a"}
        assert rest[0]["sequence_number"] == 4
        assert rest[-1]["response"] == end


def is_telling(gateway: RunningGateway) -> bool:
    sessions: list[Any] = [*gateway.gateway.runner._connections]
    return any(not each._session.idle for each in sessions)


def test_a_turn_that_is_told_on_another_gateway_can_be_steered_from_there(pair: Pair) -> None:
    with Socket(pair.one.url) as socket, Socket(pair.other.url) as elsewhere:
        response_id = story(socket)
        elsewhere.send(type="response.resume", response_id=response_id)
        eventually(lambda: is_telling(pair.other))
        elsewhere.send(
            type="response.steer", previous_response_id=response_id, input="rather a tale"
        )
        told = elsewhere.until_ends(2)  # the receipt may come before the end or behind it
        [receipt] = [each for each in told if each["type"] == "response.steer.accepted"]
        first, last = (each["response"] for each in told if each["type"] in TERMINAL)
        assert first["id"] == response_id
        begins = [each for each in told if each["type"] == "response.created"]
        assert begins[-1]["response"]["id"] == last["id"]
        assert last["status"] == "completed"
        assert socket.until("response.steer.accepted")["steer"] == receipt["steer"]
        assert socket.until_ends(2)[-1]["response"] == last


def test_the_same_key_on_another_gateway_gets_the_same_turn(pair: Pair) -> None:
    headers = {"Idempotency-Key": "order-7"}
    body = {"input": "a tale"}
    with Socket(pair.one.url) as socket, ThreadPoolExecutor(3) as many:
        # vivace: ignore[python-hard-coded-secret] it lets nobody in
        socket.create("a tale", idempotency_key="order-7")
        begun = socket.until("response.created")
        waited = many.submit(pair.there.post, RESPONSES, json=body, headers=headers)
        told = many.submit(
            streamed, pair.there, "POST", RESPONSES, json=body | {"stream": True}, headers=headers
        )
        seen = [begun, *socket.until_end()]
        assert waited.result().json() == seen[-1]["response"]
        assert told.result() == seen
    other = pair.there.post(RESPONSES, json={"input": "another"}, headers=headers)
    assert code(other) == (422, "idempotency_key_reused")
    assert metric(pair.other, "vivace_turns_total") == 0


def test_the_same_key_in_the_background_is_answered_at_once(pair: Pair) -> None:
    body = {"input": "a story", "background": True, "idempotency_key": "k"}
    made = pair.here.post(RESPONSES, json=body).json()
    again = pair.there.post(RESPONSES, json=body).json()
    assert (again["id"], again["status"]) == (made["id"], "in_progress")
    assert pair.there.post(f"{path(made['id'])}/cancel").json()["status"] == "cancelled"
    told = streamed(pair.there, "POST", RESPONSES, json=body | {"stream": True})
    assert told[-1]["response"]["status"] == "cancelled"


def test_one_that_begins_at_the_same_time_on_both_runs_once(pair: Pair) -> None:
    with ThreadPoolExecutor(8) as many:
        for number in range(3):
            key = {"Idempotency-Key": f"key-{number}"}
            ask = lambda http, key=key: http.post(  # noqa: E731
                RESPONSES, json={"input": "a tale"}, headers=key
            )
            answers = list(many.map(ask, [pair.here, pair.there] * 4))
            assert len({each.content for each in answers}) == 1
    ran = [metric(each, "vivace_turns_total") for each in (pair.one, pair.other)]
    assert sum(ran) == 3


# -- conversations --------------------------------------------------------------------------------


def test_a_conversation_goes_on_at_another_gateway_at_once(pair: Pair) -> None:
    before: str | None = None
    with Socket(pair.one.url) as one, Socket(pair.other.url) as other:
        for number in range(20):
            socket = (one, other)[number % 2]
            end = socket.turn(f"number {number}", previous_response_id=before)
            assert end["type"] == "response.completed"
            before = end["response"]["id"]
    with Socket(pair.one.url) as socket:
        running = story(socket)
        early = pair.there.post(RESPONSES, json={"input": "hi", "previous_response_id": running})
        assert code(early) == (400, "previous_response_not_found")
        assert "in progress" in early.json()["error"]["message"]


@pytest.mark.parametrize("kept", [True, False], ids=["kept", "passing"])
def test_what_another_gateway_deleted_is_not_continued_from_memory(pair: Pair, kept: bool) -> None:
    with Socket(pair.one.url) as socket:
        first = socket.turn("hello")["response"]["id"]
        passing = socket.turn("and", previous_response_id=first, store=False)["response"]["id"]
        assert pair.there.delete(path(first)).status_code == 200
        for before in (first, passing):
            socket.create("and now?", previous_response_id=before, store=kept)
            refused = socket.until_end()[-1]
            assert refused["error"]["code"] == "previous_response_not_found"
        body = {"input": "and now?", "previous_response_id": first, "store": kept}
        assert code(pair.here.post(RESPONSES, json=body))[1] == "previous_response_not_found"


# -- gateways that die, and one that comes back ---------------------------------------------------


def test_a_turn_of_a_killed_process_is_taken_when_a_client_asks_for_it(
    fleet: Gateways, tmp_path: Path
) -> None:
    other = fleet.start()
    tables = {"store": {"url": fleet._url}, "fleet": SLOW}
    with Serve(tmp_path, STALL, tables=tables) as one:
        with one.http() as http:
            body = {"input": "a tale", "background": True}
            response_id = http.post(RESPONSES, json=body).json()["id"]
        one.process.kill()
        one.process.wait()
    holder = fleet.holder(response_id)
    aged = "UPDATE gateways SET seen = seen - interval '1 hour' WHERE id = $1 RETURNING id"
    assert fleet._value(aged, holder) == holder
    with other.http as http:
        told = streamed(http, "GET", path(response_id), params={"stream": "true"})
        assert told[-1]["type"] == "response.completed"
        numbers = [event["sequence_number"] for event in told]
        assert numbers == [*range(1_000_000, 1_000_000 + len(told))]  # it ran again, from its start
        assert http.get(path(response_id)).json() == told[-1]["response"]


def test_a_command_to_a_gateway_that_died_is_done_by_the_one_that_takes_the_turn(
    fleet: Gateways,
) -> None:
    one, other, third = fleet.start(), fleet.start(), fleet.start()
    with one.http as http:
        body = {"input": "a story", "background": True}
        response_id = http.post(RESPONSES, json=body).json()["id"]
    fleet.freeze(one)
    with other.http as http, third.http as reader, ThreadPoolExecutor(1) as aside:
        url = f"{path(response_id)}/steer"
        told = aside.submit(http.post, url, json={"input": "rather a tale"})
        eventually(lambda: fleet.orders(response_id) == 1)
        fleet.bury(one)
        receipt = told.result().json()
        assert receipt["type"] == "response.steer.accepted"
        successor = receipt["successor_id"]
        eventually(lambda: reader.get(path(successor)).json().get("status") == "completed")
        steered = reader.get(path(response_id)).json()
        assert steered["incomplete_details"] == {"reason": "steered"}
        items = reader.get(f"{path(successor)}/input_items").json()["data"]
        assert [each["content"][0]["text"] for each in items] == ["rather a tale"]


def test_gateways_that_were_cut_off_together_leave_each_other_their_turns(
    fleet: Gateways, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "_PATIENCE", 0.3)
    one, other = fleet.start(), fleet.start()
    away, take = {one._loop, other._loop}, Connections._take
    looks, look = list[int](), one.gateway.recovery.look

    async def refused(pool: Connections, limit: float) -> Any:
        if asyncio.get_running_loop() in away:
            raise ConnectionRefusedError
        return await take(pool, limit)

    async def counted(**given: Any) -> int:
        taken = await look(**given)
        looks.append(taken)
        return taken

    with Socket(one.url) as socket, Socket(other.url) as elsewhere:
        turns = [story(each) for each in (socket, elsewhere)]
        monkeypatch.setattr(Connections, "_take", refused)
        for each in (one, other):
            eventually(partial(is_cut_off, each))
            fleet.bury(each)
            let_lease_run_out(each)
        monkeypatch.setattr(one.gateway.recovery, "look", counted)
        away.remove(one._loop)  # it is back first, and finds that the other one was silent for long
        eventually(lambda: len(looks) >= 3)
        assert set(looks) == {0}
        holders = [each.gateway.keeper.holder for each in (one, other)]
        assert [fleet.holder(each) for each in turns] == holders
        away.clear()
        for client, response_id in ((socket, turns[0]), (elsewhere, turns[1])):
            client.send(type="response.interrupt", response_id=response_id)
            ended = client.until_end()[-1]["response"]
            assert ended["incomplete_details"] == {"reason": "interrupted"}


def is_cut_off(gateway: RunningGateway) -> bool:
    return gateway.gateway.archive.trouble is not None


def test_a_ghost_that_comes_back_says_nothing_more(pair: Pair) -> None:
    with Socket(pair.one.url) as socket, Socket(pair.one.url) as lasting:
        foreground = story(socket)
        background = story(lasting, "a story", background=True)
        ghost = pair.fleet.kill(pair.one)
        eventually(lambda: pair.there.get(path(foreground)).json()["status"] == "failed")
        eventually(lambda: metric(pair.other, "vivace_turns_running") == 1)
        let_lease_run_out(pair.one)
        said_before = len(pair.one.witness.events)
        ghost.thaw()
        for each, response_id in ((socket, foreground), (lasting, background)):
            last = until_error(each)[-1]
            assert last["error"]["code"] == "resumed_elsewhere"
            assert response_id in last["error"]["message"]
        assert set(pair.one.witness.events[said_before:]) == {"error"}
        there = pair.there.get(path(foreground)).json()
        assert (there["status"], there["error"]["code"]) == ("failed", "lost_midway")
        assert pair.here.get(path(foreground)).json() == there
        assert pair.here.get(path(background)).json()["status"] == "in_progress"
        assert pair.here.post(f"{path(background)}/cancel").json()["status"] == "cancelled"
        assert socket.turn("hello")["type"] == "response.completed"


def asked(gateway: RunningGateway, response_id: str) -> HTTPConnection:
    """Send a request for it; the answer is not waited for."""
    connection = HTTPConnection("127.0.0.1", gateway.port, timeout=60)
    connection.request("GET", path(response_id))
    return connection


def status(connection: HTTPConnection) -> str:
    with connection.getresponse() as answer:
        found: str = json.load(answer)["status"]
    connection.close()
    return found


def test_a_ghost_that_is_asked_first_of_all_tells_what_is_on_record(pair: Pair) -> None:
    """However soon it is asked: it does not know yet that it was taken for dead."""
    with Socket(pair.one.url) as socket:
        response_id = story(socket)
        ghost = pair.fleet.kill(pair.one)
        eventually(lambda: pair.there.get(path(response_id)).json()["status"] == "failed")
        let_lease_run_out(pair.one)
        connection = asked(pair.one, response_id)
        ghost.thaw()
        assert status(connection) == "failed"


def test_a_ghost_that_is_asked_while_it_learns_of_its_loss_tells_no_end_of_its_own(
    pair: Pair,
) -> None:
    body = {"input": "a story", "background": True}
    response_id = pair.here.post(RESPONSES, json=body).json()["id"]
    ghost = pair.fleet.kill(pair.one)
    eventually(lambda: metric(pair.other, "vivace_takeovers_total") > 0)
    let_lease_run_out(pair.one)
    several = [asked(pair.one, response_id) for _ in range(8)]
    ghost.thaw()
    # The other one runs it again, and without end.
    assert {status(each) for each in several} == {"in_progress"}

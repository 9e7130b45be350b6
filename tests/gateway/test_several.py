"""Several gateways on one PostgreSQL: any of them answers for any conversation."""

from __future__ import annotations

import json
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.http import RESPONSES
from tests.support.postgres import Postgres
from tests.support.process import Serve
from tests.support.socket import Event, Socket
from tests.support.valkey import Valkey
from tests.support.waiting import eventually
from tests.support.witness import TERMINAL

SCRIPT = """
[[replies]]
when = "story"
then = [{ do = "say", text = " word", times = 1000000 }]
[[replies]]
when = "tale"
then = [{ do = "say", text = " word", times = 150 }]
[[replies]]
when = "saga"
then = [{ do = "say", text = " word", times = 1000 }]
"""
FLEET = {"heartbeat_seconds": 0.2, "dead_after_seconds": 0.8}


class Pair:
    """Two gateways, each with its own engine."""

    def __init__(self, one: Serve, other: Serve) -> None:
        self.one = one
        self.other = other
        self.here = one.http()
        self.there = other.http()

    def story(self, socket: Socket, text: str = "a story", **body: Any) -> str:
        """The id of a turn of which the first has said some words."""
        socket.create(text, **body)
        response_id: str = socket.until("response.created")["response"]["id"]
        for _ in range(5):
            socket.until("response.output_text.delta")
        return response_id


@pytest.fixture
def start(postgres: Postgres, tmp_path: Path) -> Iterator[Callable[[], Serve]]:
    url = postgres.database()
    with ExitStack() as stack:

        def started() -> Serve:
            folder = tmp_path / str(len(list(tmp_path.iterdir())))
            folder.mkdir()
            tables = {"store": {"url": url}, "fleet": FLEET}
            return stack.enter_context(Serve(folder, SCRIPT, rate=200, tables=tables))

        yield started


@pytest.fixture
def pair(start: Callable[[], Serve]) -> Iterator[Pair]:
    pair = Pair(start(), start())
    with pair.here, pair.there:
        yield pair
        for server in (pair.one, pair.other):
            assert server.faults == []


def path(response_id: str) -> str:
    return f"{RESPONSES}/{response_id}"


def streamed(http: httpx.Client, method: str, url: str, **given: Any) -> list[Event]:
    with http.stream(method, url, **given) as stream:
        return [json.loads(line[6:]) for line in stream.iter_lines() if line.startswith("data: {")]


def code(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["error"]["code"]


# -- orders ---------------------------------------------------------------------------------------


def test_a_turn_is_cancelled_from_another_gateway(pair: Pair) -> None:
    with Socket(pair.one.url) as socket:
        response_id = pair.story(socket)
        cancelled = pair.there.post(f"{path(response_id)}/cancel")
        assert cancelled.status_code == 200
        assert cancelled.json() == socket.until_end()[-1]["response"]
        assert cancelled.json()["status"] == "cancelled"
        assert pair.here.get(path(response_id)).json() == cancelled.json()
    assert pair.one.metric("vivace_orders_carried_out_total", kind="cancel") == 1
    assert pair.other.metric("vivace_orders_asked_total", kind="cancel", outcome="answered") == 1


def _is_known(there: httpx.Client, at: str) -> bool:
    return there.get(at).status_code == 200


def test_a_wake_up_that_is_late_or_lost_costs_time_only(postgres: Postgres, tmp_path: Path) -> None:
    valkey, url = Valkey(), postgres.database()
    with ExitStack() as stack:
        stack.callback(valkey.stop)
        servers = []
        for name in ("one", "other"):
            folder = tmp_path / name
            folder.mkdir()
            tables = {"store": {"url": url}, "fleet": {**FLEET, "valkey": valkey.url}}
            servers.append(stack.enter_context(Serve(folder, SCRIPT, rate=200, tables=tables)))
        one, there = servers[0], stack.enter_context(servers[1].http())
        faults: list[tuple[Callable[[], object], Callable[[], object]]] = [
            (lambda: None, lambda: None),
            (valkey.freeze, valkey.thaw),
            (valkey.kill, valkey.start),
        ]
        for fault, heal in faults:
            with Socket(one.url) as socket:
                response_id = Pair.story(None, socket)  # type: ignore[arg-type]
                fault()
                steered = there.post(f"{path(response_id)}/steer", json={"input": "a tale"})
                assert steered.status_code == 200
                successor = path(steered.json()["successor_id"])
                heal()
                eventually(partial(_is_known, there, successor))
                cancelled = there.post(f"{successor}/cancel").json()
                assert cancelled.get("status") == "cancelled", cancelled
        assert all(server.faults == [] for server in servers)


def test_a_turn_is_interrupted_from_another_gateway(pair: Pair) -> None:
    with Socket(pair.one.url) as socket:
        response_id = pair.story(socket)
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
        first = pair.story(socket)
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
        first = pair.story(socket)
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
        response_id = pair.story(socket)
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
        response_id = pair.story(socket)
        assert pair.there.delete(path(response_id)).status_code == 200
        assert socket.until_end()[-1]["response"]["status"] == "cancelled"
        for http in (pair.here, pair.there):
            assert http.get(path(response_id)).status_code == 404
            assert http.get(path(response_id), params={"stream": "true"}).status_code == 404
    eventually(lambda: pair.one.metric("vivace_turns_running") == 0)


def test_another_key_neither_sees_nor_stops_it(postgres: Postgres, tmp_path: Path) -> None:
    tables = {"store": {"url": postgres.database()}, "fleet": FLEET}
    with ExitStack() as stack:
        servers = []
        for name in ("one", "other"):
            (tmp_path / name).mkdir()
            server = Serve(tmp_path / name, SCRIPT, tables=tables, owners=("ada", "bob"))
            servers.append(stack.enter_context(server))
        socket = stack.enter_context(servers[0].socket("ada"))
        socket.create("a story")
        response_id = socket.until("response.created")["response"]["id"]
        with servers[1].http("bob") as http:
            for method, more in (("GET", ""), ("DELETE", ""), ("POST", "/interrupt")):
                assert http.request(method, path(response_id) + more).status_code == 404
            assert http.post(f"{path(response_id)}/cancel").status_code == 404
        with servers[1].http("ada") as http:
            assert http.get(path(response_id)).json()["status"] == "in_progress"


def test_an_order_that_nobody_carries_out_says_so_and_is_not_carried_out_later(
    pair: Pair,
) -> None:
    with Socket(pair.one.url) as socket:
        response_id = pair.story(socket)
        pair.one.process.send_signal(signal.SIGSTOP)
        try:
            told = pair.there.post(f"{path(response_id)}/steer", json={"input": "a tale"})
        finally:
            pair.one.process.send_signal(signal.SIGCONT)
        # Its gateway counts as gone after a moment, and with it what the turn has said.
        assert code(told) == (400, "response_already_completed")
        assert pair.there.get(path(response_id)).json()["error"]["code"] == "lost_midway"
        # No number that its client saw means something else now, and it hears of the end.
        rest = f"{path(response_id)}?stream=true&starting_after=5"
        told_again = streamed(pair.there, "GET", rest)
        assert [(each["type"], each["sequence_number"]) for each in told_again] == [
            ("response.created", 1_000_000),
            ("response.failed", 1_000_001),
        ]
        while (event := socket.read())["type"] != "error":
            assert not event["type"].startswith("response.steer")
        assert event["error"]["code"] == "resumed_elsewhere"


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
        response_id = pair.story(socket, "a tale")
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


def test_a_turn_that_is_told_on_another_gateway_can_be_steered_from_there(pair: Pair) -> None:
    with Socket(pair.one.url) as socket, Socket(pair.other.url) as elsewhere:
        response_id = pair.story(socket)
        elsewhere.send(type="response.resume", response_id=response_id)
        time.sleep(0.2)
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
    assert pair.other.metric("vivace_turns_total") == 0


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
    ran = [each.metric("vivace_turns_total") for each in (pair.one, pair.other)]
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
        running = pair.story(socket)
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


def test_a_turn_whose_gateway_is_gone_is_taken_when_somebody_asks_for_it(
    start: Callable[[], Serve],
) -> None:
    one, other = start(), start()
    with one.http() as http:
        body = {"input": "a tale", "background": True}
        response_id = http.post(RESPONSES, json=body).json()["id"]
    one.process.kill()
    with other.http() as http:
        told = streamed(http, "GET", path(response_id), params={"stream": "true"})
        assert told[-1]["type"] == "response.completed"
        numbers = [event["sequence_number"] for event in told]
        assert numbers == [*range(1_000_000, 1_000_000 + len(told))]  # it ran again, from its start
        assert http.get(path(response_id)).json() == told[-1]["response"]


def test_what_was_asked_of_a_gateway_that_died_is_done_by_who_takes_the_turn(
    start: Callable[[], Serve],
) -> None:
    one, other, third = start(), start(), start()
    with one.http() as http:
        body = {"input": "a story", "background": True}
        response_id = http.post(RESPONSES, json=body).json()["id"]
    one.process.send_signal(signal.SIGSTOP)
    with other.http() as http, third.http() as reader, ThreadPoolExecutor(1) as aside:
        told = aside.submit(
            http.post, f"{path(response_id)}/steer", json={"input": "rather a tale"}
        )
        time.sleep(0.2)
        one.process.kill()
        receipt = told.result().json()
        assert receipt["type"] == "response.steer.accepted"
        successor = receipt["successor_id"]
        eventually(lambda: reader.get(path(successor)).json().get("status") == "completed")
        steered = reader.get(path(response_id)).json()
        assert steered["incomplete_details"] == {"reason": "steered"}
        items = reader.get(f"{path(successor)}/input_items").json()["data"]
        assert [each["content"][0]["text"] for each in items] == ["rather a tale"]


def test_gateways_that_were_cut_off_together_leave_each_other_their_turns(
    start: Callable[[], Serve], postgres: Postgres
) -> None:
    pair = Pair(start(), start())
    with Socket(pair.one.url) as socket, Socket(pair.other.url) as elsewhere:
        for each in (socket, elsewhere):
            pair.story(each, "a saga")
        postgres.kill()
        time.sleep(3 * FLEET["dead_after_seconds"])
        postgres.start()
        for each in (socket, elsewhere):
            assert each.until_end(60)[-1]["type"] == "response.completed"


def test_a_ghost_that_comes_back_says_nothing_more(pair: Pair) -> None:
    with Socket(pair.one.url) as socket, Socket(pair.one.url) as lasting:
        foreground = pair.story(socket)
        background = pair.story(lasting, "a story", background=True)
        pair.one.process.send_signal(signal.SIGSTOP)
        eventually(lambda: pair.there.get(path(foreground)).json()["status"] == "failed")
        eventually(lambda: pair.other.metric("vivace_turns_running") == 1)
        while True:  # what it had sent before
            try:
                socket.read(timeout=0.2)
            except TimeoutError:
                break
        while True:
            try:
                lasting.read(timeout=0.2)
            except TimeoutError:
                break
        pair.one.process.send_signal(signal.SIGCONT)
        for each, response_id in ((socket, foreground), (lasting, background)):
            said = [each.read()]
            while said[-1]["type"] != "error":
                said.append(each.read())
            assert [event["type"] for event in said] == ["error"]
            assert said[0]["error"]["code"] == "resumed_elsewhere"
            assert "word" not in json.dumps(said)
            assert response_id in said[0]["error"]["message"]
        there = pair.there.get(path(foreground)).json()
        assert (there["status"], there["error"]["code"]) == ("failed", "lost_midway")
        assert pair.here.get(path(foreground)).json() == there
        assert pair.here.get(path(background)).json()["status"] == "in_progress"
        assert pair.here.post(f"{path(background)}/cancel").json()["status"] == "cancelled"
        assert socket.turn("hello")["type"] == "response.completed"


def test_a_ghost_that_is_asked_first_of_all_tells_what_is_on_record(pair: Pair) -> None:
    """However soon it is asked: it does not know yet that it was taken for dead."""
    with Socket(pair.one.url) as socket:
        response_id = pair.story(socket)
        pair.one.process.send_signal(signal.SIGSTOP)
        eventually(lambda: pair.there.get(path(response_id)).json()["status"] == "failed")
        answers: list[httpx.Response] = []
        asking = threading.Thread(target=lambda: answers.append(pair.here.get(path(response_id))))
        asking.start()
        time.sleep(0.2)
        pair.one.process.send_signal(signal.SIGCONT)
        asking.join(10)
        assert answers[0].json()["status"] == "failed"


def test_a_ghost_that_is_asked_while_it_learns_of_its_loss_tells_no_end_of_its_own(
    pair: Pair,
) -> None:
    body = {"input": "a story", "background": True}
    response_id = pair.here.post(RESPONSES, json=body).json()["id"]
    pair.one.process.send_signal(signal.SIGSTOP)
    try:
        eventually(lambda: pair.other.metric("vivace_takeovers_total") > 0)
        with ThreadPoolExecutor(8) as several:
            asked = [several.submit(pair.here.get, path(response_id)) for _ in range(8)]
            time.sleep(0.2)
            pair.one.process.send_signal(signal.SIGCONT)
            told = {each.result(20).json()["status"] for each in asked}
    finally:
        pair.one.process.send_signal(signal.SIGCONT)
    assert told == {"in_progress"}  # the other one runs it again, and without end

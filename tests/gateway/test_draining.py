"""Gateways and engine nodes that are to take no more work, while others are at it."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.gateway.test_engine_nodes import text_of, until, words
from tests.support.http import RESPONSES, keys
from tests.support.nodes import KEYED, EngineProcess
from tests.support.postgres import Postgres
from tests.support.process import Serve
from tests.support.socket import Event, Socket
from tests.support.waiting import eventually

WORDS = 300
SCRIPT = f"""
[[replies]]
when = "mark"
then = [{{ do = "mark", times = {WORDS} }}]
[[replies]]
when = "who"
then = [{{ do = "mark", times = 1 }}]
[[replies]]
when = "tale"
then = [{{ do = "say", text = " word", times = {WORDS} }}]
"""
KEYS = [each | {"admin": each["name"] == "ops"} for each in keys("ops", "ada")]


class Admin:
    """Somebody with an admin key, at one gateway."""

    def __init__(self, server: Serve) -> None:
        self._http = server.http("ops")

    def drain(self, name: str, **more: Any) -> httpx.Response:
        return self._http.post("/fleet/drain", json={"name": name, **more})

    def fleet(self) -> dict[str, Any]:
        shown: dict[str, Any] = self._http.get("/fleet").json()
        return shown

    def state(self, name: str) -> str:
        shown = self.fleet()
        states = [
            str(each["state"])
            for each in (*shown["nodes"], *shown["gateways"])
            if each["name"] == name and each["state"] != "gone"
        ]
        return states[0] if states else "unknown"

    def until(self, name: str, state: str, seconds: float = 10) -> None:
        eventually(lambda: self.state(name) == state, seconds)


# -- nodes ----------------------------------------------------------------------------------------


@contextmanager
def gateway_of(folder: Path, *nodes: EngineProcess, **more: Any) -> Iterator[Serve]:
    tables = {
        "engines": [],
        "tiers": [{"name": "fast", "engines": ["coder"]}],
        "fleet": {"engines": [each.url for each in nodes]},
        "keys": KEYS,
    }
    with Serve(folder, tables=tables | more, environment=KEYED) as server:
        linked = Admin(server)
        eventually(lambda: all(each["state"] == "ready" for each in linked.fleet()["nodes"]))
        yield server


@contextmanager
def two_nodes(folder: Path, **engine: Any) -> Iterator[tuple[dict[str, EngineProcess], Serve]]:
    with (
        EngineProcess(folder, "a", SCRIPT, rate=60, engine=engine) as one,
        EngineProcess(folder, "b", SCRIPT, rate=60, engine=engine) as other,
        gateway_of(folder, one, other) as server,
    ):
        yield {"a": one, "b": other}, server


def found(admin: Admin, what: str) -> str:
    """The node that has a turn running or waiting."""
    names: list[str] = []

    def is_found() -> bool:
        names[:] = [
            node["name"]
            for node in admin.fleet()["nodes"]
            if sum(each[what] for each in node["engines"])
        ]
        return bool(names)

    eventually(is_found)
    return names[0]


def home_of(admin: Admin) -> str:
    return found(admin, "running")


def moved_by_draining(server: Serve) -> bool:
    """Whether one turn was, and no engine counts as dead for it."""
    figures = server.http("ops").get("/metrics").text
    return (
        'vivace_failovers_total{reason="drained"} 1.0' in figures and 'reason="died"' not in figures
    )


def whole(events: list[Event]) -> bool:
    """Whether all was said, once, and the numbers go up by one."""
    told = [each for each in events if each["type"] != "error"]
    numbers = [each["sequence_number"] for each in told]
    said = [number for number, _ in words(text_of(told))]
    return (
        told[-1]["type"] == "response.completed"
        and said == list(range(WORDS))
        and numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    )


def test_what_runs_on_a_node_may_end_there_and_nothing_new_begins(tmp_path: Path) -> None:
    with two_nodes(tmp_path) as (_, server), server.socket("ada") as socket:
        admin = Admin(server)
        socket.create("mark")
        events = until(socket, bool)
        home = home_of(admin)
        assert admin.drain(home, seconds=60).json() == {"name": home, "kind": "node"}
        admin.until(home, "draining")
        for _ in range(6):
            assert server.http("ada").post(RESPONSES, json={"input": "who"}).is_success
        there = [each for each in admin.fleet()["nodes"] if each["name"] == home]
        assert there[0]["engines"][0]["running"] == 1
        events += socket.until_end(20)
        assert whole(events)
        assert len({who for _, who in words(text_of(events))}) == 1
        admin.until(home, "drained")


def test_what_runs_too_long_goes_on_at_another_node(tmp_path: Path) -> None:
    with two_nodes(tmp_path) as (nodes, server), server.socket("ada") as socket:
        admin = Admin(server)
        socket.create("mark")
        events = until(socket, bool)
        home = home_of(admin)
        assert admin.drain(home, seconds=0.2).is_success
        admin.until(home, "drained")
        events += socket.until_end(20)
        assert whole(events)
        assert len({who for _, who in words(text_of(events))}) == 2
        ready = httpx.get(f"http://127.0.0.1:{nodes[home].port}/readyz")
        assert (ready.status_code, ready.text) == (503, "draining\n")
        assert moved_by_draining(server)
        assert server.faults == []


def test_who_waits_at_a_node_goes_to_another_with_its_numbers(tmp_path: Path) -> None:
    with (
        two_nodes(tmp_path, slots=1) as (_, server),
        server.socket("ada") as first,
        server.socket("ada") as second,
        server.socket("ada") as third,
    ):
        admin = Admin(server)
        for socket in (first, second):
            socket.create("mark")
        for socket in (first, second):
            until(socket, bool)
        third.create("mark")
        events = [third.read()]
        while events[-1]["type"] != "response.queued":
            events.append(third.read())
        waits = found(admin, "waiting")
        assert admin.drain(waits, seconds=60).is_success
        shown: list[int] = []

        def moved() -> bool:
            shown[:] = [
                each["engines"][0]["waiting"]
                for each in sorted(admin.fleet()["nodes"], key=lambda node: node["name"] != waits)
            ]
            return shown == [0, 1]

        eventually(moved, 2)
        events += third.until_end(30)
        assert whole(events)


def test_a_node_that_was_drained_comes_back_by_word_or_by_a_restart(tmp_path: Path) -> None:
    with two_nodes(tmp_path) as (nodes, server):
        admin = Admin(server)
        for name in ("a", "b"):
            assert admin.drain(name).is_success
            admin.until(name, "drained")
            assert admin.drain(name, undo=True).is_success
            admin.until(name, "ready")
        assert admin.drain("a").is_success
        admin.until("a", "drained")
        nodes["a"].kill()
        with EngineProcess(tmp_path, "a", SCRIPT, port=nodes["a"].port):
            admin.until("a", "ready")


def test_what_cannot_be_drained_is_said_with_what_to_do(tmp_path: Path) -> None:
    with EngineProcess(tmp_path, "a", SCRIPT) as node, gateway_of(tmp_path, node) as server:
        admin = Admin(server)
        only = admin.drain("a")
        assert (only.status_code, only.json()["error"]["code"]) == (409, "cannot_be_drained")
        assert "Start another node first" in only.json()["error"]["message"]
        alone = admin.drain(admin.fleet()["gateways"][0]["name"])
        assert alone.status_code == 409
        assert "the only gateway" in alone.json()["error"]["message"]
        unknown = admin.drain("nobody")
        assert unknown.status_code == 404
        assert "Known here: a" in unknown.json()["error"]["message"]
        assert admin.drain("").status_code == 400


def test_draining_takes_an_admin_key(tmp_path: Path) -> None:
    with EngineProcess(tmp_path, "a", SCRIPT) as node, gateway_of(tmp_path, node) as server:
        asked = {"name": "a"}
        refused = server.http("ada").post("/fleet/drain", json=asked)
        assert (refused.status_code, refused.json()["error"]["code"]) == (403, "admin_key_required")
        assert server.http().post("/fleet/drain", json=asked).status_code == 401
        assert server.http("ada").get("/fleet").is_success
        assert server.http().get("/fleet").status_code == 401


def test_a_node_that_is_told_to_stop_hands_on_what_does_not_end(tmp_path: Path) -> None:
    with (
        EngineProcess(tmp_path, "a", SCRIPT, rate=100, limits={"drain_seconds": 0.3}) as one,
        EngineProcess(tmp_path, "b", SCRIPT, rate=100, limits={"drain_seconds": 0.3}) as other,
        gateway_of(tmp_path, one, other) as server,
        server.socket("ada") as socket,
    ):
        socket.create("mark")
        events = until(socket, bool)
        home = {"a": one, "b": other}[home_of(Admin(server))]
        home.process.send_signal(signal.SIGTERM)
        assert home.process.wait(10) == 0
        events += socket.until_end(20)
        assert whole(events)
        assert moved_by_draining(server)


# -- gateways -------------------------------------------------------------------------------------


@pytest.fixture
def gateways(postgres: Postgres, tmp_path: Path) -> Iterator[Callable[..., Serve]]:
    url = postgres.database()
    with ExitStack() as stack:

        def started(name: str, **more: Any) -> Serve:
            folder = tmp_path / name
            folder.mkdir()
            timing = {"heartbeat_seconds": 0.2, "dead_after_seconds": 8, "name": name}
            tables = {"store": {"url": url}, "fleet": timing, "keys": KEYS}
            server = Serve(folder, SCRIPT, rate=100, tables=tables, **more)
            return stack.enter_context(server)

        yield started


def test_a_gateway_that_drains_refuses_new_turns_and_lets_others_end(
    gateways: Callable[..., Serve],
) -> None:
    one, other = gateways("one"), gateways("other")
    admin = Admin(other)
    with one.socket("ada") as socket, one.http("ada") as http:
        socket.create("mark")
        events = until(socket, bool)
        assert admin.drain("one", seconds=60).json() == {"name": "one", "kind": "gateway"}
        eventually(lambda: http.get("/readyz").status_code == 503)
        assert http.get("/readyz").text == "draining\n"
        refused = http.post(RESPONSES, json={"input": "who"})
        assert refused.status_code == 503
        assert refused.json()["error"]["code"] == "server_shutting_down"
        admin.until("one", "draining")
        events += socket.until_end(20)
        assert whole(events)
    admin.until("one", "drained")
    assert admin.drain("one", undo=True).is_success
    with one.http("ada") as http:
        eventually(lambda: http.get("/readyz").status_code == 200)
        assert http.post(RESPONSES, json={"input": "who"}).is_success
    admin.until("one", "ready")
    assert one.faults == []


def test_what_runs_too_long_at_a_gateway_is_handed_over_long_before_it_would_count_as_dead(
    gateways: Callable[..., Serve],
) -> None:
    one, other = gateways("one"), gateways("other")
    admin = Admin(one)
    with one.socket("ada") as socket, other.socket("ada") as elsewhere:
        socket.create("tale", background=True, stream_id="b")
        behind = socket.until("response.created")["response"]["id"]
        socket.create("tale", stream_id="f")
        before = socket.until("response.created")["response"]["id"]
        seen = _numbered(socket, 20)
        began = time.monotonic()
        assert admin.drain("one", seconds=0).is_success
        seen, error = _until_error(socket, seen)
        assert error["error"]["code"] == "server_shutting_down"
        elsewhere.send(
            type="response.resume", response_id=before, starting_after=seen[-1]["sequence_number"]
        )
        first = elsewhere.read()
        assert time.monotonic() - began < 4
        seen += [first, *elsewhere.until_end(20)]
        numbers = [each["sequence_number"] for each in seen]
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
        assert text_of(seen) == " word" * WORDS
    admin.until("one", "drained")
    with other.http("ada") as http:

        def ended() -> bool:
            return bool(http.get(f"{RESPONSES}/{behind}").json()["status"] == "completed")

        eventually(ended, 20)
        answer = http.get(f"{RESPONSES}/{behind}").json()
        assert answer["output"][0]["content"][0]["text"] == " word" * WORDS
        events = _streamed(http, behind)
        assert [each["sequence_number"] for each in events] == list(range(len(events)))
    assert one.faults == other.faults == []


def test_a_gateway_that_is_told_to_stop_hands_over_its_turns(
    gateways: Callable[..., Serve],
) -> None:
    one, other = gateways("one", drain=0.3), gateways("other")
    with one.http("ada") as http, other.http("ada") as there:
        body = {"input": "tale", "background": True}
        response_id = http.post(RESPONSES, json=body).json()["id"]
        time.sleep(0.5)
        one.process.send_signal(signal.SIGTERM)
        assert one.process.wait(15) == 0
        path = f"{RESPONSES}/{response_id}"
        eventually(lambda: there.get(path).json()["status"] == "completed", 20)
        text = there.get(path).json()["output"][0]["content"][0]["text"]
        assert text == " word" * WORDS
    assert one.faults == other.faults == []


def test_what_waits_for_its_client_is_handed_over_by_a_gateway_that_stops(
    gateways: Callable[..., Serve],
) -> None:
    one, other = gateways("one"), gateways("other")
    with one.socket("ada") as socket, other.http("ada") as there:
        socket.create("tale", stream_id="f")
        response_id = socket.until("response.created")["response"]["id"]
        seen = _numbered(socket, 20)
        assert Admin(one).drain("one", seconds=0).is_success
        seen, _ = _until_error(socket, seen)
        eventually(lambda: "vivace_takeovers_total 1.0" in there.get("/metrics").text, 20)
    third = gateways("third")
    with third.socket("ada") as elsewhere:
        other.process.send_signal(signal.SIGTERM)
        assert other.process.wait(20) == 0
        after = seen[-1]["sequence_number"]
        elsewhere.send(type="response.resume", response_id=response_id, starting_after=after)
        seen += elsewhere.until_end(20)
        assert seen[-1]["type"] == "response.completed"
        assert text_of(seen) == " word" * WORDS
        assert [each["sequence_number"] for each in seen] == list(range(1, len(seen) + 1))


def test_what_follows_a_steered_turn_is_handed_over_as_any_other(
    gateways: Callable[..., Serve],
) -> None:
    """It is made while its gateway is about to stop."""
    one, other = gateways("one", drain=2), gateways("other")
    with one.socket("ada") as socket, other.socket("ada") as elsewhere:
        socket.create("tale", stream_id="f")
        first = socket.until("response.created")["response"]["id"]
        socket.until("response.output_text.delta")
        one.process.send_signal(signal.SIGTERM)
        eventually(lambda: "shutting down" in one.log)
        socket.send(type="response.steer", previous_response_id=first, input="tale")
        socket.until("response.steer.accepted")
        assert socket.until_end()[-1]["response"]["incomplete_details"] == {"reason": "steered"}
        seen, error = _until_error(socket, [])
        assert error["error"]["code"] == "server_shutting_down"
        assert seen[0]["response"]["previous_response_id"] == first
        after = seen[-1]["sequence_number"]
        follower = seen[0]["response"]["id"]
        elsewhere.send(type="response.resume", response_id=follower, starting_after=after)
        seen += elsewhere.until_end(20)
        assert [each["sequence_number"] for each in seen] == list(range(len(seen)))
        assert text_of(seen) == " word" * WORDS
    assert one.process.wait(15) == 0
    assert one.faults == other.faults == []


def test_what_nobody_can_take_ends_where_it_is(gateways: Callable[..., Serve]) -> None:
    one, other = gateways("one"), gateways("other")
    admin = Admin(one)
    with one.socket("ada") as socket:
        socket.create("mark", store=False)
        events = until(socket, bool)
        assert admin.drain("one", seconds=0).is_success
        events += socket.until_end(20)
        assert whole(events)
    admin.until("one", "drained")
    assert admin.drain("other").status_code == 409
    assert other.faults == []


def _numbered(socket: Socket, count: int) -> list[Event]:
    """The first events of a lane, as they come among others."""
    events: list[Event] = []
    while len(events) < count:
        event = socket.read()
        if event.get("stream_id") == "f":
            events.append(event)
    return events


def _until_error(socket: Socket, seen: list[Event]) -> tuple[list[Event], dict[str, Any]]:
    while True:
        event = socket.read()
        if event["type"] == "error" and event.get("stream_id") == "f":
            return seen, event
        if event.get("stream_id") == "f":
            seen.append(event)


def _streamed(http: httpx.Client, response_id: str) -> list[Event]:
    path = f"{RESPONSES}/{response_id}?stream=true&starting_after=-1"
    with http.stream("GET", path) as stream:
        return [json.loads(line[6:]) for line in stream.iter_lines() if line.startswith("data: {")]

"""Gateways and engine nodes that are to take no more work, while others are at it.

Engines stop in the middle of an answer until the test has them go on, so that an answer is under
way while something is drained, however slow the machine is.
"""

from __future__ import annotations

import json
import logging
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.gateway.test_engine_nodes import PATIENT, STALLS, text_of, until, words
from tests.gateway.test_engine_nodes import fleet as linked_process
from tests.support.fleets import KEY, Fleet, RunningNode
from tests.support.http import RESPONSES, bearer, keys
from tests.support.nodes import KEYED, EngineProcess
from tests.support.ports import free_port
from tests.support.postgres import Postgres
from tests.support.process import Serve
from tests.support.server import RunningGateway
from tests.support.socket import Event, Socket
from tests.support.waiting import eventually
from vivace.engines.scripted import Mark, Reply, Say, Stall

WORDS = 300
BEFORE = 20
"""Words of a tale before its engine stops."""
SCRIPT = f"""
[[replies]]
when = "mark"
then = [{{ do = "mark", times = {WORDS} }}]
[[replies]]
when = "who"
then = [{{ do = "mark", times = 1 }}]
[[replies]]
when = "tale"
then = [
    {{ do = "say", text = " word", times = {BEFORE} }},
    {{ do = "stall", seconds = 1 }},
    {{ do = "say", text = " word", times = {WORDS - BEFORE} }},
]
"""
REPLIES = [
    Reply(when="mark", then=(Mark(times=WORDS),)),
    Reply(when="who", then=(Mark(times=1),)),
    Reply(
        when="tale",
        then=(
            Say(" word", times=BEFORE),
            Stall(3600),
            Say(" word", times=WORDS - BEFORE),
        ),
    ),
]
KEYS = [each | {"admin": each["name"] == "ops"} for each in keys("ops", "ada")]
OWN = {"name": "coder", "kind": "scripted", "model": "coder", "rate": 2000, "silence_seconds": 600}


def client(server: Serve | RunningGateway, owner: str) -> httpx.Client:
    if isinstance(server, Serve):
        return server.http(owner)
    http = server.http
    http.headers.update(bearer(owner))
    return http


def ada(gateway: RunningGateway) -> Socket:
    return Socket(gateway.url, bearer("ada"))


class Admin:
    """Somebody with an admin key, at one gateway."""

    def __init__(self, server: Serve | RunningGateway) -> None:
        self._http = client(server, "ops")

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

    def until(self, name: str, state: str) -> None:
        eventually(lambda: self.state(name) == state, explain=lambda: str(self.fleet()))


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


@pytest.fixture
def nodes(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> Iterator[Fleet]:
    """Of which nothing is kept when it stops."""
    monkeypatch.setenv("VIVACE_FLEET_KEY", KEY)
    with ExitStack() as stack:
        yield Fleet(stack, "", REPLIES)
    assert [each for each in caplog.records if each.levelno >= logging.ERROR] == []


def linked(fleet: Fleet) -> RunningGateway:
    """A gateway that is linked to all nodes."""
    gateway = fleet.gateway(store={"path": ":memory:"}, keys=KEYS)
    admin = Admin(gateway)
    eventually(lambda: all(each["state"] == "ready" for each in admin.fleet()["nodes"]))
    return gateway


def moved_by_draining(server: Serve | RunningGateway) -> bool:
    """Whether one turn was, and no engine counts as dead for it."""
    figures = client(server, "ops").get("/metrics").text
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


def test_what_runs_on_a_node_may_end_there_and_nothing_new_begins(nodes: Fleet) -> None:
    nodes.node(), nodes.node()
    server = linked(nodes)
    with ada(server) as socket:
        admin = Admin(server)
        socket.create("mark")
        events = until(socket, bool)
        home = nodes.at_work().name
        assert admin.drain(home, seconds=600).json() == {"name": home, "kind": "node"}
        admin.until(home, "draining")
        for _ in range(6):
            assert client(server, "ada").post(RESPONSES, json={"input": "who"}).is_success
        there = [each for each in admin.fleet()["nodes"] if each["name"] == home]
        assert there[0]["engines"][0]["running"] == 1
        nodes.go()
        events += socket.until_end()
        assert whole(events)
        assert len({who for _, who in words(text_of(events))}) == 1
        admin.until(home, "drained")


def test_what_runs_too_long_goes_on_at_another_node(nodes: Fleet) -> None:
    nodes.node(), nodes.node()
    server = linked(nodes)
    with ada(server) as socket:
        admin = Admin(server)
        socket.create("mark")
        events = until(socket, bool)
        home = nodes.at_work()
        assert admin.drain(home.name, seconds=0.2).is_success
        admin.until(home.name, "drained")
        nodes.go()
        events += socket.until_end()
        assert whole(events)
        assert len({who for _, who in words(text_of(events))}) == 2
        ready = httpx.get(f"http://127.0.0.1:{home.port}/readyz")
        assert (ready.status_code, ready.text) == (503, "draining\n")
        assert moved_by_draining(server)


def test_who_waits_at_a_node_goes_to_another_with_its_numbers(nodes: Fleet) -> None:
    both = [nodes.node(slots=1), nodes.node(slots=1)]
    server = linked(nodes)
    with ada(server) as first, ada(server) as second, ada(server) as third:
        for socket in (first, second):
            socket.create("mark")
        for socket in (first, second):
            until(socket, bool)
        third.create("mark")
        events = [third.read()]
        while events[-1]["type"] != "response.queued":
            events.append(third.read())

        def waiting(node: RunningNode) -> int:
            return node.node._works.waiting("coder")

        eventually(lambda: any(map(waiting, both)))
        home, other = sorted(both, key=waiting, reverse=True)
        assert Admin(server).drain(home.name, seconds=600).is_success
        eventually(lambda: (waiting(home), waiting(other)) == (0, 1))
        nodes.go()
        events += third.until_end()
        assert whole(events)
        for socket in (first, second):
            socket.vanish()


def test_a_node_that_was_drained_comes_back_by_word_or_by_a_restart(nodes: Fleet) -> None:
    first, _ = nodes.node(), nodes.node()
    server = linked(nodes)
    admin = Admin(server)
    for name in ("a", "b"):
        assert admin.drain(name).is_success
        admin.until(name, "drained")
        assert admin.drain(name, undo=True).is_success
        admin.until(name, "ready")
    assert admin.drain("a").is_success
    admin.until("a", "drained")
    nodes.restart(first)
    admin.until("a", "ready")


def test_what_cannot_be_drained_is_said_with_what_to_do(nodes: Fleet) -> None:
    nodes.node()
    admin = Admin(linked(nodes))
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


def test_draining_takes_an_admin_key(nodes: Fleet) -> None:
    nodes.node()
    server = linked(nodes)
    asked = {"name": "a"}
    refused = client(server, "ada").post("/fleet/drain", json=asked)
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "admin_key_required")
    assert server.http.post("/fleet/drain", json=asked).status_code == 401
    assert client(server, "ada").get("/fleet").is_success
    assert server.http.get("/fleet").status_code == 401


def test_a_node_process_that_is_told_to_stop_hands_on_what_does_not_end(tmp_path: Path) -> None:
    limits, port = {"drain_seconds": 0.3}, free_port()
    with ExitStack() as stack:
        home = EngineProcess(tmp_path, "a", STALLS, engine=PATIENT, limits=limits)
        stack.enter_context(home)
        urls = (home.url, f"ws://127.0.0.1:{port}")
        server = stack.enter_context(linked_process(tmp_path, *urls, keys=KEYS))
        socket = stack.enter_context(server.socket("ada"))
        socket.create("mark")
        events = until(socket, lambda said: bool(said) and said[-1][0] == BEFORE - 1)
        stack.enter_context(EngineProcess(tmp_path, "b", SCRIPT, port=port, engine=PATIENT))
        Admin(server).until("b", "ready")
        home.process.send_signal(signal.SIGTERM)
        assert home.process.wait() == 0
        events += socket.until_end()
        assert whole(events)
        assert moved_by_draining(server)


# -- gateways -------------------------------------------------------------------------------------


@pytest.fixture
def gateways(
    postgres: Postgres, caplog: pytest.LogCaptureFixture
) -> Iterator[Callable[..., RunningGateway]]:
    """Each has an engine of its own, which stops in the middle of a tale."""
    with ExitStack() as stack:
        fleet = Fleet(stack, postgres.emptied(), REPLIES)

        def started(name: str, **more: Any) -> RunningGateway:
            return fleet.gateway(engines=[OWN], keys=KEYS, fleet={"name": name}, **more)

        yield started
    assert [each for each in caplog.records if each.levelno >= logging.ERROR] == []


def leave(gateway: RunningGateway) -> None:
    """As a process does that is told to stop."""
    gateway.run(gateway.gateway.drain())
    gateway.stop()


def test_a_gateway_that_drains_refuses_new_turns_and_lets_others_end(
    gateways: Callable[..., RunningGateway],
) -> None:
    one, other = gateways("one"), gateways("other")
    admin = Admin(other)
    http = client(one, "ada")
    with ada(one) as socket:
        socket.create("tale", stream_id="f")
        events = _numbered(socket, 20)
        assert admin.drain("one", seconds=600).json() == {"name": "one", "kind": "gateway"}
        eventually(lambda: http.get("/readyz").status_code == 503)
        assert http.get("/readyz").text == "draining\n"
        refused = http.post(RESPONSES, json={"input": "who"})
        assert refused.status_code == 503
        assert refused.json()["error"]["code"] == "server_shutting_down"
        admin.until("one", "draining")
        one.go_on()
        events += socket.until_end()
        assert whole_tale(events)
    admin.until("one", "drained")
    assert admin.drain("one", undo=True).is_success
    eventually(lambda: http.get("/readyz").status_code == 200)
    assert http.post(RESPONSES, json={"input": "who"}).is_success
    admin.until("one", "ready")


def test_what_runs_too_long_at_a_gateway_is_handed_over_though_it_lives(
    gateways: Callable[..., RunningGateway],
) -> None:
    """It would count as dead after ten minutes only."""
    one, other = gateways("one"), gateways("other")
    admin = Admin(one)
    with ada(one) as socket, ada(other) as elsewhere:
        socket.create("tale", background=True, stream_id="b")
        behind = socket.until("response.created")["response"]["id"]
        socket.create("tale", stream_id="f")
        before = socket.until("response.created")["response"]["id"]
        seen = _numbered(socket, 20)
        assert admin.drain("one", seconds=0).is_success
        seen, error = _until_error(socket, seen)
        assert error["error"]["code"] == "server_shutting_down"
        elsewhere.send(
            type="response.resume", response_id=before, starting_after=seen[-1]["sequence_number"]
        )
        eventually(lambda: sum(each.stalled_until > 0 for each in other.engine._requests) == 2)
        other.go_on()
        seen += elsewhere.until_end()
        numbers = [each["sequence_number"] for each in seen]
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
        assert text_of(seen) == " word" * WORDS
    admin.until("one", "drained")
    http = client(other, "ada")

    def ended() -> bool:
        return bool(http.get(f"{RESPONSES}/{behind}").json()["status"] == "completed")

    eventually(ended)
    answer = http.get(f"{RESPONSES}/{behind}").json()
    assert answer["output"][0]["content"][0]["text"] == " word" * WORDS
    events = _streamed(http, behind)
    assert [each["sequence_number"] for each in events] == list(range(len(events)))


def test_a_gateway_process_that_is_told_to_stop_hands_over_its_turns(
    postgres: Postgres, tmp_path: Path
) -> None:
    tables = {
        "store": {"url": postgres.emptied()},
        "fleet": {"heartbeat_seconds": 0.2, "dead_after_seconds": 600},
        "keys": KEYS,
    }
    with ExitStack() as stack:
        servers = []
        for name in ("one", "other"):
            (tmp_path / name).mkdir()
            # The engine of the first one stops for an hour, that of the other for a second.
            script = SCRIPT.replace("seconds = 1 ", "seconds = 3600 ") if name == "one" else SCRIPT
            server = Serve(tmp_path / name, script, drain=0.3, engine=PATIENT, tables=tables)
            servers.append(stack.enter_context(server))
        one, other = servers
        body = {"input": "tale", "background": True}
        response_id = one.http("ada").post(RESPONSES, json=body).json()["id"]
        one.process.send_signal(signal.SIGTERM)
        assert one.process.wait() == 0
        path, there = f"{RESPONSES}/{response_id}", other.http("ada")
        eventually(lambda: there.get(path).json()["status"] == "completed")
        text = there.get(path).json()["output"][0]["content"][0]["text"]
        assert text == " word" * WORDS
        assert one.faults == other.faults == []


def test_what_waits_for_its_client_is_handed_over_by_a_gateway_that_stops(
    gateways: Callable[..., RunningGateway],
) -> None:
    one, other = gateways("one"), gateways("other")
    there = client(other, "ada")
    with ada(one) as socket:
        socket.create("tale", stream_id="f")
        response_id = socket.until("response.created")["response"]["id"]
        seen = _numbered(socket, 20)
        assert Admin(one).drain("one", seconds=0).is_success
        seen, _ = _until_error(socket, seen)
        eventually(lambda: "vivace_takeovers_total 1.0" in there.get("/metrics").text)
    third = gateways("third")
    with ada(third) as elsewhere:
        leave(other)
        after = seen[-1]["sequence_number"]
        elsewhere.send(type="response.resume", response_id=response_id, starting_after=after)
        third.go_on()
        seen += elsewhere.until_end()
        assert seen[-1]["type"] == "response.completed"
        assert text_of(seen) == " word" * WORDS
        assert [each["sequence_number"] for each in seen] == list(range(1, len(seen) + 1))


def test_what_follows_a_steered_turn_is_handed_over_as_any_other(
    gateways: Callable[..., RunningGateway],
) -> None:
    """It is made while its gateway is about to stop."""
    one, other = gateways("one", limits={"drain_seconds": 600}), gateways("other")
    with ada(one) as socket, ada(other) as elsewhere, ThreadPoolExecutor(1) as aside:
        socket.create("tale", stream_id="f")
        first = socket.until("response.created")["response"]["id"]
        socket.until("response.output_text.delta")
        draining = one.gateway.draining
        leaving = aside.submit(one.run, draining.leave(3))
        eventually(lambda: bool(draining.why))
        socket.send(type="response.steer", previous_response_id=first, input="tale")
        socket.until("response.steer.accepted")
        assert socket.until_end()[-1]["response"]["incomplete_details"] == {"reason": "steered"}
        seen, error = _until_error(socket, [])
        assert error["error"]["code"] == "server_shutting_down"
        assert seen[0]["response"]["previous_response_id"] == first
        after = seen[-1]["sequence_number"]
        follower = seen[0]["response"]["id"]
        elsewhere.send(type="response.resume", response_id=follower, starting_after=after)
        other.go_on()
        seen += elsewhere.until_end()
        assert [each["sequence_number"] for each in seen] == list(range(len(seen)))
        assert text_of(seen) == " word" * WORDS
        leaving.result()


def test_what_nobody_can_take_ends_where_it_is(gateways: Callable[..., RunningGateway]) -> None:
    one, _ = gateways("one"), gateways("other")
    admin = Admin(one)
    with ada(one) as socket:
        socket.create("tale", store=False, stream_id="f")
        events = _numbered(socket, 20)
        assert admin.drain("one", seconds=0).is_success
        eventually(lambda: bool(one.gateway.draining.why))
        one.go_on()
        events += socket.until_end()
        assert whole_tale(events)
    admin.until("one", "drained")
    assert admin.drain("other").status_code == 409


def whole_tale(events: list[Event]) -> bool:
    return events[-1]["type"] == "response.completed" and text_of(events) == " word" * WORDS


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

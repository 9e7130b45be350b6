"""Gateways on one PostgreSQL with the same engine nodes: when one dies, another goes on with its
turns, from the word that the engine has come to."""

from __future__ import annotations

import asyncio
import json
import re
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from queue import Queue
from typing import Any

import httpx
import pytest

from tests.support.fleets import KEY, Fleet, Frozen, RunningNode
from tests.support.http import RESPONSES
from tests.support.nodes import KEYED, EngineProcess
from tests.support.postgres import Postgres
from tests.support.process import Serve
from tests.support.server import RunningGateway
from tests.support.socket import Event, Socket
from tests.support.waiting import eventually
from tests.support.witness import TERMINAL
from vivace.engines.scripted import Call, Mark, Reply, Say

LONG, SHORT = 150, 30
OPEN = ("queued", "in_progress")
REPLIES = [
    Reply(when="long", then=(Mark(times=LONG),)),
    Reply(when="endless", then=(Mark(times=1_000_000),)),
    Reply(when="short", then=(Mark(times=SHORT),)),
    Reply(when="items", then=(Mark(times=60), Call("f", "{}"))),
    Reply(when="after", then=(Say("And so it was."),)),
]


@pytest.fixture
def fleet(postgres: Postgres, monkeypatch: pytest.MonkeyPatch) -> Iterator[Fleet]:
    monkeypatch.setenv("VIVACE_FLEET_KEY", KEY)
    with ExitStack() as stack:
        yield Fleet(stack, postgres.database(), REPLIES)


def path(response_id: str) -> str:
    return f"{RESPONSES}/{response_id}"


def text_of(events: list[Event]) -> str:
    return "".join(each["delta"] for each in events if each["type"].endswith("text.delta"))


def words(text: str) -> list[tuple[int, int]]:
    """Which word each is, and on which attempt it was said."""
    found = re.findall(r"m\w+\.(\d+)@[\w-]+\.a(\d)", text)
    return [(int(number), int(attempt)) for number, attempt in found]


def begun(socket: Socket, text: str = "long", count: int = 15, **body: Any) -> list[Event]:
    """The events of a turn that has said some words; those of other lanes are dropped."""
    lane = body.get("stream_id")
    socket.create(text, **body)
    events = list[Event]()
    while sum(each["type"].endswith("text.delta") for each in events) < count:
        if (event := socket.read(30)).get("stream_id") == lane:
            events.append(event)
    return events


def id_of(events: list[Event]) -> str:
    name: str = events[0]["response"]["id"]
    return name


def resume(socket: Socket, events: list[Event], **more: Any) -> None:
    after = events[-1]["sequence_number"]
    socket.send(type="response.resume", response_id=id_of(events), starting_after=after, **more)


def check_whole(events: list[Event], count: int = LONG) -> None:
    """Every event once, every word once, and the end as the words were."""
    assert [each["sequence_number"] for each in events] == [*range(len(events))]
    assert [number for number, _ in words(text_of(events))] == [*range(count)]
    assert events[-1]["type"] == "response.completed"
    response = events[-1]["response"]
    assert response["output"][0]["content"][0]["text"] == text_of(events)
    assert response["usage"]["output_tokens"] == count


def streamed(http: httpx.Client, response_id: str, **query: Any) -> list[str]:
    """As it comes over the wire."""
    params = {"stream": "true"} | query
    with http.stream("GET", path(response_id), params=params) as stream:
        return [line[6:] for line in stream.iter_lines() if line.startswith("data: {")]


def test_a_turn_goes_on_at_another_gateway_when_its_own_is_gone(fleet: Fleet) -> None:
    fleet.node()
    one, other = fleet.gateway(), fleet.gateway()
    with Socket(one.url) as socket, Socket(other.url) as elsewhere:
        events = begun(socket)
        ghost = fleet.freeze(one)
        fleet.bury(one)
        resume(elsewhere, events)
        events += elsewhere.until_end(60)
        check_whole(events)
        assert {attempt for _, attempt in words(text_of(events))} == {1}
        assert other.http.get(path(id_of(events))).json() == events[-1]["response"]
        assert [json.loads(each) for each in streamed(other.http, id_of(events))] == events
        # Who held it before comes back: it was fenced, and has no word for it.
        ghost.thaw()
        while (last := socket.read(60))["type"] != "error":
            assert last == events[last["sequence_number"]]
        assert last["error"]["code"] == "resumed_elsewhere"
        assert one.http.get(path(id_of(events))).json() == events[-1]["response"]


def gone(fleet: Fleet, gateway: RunningGateway) -> Frozen:
    frozen = fleet.freeze(gateway)
    fleet.bury(gateway)
    return frozen


def response(gateway: RunningGateway, response_id: str) -> Event:
    found: Event = gateway.http.get(path(response_id)).json()
    return found


def end_of(gateway: RunningGateway, response_id: str) -> Event:
    eventually(lambda: response(gateway, response_id)["status"] not in OPEN, 60)
    return response(gateway, response_id)


def told_by(gateway: RunningGateway, response_id: str) -> list[Event]:
    return [json.loads(each) for each in streamed(gateway.http, response_id)]


def stopped(node: RunningNode) -> None:
    eventually(lambda: node.node._works.running == 0, 60)


@pytest.mark.parametrize("background", [False, True], ids=["foreground", "background"])
def test_a_turn_that_nobody_asks_for_is_taken_at_a_heartbeat_and_runs_to_its_end(
    fleet: Fleet, background: bool
) -> None:
    fleet.node()
    one, other = fleet.gateway(), fleet.gateway()
    with Socket(one.url) as socket:
        events = begun(socket, background=background)
        gone(fleet, one)
        eventually(lambda: fleet.status(id_of(events)) == "completed", 60)
        told = told_by(other, id_of(events))
        assert told[: len(events)] == events
        check_whole(told)


def test_it_is_steered_and_interrupted_as_any_other(fleet: Fleet) -> None:
    fleet.node()
    one, other = fleet.gateway(), fleet.gateway()
    with Socket(one.url) as socket, Socket(other.url) as elsewhere:
        first = begun(socket, "endless")
        second = begun(socket, "endless", stream_id="b")
        gone(fleet, one)
        resume(elsewhere, first)
        resume(elsewhere, second, stream_id="b")
        elsewhere.until("response.output_text.delta", 60)
        told = other.http.post(f"{path(id_of(second))}/interrupt").json()
        assert told["type"] == "response.interrupt.accepted"
        elsewhere.send(type="response.steer", previous_response_id=id_of(first), input="after all")
        ends = [each for each in elsewhere.until_ends(3, 60) if each["type"] in TERMINAL]
        reasons = {each["response"]["id"]: each["response"]["incomplete_details"] for each in ends}
        assert reasons.pop(id_of(first)) == {"reason": "steered"}
        assert reasons.pop(id_of(second)) == {"reason": "interrupted"}
        [follower] = [each["response"] for each in ends if each["response"]["id"] in reasons]
        assert follower["status"] == "completed"
        assert follower["previous_response_id"] == id_of(first)


def test_an_answer_that_ended_while_nobody_held_it_is_on_record_as_it_ended(fleet: Fleet) -> None:
    node = fleet.node()
    one, other = fleet.gateway(), fleet.gateway()
    with Socket(one.url) as socket:
        events = begun(socket, "short", count=5)
        fleet.freeze(one)
        stopped(node)
        fleet.bury(one)
        end = end_of(other, id_of(events))
        told = told_by(other, id_of(events))
        assert told[: len(events)] == events
        check_whole(told, SHORT)
        assert told[-1]["response"] == end


def test_an_answer_that_its_node_gave_up_goes_on_from_its_last_word(fleet: Fleet) -> None:
    node = fleet.node(rate=20)
    one, other = fleet.gateway(limits={"orphan_seconds": 0.5}), fleet.gateway()
    with Socket(one.url) as socket, Socket(other.url) as elsewhere:
        events = begun(socket)
        fleet.freeze(one)
        stopped(node)
        fleet.bury(one)
        resume(elsewhere, events)
        events += elsewhere.until_end(60)
        check_whole(events)
        assert {attempt for _, attempt in words(text_of(events))} == {1, 2}


@pytest.mark.parametrize("background", [False, True], ids=["foreground", "background"])
def test_without_its_node_what_it_said_is_lost(fleet: Fleet, background: bool) -> None:
    nodes = [fleet.node(), fleet.node()]
    one, other = fleet.gateway(), fleet.gateway()
    with Socket(one.url) as socket:
        events = begun(socket, background=background)
        fleet.freeze(one)
        next(each for each in nodes if each.node._works.running).kill()
        fleet.bury(one)
        end = end_of(other, id_of(events))
        if background:  # it runs again, and no number means two things
            assert end["status"] == "completed"
            told = told_by(other, id_of(events))
            numbers = [each["sequence_number"] for each in told]
            assert numbers == [*range(1_000_000, 1_000_000 + len(told))]
        else:
            assert (end["status"], end["error"]["code"]) == ("failed", "lost_midway")


def test_of_two_that_take_it_at_once_one_has_it(fleet: Fleet) -> None:
    fleet.node()
    one, other, third = fleet.gateway(), fleet.gateway(), fleet.gateway()
    with Socket(one.url) as socket, ExitStack() as stack, ThreadPoolExecutor(2) as many:
        events = begun(socket)
        gone(fleet, one)
        both = [stack.enter_context(Socket(each.url)) for each in (other, third)]

        def rest(socket: Socket) -> list[Event]:
            resume(socket, events)
            return socket.until_end(60)

        told = [*many.map(rest, both)]
        whole = max(told, key=len)
        check_whole(events + whole)
        for each in told:
            if each[-1]["type"] == "error":
                assert each.pop()["error"]["code"] == "resumed_elsewhere"
            assert whole[: len(each)] == each
        assert response(other, id_of(events)) == response(third, id_of(events))


def test_what_an_engine_said_that_died_before_is_taken_along(fleet: Fleet) -> None:
    nodes = [fleet.node(), fleet.node()]
    one, other = fleet.gateway(), fleet.gateway()
    with Socket(one.url) as socket, Socket(other.url) as elsewhere:
        events = begun(socket)
        next(each for each in nodes if each.node._works.running).kill()
        while not {attempt for _, attempt in words(text_of(events))} > {1}:
            events.append(socket.read(60))
        gone(fleet, one)
        resume(elsewhere, events)
        events += elsewhere.until_end(60)
        check_whole(events)
        assert {attempt for _, attempt in words(text_of(events))} == {1, 2}
        assert told_by(other, id_of(events)) == events


def test_what_follows_a_steered_turn_is_taken_as_it_was_told(fleet: Fleet) -> None:
    fleet.node()
    one, other = fleet.gateway(), fleet.gateway()
    with Socket(one.url) as socket, Socket(other.url) as elsewhere:
        first = begun(socket)
        time.sleep(1.1)  # it is created at another second than its record
        socket.send(type="response.steer", previous_response_id=id_of(first), input="long again")
        events = [socket.until("response.created", 60)]
        events += [socket.read(60) for _ in range(10)]
        gone(fleet, one)
        resume(elsewhere, events)
        events += elsewhere.until_end(60)
        check_whole(events)
        assert told_by(other, id_of(events)) == events


def test_what_a_steer_makes_is_not_put_on_record_while_others_may_take_it(fleet: Fleet) -> None:
    """They would take it for one of which something was said that nobody knows."""
    fleet.node()
    one = fleet.gateway()
    away = one.gateway.keeper.presence.away()
    with Socket(one.url) as socket:
        first = begun(socket, "endless")
        one.run(away.__aenter__())
        socket.send(type="response.steer", previous_response_id=id_of(first), input="after all")
        eventually(lambda: not fleet.nodes[0].node._works.running, 30)  # it was stopped
        time.sleep(0.3)
        assert fleet.status(id_of(first)) is None
        one.run(away.__aexit__(None, None, None))
        ends = [socket.until_end(60)[-1]["response"] for _ in range(2)]
        assert [each["status"] for each in ends] == ["incomplete", "completed"]
        assert fleet.status(id_of(first)) == "incomplete"


def test_a_steer_that_waits_for_an_item_waits_on_and_makes_what_was_told(fleet: Fleet) -> None:
    fleet.node()
    one, other = fleet.gateway(), fleet.gateway()
    with Socket(one.url) as socket:
        events = begun(socket, "items", tools=[{"type": "function", "name": "f"}])
        body = {"input": "after all", "when": "item_end"}
        told = one.http.post(f"{path(id_of(events))}/steer", json=body).json()
        assert told["type"] == "response.steer.accepted"
        gone(fleet, one)
        end = end_of(other, id_of(events))
        assert end["incomplete_details"] == {"reason": "steered"}
        [item] = end["output"]
        assert len(words(item["content"][0]["text"])) == 60
        follower = end_of(other, told["successor_id"])
        assert follower["output"][0]["content"][0]["text"] == "And so it was."


def test_one_that_waits_at_a_node_waits_on(fleet: Fleet) -> None:
    fleet.node(slots=1)
    one, other = fleet.gateway(), fleet.gateway()
    with (
        Socket(one.url) as socket,
        Socket(other.url) as busy,
        Socket(other.url) as elsewhere,
    ):
        begun(busy)
        socket.create("short")
        events = [socket.until("response.created", 60), socket.until("response.queued", 60)]
        gone(fleet, one)
        resume(elsewhere, events)
        events += elsewhere.until_end(60)
        check_whole(events, SHORT)
        assert busy.until_end(60)[-1]["type"] == "response.completed"


@pytest.mark.parametrize("how", ["cancel", "interrupt"])
def test_one_that_waits_for_an_engine_is_steered_and_ended_from_anywhere(
    fleet: Fleet, how: str
) -> None:
    node = fleet.node()
    one, other, third = (fleet.gateway() for _ in range(3))
    with Socket(one.url) as socket:
        events = begun(socket, background=True)
        fleet.freeze(one)
        node.kill()
        fleet.bury(one)
        assert response(other, id_of(events))["status"] in OPEN
        began = time.monotonic()
        told = third.http.post(f"{path(id_of(events))}/steer", json={"input": "after all"}).json()
        assert told["type"] == "response.steer.accepted"
        third.http.post(f"{path(id_of(events))}/{how}")
        ends = {"cancel": "cancelled", "interrupt": "incomplete"}
        assert end_of(other, id_of(events))["status"] == ends[how]
        assert time.monotonic() - began < 5


def test_one_that_runs_again_does_not_wait_for_its_limit(fleet: Fleet) -> None:
    nodes = [fleet.node(), fleet.node()]
    limits = {"requests_per_minute": 1}
    tiers = [{"name": "fast", "engines": ["coder"], "limits": limits}]
    one, other = (fleet.gateway(tiers=tiers) for _ in range(2))
    with Socket(one.url) as socket:
        other.http.post(RESPONSES, json={"input": "after"})  # all that it may for a minute
        events = begun(socket, background=True)
        fleet.freeze(one)
        next(each for each in nodes if each.node._works.running).kill()
        fleet.bury(one)
        assert end_of(other, id_of(events))["status"] == "completed"
        refused = other.http.post(RESPONSES, json={"input": "after"})
        assert refused.status_code == 429


def test_who_resumes_does_not_wait_until_a_gateway_counts_as_gone(fleet: Fleet) -> None:
    fleet.node()
    one, other = fleet.gateway(), fleet.gateway()
    with Socket(one.url) as socket, Socket(other.url) as elsewhere:
        events = begun(socket)
        fleet.freeze(one)
        resume(elsewhere, events)
        events += elsewhere.until_end(30)
        check_whole(events)


def test_who_resumes_holds_though_the_other_gateway_lives(fleet: Fleet) -> None:
    fleet.node()
    one, other = fleet.gateway(), fleet.gateway()
    with Socket(one.url) as socket, Socket(other.url) as elsewhere:
        events = begun(socket)
        resume(elsewhere, events)
        events += [elsewhere.read(60) for _ in range(10)]
        assert response(one, id_of(events))["status"] == "in_progress"
        while (last := socket.read(60))["type"] != "error":
            pass
        assert last["error"]["code"] == "resumed_elsewhere"
        resume(socket, events)
        events += socket.until_end(60)
        check_whole(events)
        while (last := elsewhere.read(60))["type"] != "error":
            pass
        assert last["error"]["code"] == "resumed_elsewhere"
        assert response(other, id_of(events)) == events[-1]["response"]
    for gateway in (one, other):
        assert gateway.gateway.keeper.open == {}


@pytest.mark.parametrize("way", ["read", "begun"])
def test_who_reads_a_turn_over_http_is_told_all_of_it_though_it_moves(
    fleet: Fleet, way: str
) -> None:
    fleet.node()
    one, other = fleet.gateway(), fleet.gateway()
    with Socket(one.url) as socket, Socket(other.url) as elsewhere, ThreadPoolExecutor(1) as aside:
        if way == "read":
            events = begun(socket)
            reading = aside.submit(told_by, one, id_of(events))
        else:
            names: Queue[Event] = Queue()
            reading = aside.submit(_begun_over_http, one, names)
            events = [names.get(timeout=30)]
        time.sleep(0.3)
        resume(elsewhere, events)
        events += elsewhere.until_end(60)
        check_whole(events)
        assert reading.result(30) == events


def _begun_over_http(gateway: RunningGateway, names: Queue[Event]) -> list[Event]:
    """The events of a turn in the background, of which ``names`` gets the first at once."""
    events = list[Event]()
    body = {"input": "long", "background": True, "stream": True}
    with gateway.http as http, http.stream("POST", RESPONSES, json=body) as stream:
        for line in stream.iter_lines():
            if line.startswith("data: {"):
                events.append(json.loads(line[6:]))
                if len(events) == 1:
                    names.put(events[0])
    return events


def test_who_reads_over_http_is_told_when_the_turn_begins_anew(fleet: Fleet) -> None:
    nodes = [fleet.node(), fleet.node()]
    one, other = fleet.gateway(), fleet.gateway()
    with Socket(one.url) as socket, ThreadPoolExecutor(1) as aside:
        events = begun(socket, background=True)
        reading = aside.submit(told_by, one, id_of(events))
        time.sleep(0.3)
        frozen = fleet.freeze(one)
        next(each for each in nodes if each.node._works.running).kill()
        fleet.bury(one)
        assert response(other, id_of(events))["status"] in OPEN
        frozen.thaw()
        *told, last = reading.result(60)
        assert [each["sequence_number"] for each in told] == [*range(len(told))]
        assert (last["type"], last["error"]["code"]) == ("error", "lost_midway")
        assert end_of(other, id_of(events))["status"] == "completed"


def test_who_takes_much_over_is_not_taken_for_dead_meanwhile(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet.node()
    times = {"heartbeat_seconds": 0.5, "dead_after_seconds": 2}
    one, other, _ = (fleet.gateway(fleet=times) for _ in range(3))
    take = other.gateway.fleet.take

    async def slow(*given: Any) -> Any:
        await asyncio.sleep(4)
        return await take(*given)

    monkeypatch.setattr(other.gateway.fleet, "take", slow)
    with Socket(one.url) as lost, Socket(other.url) as socket:
        left, events = begun(lost, "endless"), begun(socket, "endless")
        gone(fleet, one)
        assert response(other, id_of(left))["status"] in OPEN
        until = time.monotonic() + 1
        while time.monotonic() < until:
            events.append(socket.read(30))
        assert "error" not in {each["type"] for each in events}


@pytest.mark.parametrize("how", ["killed", "frozen"])
def test_a_node_that_is_lost_while_its_turn_moves_costs_no_word(
    fleet: Fleet, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes = [fleet.node(), fleet.node()]
    one, other = fleet.gateway(), fleet.gateway()
    asked = other.gateway.fleet.has

    async def has(turn: str, attempt: int) -> bool:
        """It says yes, and nothing after that."""
        found = await asked(turn, attempt)
        node = next(each for each in nodes if each.node._works.running)
        await asyncio.to_thread(node.kill if how == "killed" else partial(fleet.stop, node))
        return found

    with Socket(one.url) as socket, Socket(other.url) as elsewhere:
        events = begun(socket)
        monkeypatch.setattr(other.gateway.fleet, "has", has)
        resume(elsewhere, events)
        events += elsewhere.until_end(60)
        check_whole(events)
        assert {attempt for _, attempt in words(text_of(events))} == {1, 2}
        assert response(one, id_of(events)) == events[-1]["response"]


# -- processes ------------------------------------------------------------------------------------


def test_a_gateway_that_is_killed_costs_a_moment(postgres: Postgres, tmp_path: Path) -> None:
    tables = {
        "engines": [],
        "tiers": [{"name": "fast", "engines": ["coder"]}],
        "store": {"url": postgres.database()},
    }
    script = f'[[replies]]\nthen = [{{ do = "mark", times = {LONG * 2} }}]\n'
    with EngineProcess(tmp_path, "a", script, rate=100) as node, ExitStack() as stack:
        # Who asks for it does not wait until its gateway counts as gone.
        patient = {"heartbeat_seconds": 0.5, "dead_after_seconds": 60, "engines": [node.url]}
        servers = []
        for name in ("one", "other"):
            (tmp_path / name).mkdir()
            server = Serve(
                tmp_path / name,
                tables=tables | {"fleet": patient},
                environment=KEYED,
                patience=60,
            )
            servers.append(stack.enter_context(server))
        one, other = servers
        socket, elsewhere = (stack.enter_context(Socket(each.url)) for each in servers)
        events = begun(socket)
        one.process.kill()
        died, late = time.monotonic(), 0.0
        resume(elsewhere, events)
        while events[-1]["type"] not in TERMINAL | {"error"}:
            events.append(elsewhere.read(60))
            if not late and events[-1]["type"].endswith("text.delta"):
                late = time.monotonic() - died
        sys.stdout.write(f"\nfrom the kill to the next new word: {late * 1000:.0f} ms\n")
        assert events[-1]["type"] == "response.completed", events[-1]
        check_whole(events, LONG * 2)
        assert other.faults == []
        socket.vanish()

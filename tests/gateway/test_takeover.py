"""Gateways on one PostgreSQL with the same engine nodes: when one dies, another goes on with its
turns, from the word that the engine has come to.

Engines stop at a word of each answer until the test lets them go on (``tests.support.fleets``), so
an answer is under way when its gateway is lost, however slow the machine is.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import re
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from queue import Queue
from types import SimpleNamespace
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
from tests.support.waiting import PATIENCE_S, eventually, eventually_async
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
        yield Fleet(stack, postgres.emptied(), REPLIES)


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
    while len(words(text_of(events))) < count:
        if (event := socket.read()).get("stream_id") == lane:
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
        fleet.go()
        events += elsewhere.until_end()
        check_whole(events)
        assert {attempt for _, attempt in words(text_of(events))} == {1}
        assert other.http.get(path(id_of(events))).json() == events[-1]["response"]
        assert [json.loads(each) for each in streamed(other.http, id_of(events))] == events
        # Who held it before comes back: it was fenced, and has no word for it.
        ghost.thaw()
        while (last := socket.read())["type"] != "error":
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
    eventually(lambda: response(gateway, response_id)["status"] not in OPEN)
    return response(gateway, response_id)


def told_by(gateway: RunningGateway, response_id: str) -> list[Event]:
    return [json.loads(each) for each in streamed(gateway.http, response_id)]


def stopped(node: RunningNode) -> None:
    eventually(lambda: not node.running)


@pytest.mark.parametrize("background", [False, True], ids=["foreground", "background"])
def test_a_turn_that_nobody_asks_for_is_taken_at_a_heartbeat_and_runs_to_its_end(
    fleet: Fleet, background: bool
) -> None:
    fleet.node()
    one, other = fleet.gateway(), fleet.gateway()
    with Socket(one.url) as socket:
        events = begun(socket, background=background)
        gone(fleet, one)
        socket.vanish()
        fleet.go()
        eventually(lambda: fleet.status(id_of(events)) == "completed")
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
        socket.vanish()
        resume(elsewhere, first)
        resume(elsewhere, second, stream_id="b")
        fleet.go(held_at=40)
        elsewhere.until("response.output_text.delta")
        told = other.http.post(f"{path(id_of(second))}/interrupt").json()
        assert told["type"] == "response.interrupt.accepted"
        elsewhere.send(type="response.steer", previous_response_id=id_of(first), input="after all")
        ends = [each for each in elsewhere.until_ends(3) if each["type"] in TERMINAL]
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
        socket.vanish()
        fleet.go()
        stopped(node)
        fleet.bury(one)
        end = end_of(other, id_of(events))
        told = told_by(other, id_of(events))
        assert told[: len(events)] == events
        check_whole(told, SHORT)
        assert told[-1]["response"] == end


def test_an_answer_that_its_node_gave_up_goes_on_from_its_last_word(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vivace.engines.remote._PATIENCE", 0.1)  # of nodes, with a gone gateway
    node = fleet.node()
    one, other = fleet.gateway(limits={"orphan_seconds": 0.1}), fleet.gateway()
    with Socket(one.url) as socket, Socket(other.url) as elsewhere:
        events = begun(socket)
        fleet.freeze(one)
        socket.vanish()
        fleet.cut_off(one)
        stopped(node)
        fleet.bury(one)
        resume(elsewhere, events)
        fleet.go()
        events += elsewhere.until_end()
        check_whole(events)
        assert {attempt for _, attempt in words(text_of(events))} == {1, 2}


@pytest.mark.parametrize("background", [False, True], ids=["foreground", "background"])
def test_without_its_node_what_it_said_is_lost(fleet: Fleet, background: bool) -> None:
    for _ in range(2):
        fleet.node()
    one, other = fleet.gateway(), fleet.gateway()
    with Socket(one.url) as socket:
        events = begun(socket, background=background)
        fleet.freeze(one)
        socket.vanish()
        fleet.at_work().kill()
        fleet.bury(one)
        fleet.go()
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
        socket.vanish()
        both = [stack.enter_context(Socket(each.url)) for each in (other, third)]

        def rest(socket: Socket) -> list[Event]:
            resume(socket, events)
            return socket.until_end()

        fleet.go()
        told = [*many.map(rest, both)]
        whole = max(told, key=len)
        check_whole(events + whole)
        for each in told:
            if each[-1]["type"] == "error":
                assert each.pop()["error"]["code"] == "resumed_elsewhere"
            assert whole[: len(each)] == each
        assert response(other, id_of(events)) == response(third, id_of(events))


def test_what_an_engine_said_that_died_before_is_taken_along(fleet: Fleet) -> None:
    for _ in range(2):
        fleet.node()
    one, other = fleet.gateway(), fleet.gateway()
    with Socket(one.url) as socket, Socket(other.url) as elsewhere:
        events = begun(socket)
        fleet.at_work().kill()
        while not {attempt for _, attempt in words(text_of(events))} > {1}:
            events.append(socket.read())
        gone(fleet, one)
        socket.vanish()
        resume(elsewhere, events)
        fleet.go()
        events += elsewhere.until_end()
        check_whole(events)
        assert {attempt for _, attempt in words(text_of(events))} == {1, 2}
        assert told_by(other, id_of(events)) == events


def test_what_follows_a_steered_turn_is_taken_as_it_was_told(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = itertools.count(int(time.time()))  # it is created at another than its record
    clock = SimpleNamespace(time=lambda: next(seconds), time_ns=time.time_ns)
    monkeypatch.setattr("vivace.gateway.ids.time", clock)
    fleet.node()
    one, other = fleet.gateway(), fleet.gateway()
    with Socket(one.url) as socket, Socket(other.url) as elsewhere:
        first = begun(socket)
        socket.send(type="response.steer", previous_response_id=id_of(first), input="long again")
        events = [socket.until("response.created")]
        events += [socket.read() for _ in range(10)]
        gone(fleet, one)
        socket.vanish()
        resume(elsewhere, events)
        fleet.go()
        events += elsewhere.until_end()
        check_whole(events)
        assert told_by(other, id_of(events)) == events


def test_what_a_steer_makes_is_not_put_on_record_while_others_may_take_it(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They would take it for one of which something was said that nobody knows."""
    fleet.node()
    one = fleet.gateway()
    presence = one.gateway.keeper.presence
    away, back, waits = presence.away(), presence.back, threading.Event()

    async def waiting() -> None:
        waits.set()
        await back()

    monkeypatch.setattr(presence, "back", waiting)
    with Socket(one.url) as socket:
        first = begun(socket, "endless")
        one.run(away.__aenter__())
        socket.send(type="response.steer", previous_response_id=id_of(first), input="after all")
        stopped(fleet.nodes[0])
        assert waits.wait(PATIENCE_S)
        assert fleet.status(id_of(first)) is None
        one.run(away.__aexit__(None, None, None))
        ends = [socket.until_end()[-1]["response"] for _ in range(2)]
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
        socket.vanish()
        assert response(other, id_of(events))["status"] in OPEN  # while its engine works on it
        fleet.go()
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
        events = [socket.until("response.created"), socket.until("response.queued")]
        gone(fleet, one)
        socket.vanish()
        resume(elsewhere, events)
        fleet.go()
        events += elsewhere.until_end()
        check_whole(events, SHORT)
        assert busy.until_end()[-1]["type"] == "response.completed"


@pytest.mark.parametrize("how", ["cancel", "interrupt"])
def test_one_that_waits_for_an_engine_is_steered_and_ended_from_anywhere(
    fleet: Fleet, how: str
) -> None:
    node = fleet.node()
    one, other, third = (fleet.gateway() for _ in range(3))
    with Socket(one.url) as socket:
        events = begun(socket, background=True)
        fleet.freeze(one)
        socket.vanish()
        node.kill()
        fleet.bury(one)
        assert response(other, id_of(events))["status"] in OPEN
        told = third.http.post(f"{path(id_of(events))}/steer", json={"input": "after all"}).json()
        assert told["type"] == "response.steer.accepted"
        third.http.post(f"{path(id_of(events))}/{how}")
        ends = {"cancel": "cancelled", "interrupt": "incomplete"}
        assert end_of(other, id_of(events))["status"] == ends[how]


def test_one_that_runs_again_does_not_wait_for_its_limit(fleet: Fleet) -> None:
    for _ in range(2):
        fleet.node()
    limits = {"requests_per_minute": 1}
    tiers = [{"name": "fast", "engines": ["coder"], "limits": limits}]
    one, other = (fleet.gateway(tiers=tiers) for _ in range(2))
    with Socket(one.url) as socket:
        other.http.post(RESPONSES, json={"input": "after"})  # all that it may for a minute
        events = begun(socket, background=True)
        fleet.freeze(one)
        socket.vanish()
        fleet.at_work().kill()
        fleet.bury(one)
        fleet.go()
        assert end_of(other, id_of(events))["status"] == "completed"
        refused = other.http.post(RESPONSES, json={"input": "after"})
        assert refused.status_code == 429


def test_who_resumes_does_not_wait_until_a_gateway_counts_as_gone(fleet: Fleet) -> None:
    fleet.node()
    one, other = fleet.gateway(), fleet.gateway()
    with Socket(one.url) as socket, Socket(other.url) as elsewhere:
        events = begun(socket)
        fleet.freeze(one)
        socket.vanish()
        resume(elsewhere, events)
        fleet.go()
        events += elsewhere.until_end()
        check_whole(events)


def test_who_resumes_holds_though_the_other_gateway_lives(fleet: Fleet) -> None:
    fleet.node()
    one, other = fleet.gateway(), fleet.gateway()
    with Socket(one.url) as socket, Socket(other.url) as elsewhere:
        events = begun(socket)
        resume(elsewhere, events)
        fleet.go(held_at=60)
        while len(words(text_of(events))) < 50:
            events.append(elsewhere.read())
        assert response(one, id_of(events))["status"] == "in_progress"
        while (last := socket.read())["type"] != "error":
            pass
        assert last["error"]["code"] == "resumed_elsewhere"
        resume(socket, events)
        fleet.go()
        events += socket.until_end()
        check_whole(events)
        while (last := elsewhere.read())["type"] != "error":
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
        told = Queue[Event]()
        if way == "read":
            events = begun(socket)
            reading = aside.submit(_streamed, one, told, "GET", path(id_of(events)))
            told.get()
        else:
            reading = aside.submit(_streamed, one, told, "POST", RESPONSES)
            events = [told.get()]
        resume(elsewhere, events)
        fleet.go()
        events += elsewhere.until_end()
        check_whole(events)
        assert reading.result() == events


def _streamed(gateway: RunningGateway, told: Queue[Event], method: str, url: str) -> list[Event]:
    """The events of a turn over HTTP, which ``told`` gets as they come."""
    events = list[Event]()
    given: dict[str, Any] = {"params": {"stream": "true"}}
    if method == "POST":
        given = {"json": {"input": "long", "background": True, "stream": True}}
    with gateway.http as http, http.stream(method, url, **given) as stream:
        for line in stream.iter_lines():
            if line.startswith("data: {"):
                events.append(json.loads(line[6:]))
                told.put(events[-1])
    return events


def test_who_reads_over_http_is_told_when_the_turn_begins_anew(fleet: Fleet) -> None:
    for _ in range(2):
        fleet.node()
    one, other = fleet.gateway(), fleet.gateway()
    with Socket(one.url) as socket, ThreadPoolExecutor(1) as aside:
        events = begun(socket, background=True)
        came = Queue[Event]()
        reading = aside.submit(_streamed, one, came, "GET", path(id_of(events)))
        came.get()
        frozen = fleet.freeze(one)
        socket.vanish()
        fleet.at_work().kill()
        fleet.bury(one)
        assert response(other, id_of(events))["status"] in OPEN
        frozen.thaw()
        *told, last = reading.result()
        assert [each["sequence_number"] for each in told] == [*range(len(told))]
        assert (last["type"], last["error"]["code"]) == ("error", "lost_midway")
        fleet.go()
        assert end_of(other, id_of(events))["status"] == "completed"


def test_who_takes_much_over_is_not_taken_for_dead_meanwhile(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet.node()
    one, other = fleet.gateway(), fleet.gateway()
    take, beat, beats = other.gateway.fleet.take, other.gateway.keeper.store.beat, list[str]()

    async def slow(*given: Any) -> Any:
        before = len(beats)
        await eventually_async(lambda: len(beats) >= before + 3)
        return await take(*given)

    async def counted(*given: Any) -> Any:
        beats.append(given[0])
        return await beat(*given)

    monkeypatch.setattr(other.gateway.fleet, "take", slow)
    monkeypatch.setattr(other.gateway.keeper.store, "beat", counted, raising=False)
    with Socket(one.url) as lost, Socket(other.url) as socket:
        left, events = begun(lost, "endless"), begun(socket, "endless")
        gone(fleet, one)
        lost.vanish()
        assert response(other, id_of(left))["status"] in OPEN
        assert len(beats) >= 3
        fleet.go(held_at=60)
        while len(words(text_of(events))) < 60:
            events.append(socket.read())
        assert "error" not in {each["type"] for each in events}


@pytest.mark.parametrize("how", ["killed", "frozen"])
def test_a_node_that_is_lost_while_its_turn_moves_costs_no_word(
    fleet: Fleet, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(2):
        fleet.node()
    one, other = fleet.gateway(), fleet.gateway()
    asked, found, lost = other.gateway.fleet.has, list[RunningNode](), threading.Event()

    async def has(turn: str, attempt: int) -> bool:
        """Have the node say yes, and nothing after that."""
        answer = await asked(turn, attempt)
        if found:
            return answer
        found.append(node := fleet.at_work())
        await asyncio.to_thread(node.kill if how == "killed" else partial(fleet.stop, node))
        lost.set()
        return answer

    with Socket(one.url) as socket, Socket(other.url) as elsewhere:
        events = begun(socket)
        monkeypatch.setattr(other.gateway.fleet, "has", has)
        resume(elsewhere, events)
        assert lost.wait(PATIENCE_S)
        fleet.go()
        events += elsewhere.until_end()
        check_whole(events)
        # The gateway that had the turn may have begun an attempt when it missed the node, too.
        assert {attempt for _, attempt in words(text_of(events))} > {1}
        assert response(one, id_of(events)) == events[-1]["response"]


# -- processes ------------------------------------------------------------------------------------


def test_a_turn_of_a_killed_gateway_process_goes_on_at_another(
    postgres: Postgres, tmp_path: Path
) -> None:
    tables = {
        "engines": [],
        "tiers": [{"name": "fast", "engines": ["coder"]}],
        "store": {"url": postgres.emptied()},
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
            )
            servers.append(stack.enter_context(server))
        one, other = servers
        socket, elsewhere = (stack.enter_context(Socket(each.url)) for each in servers)
        events = begun(socket)
        one.process.kill()
        resume(elsewhere, events)
        events += elsewhere.until_end()
        check_whole(events, LONG * 2)
        assert other.faults == []
        socket.vanish()

"""Turns that are come back to: read again from any event on, over HTTP, or taken to another
connection while they run."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from tests.support.http import RESPONSES, bearer, keys, said, sse
from tests.support.server import RunningGateway, configuration
from tests.support.socket import Socket
from tests.support.waiting import eventually
from vivace.engines.scripted import Act, Call, Reply, Say, Stall, Think
from vivace.gateway.resuming import moving
from vivace.gateway.resuming.records import LogRecord

TOOL = {"type": "function", "name": "f", "parameters": {"type": "object"}}
ANSWERS: dict[str, tuple[Act, ...]] = {
    "text": (Say("one two three"),),
    "reasoning": (Think("Hm, well."), Say("so be it")),
    "calls": (Say("Look:"), Call("f", '{"a": 1}'), Call("f", "{}")),
}
SLOW = (Say("early "), Stall(600), Say("late"))
"""Until the gateway is told to ``go_on``."""


@pytest.fixture
def http(gateway: RunningGateway) -> Iterator[httpx.Client]:
    with gateway.http as client:
        yield client


def raw(http: httpx.Client, response_id: str, after: int = -1) -> bytes:
    query = {"stream": "true"} | ({"starting_after": str(after)} if after >= 0 else {})
    answer = http.get(f"{RESPONSES}/{response_id}", params=query)
    assert answer.status_code == 200, answer.text
    return answer.content


def split(stream: bytes) -> list[bytes]:
    return [event + b"\n\n" for event in stream.split(b"\n\n")[:-1]]


def ask(http: httpx.Client, acts: str = "text", **body: Any) -> bytes:
    asked = {"input": acts, "tools": [TOOL], "stream": True, **body}
    answer = http.post(RESPONSES, json=asked)
    assert answer.status_code == 200, answer.text
    return answer.content


def id_in(stream: bytes) -> str:
    created = next(sse(stream.decode().splitlines()))
    response_id: str = created["response"]["id"]
    return response_id


def begin(socket: Socket, **body: Any) -> tuple[str, list[dict[str, Any]]]:
    """A turn of which the first word has come; its id, and its events so far."""
    socket.create("x", **body)
    events = [socket.read()]
    while events[-1]["type"] != "response.output_text.delta":
        events.append(socket.read())
    return events[0]["response"]["id"], events


def resume(socket: Socket, response_id: str, after: int | None = None, **more: Any) -> None:
    after_which = {} if after is None else {"starting_after": after}
    socket.send(type="response.resume", response_id=response_id, **after_which, **more)


def text_in(events: list[dict[str, Any]]) -> str:
    return "".join(each["delta"] for each in events if each["type"].endswith("text.delta"))


def without_lane(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: each[name] for name in each if name != "stream_id"} for each in events]


# -- over HTTP ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ANSWERS)
@pytest.mark.parametrize("background", [False, True])
def test_whoever_breaks_off_after_any_event_gets_the_rest_byte_for_byte(
    gateway: RunningGateway, http: httpx.Client, kind: str, background: bool
) -> None:
    gateway.engine.play([Reply(then=ANSWERS[kind])])
    whole = ask(http, kind, background=background)
    response_id, events = id_in(whole), split(whole)
    assert raw(http, response_id) == whole
    for number in range(len(events) - 1):
        assert b"".join(events[: number + 1]) + raw(http, response_id, number) == whole


@pytest.mark.parametrize("word", ["interrupt", "steer", "cancel"])
def test_it_is_so_too_when_somebody_ended_it(
    gateway: RunningGateway, http: httpx.Client, word: str
) -> None:
    gateway.engine.play(
        [Reply(when="y", then=(Say("after"),)), Reply(then=(Say("a b"), Stall(60)))]
    )
    with http.stream("POST", RESPONSES, json={"input": "x", "stream": True}) as answer:
        chunks = answer.iter_bytes()
        whole = next(chunks)
        while b"output_text.delta" not in whole:
            whole += next(chunks)
        response_id = id_in(whole)
        body = {"input": "y"} if word == "steer" else None
        assert gateway.http.post(f"{RESPONSES}/{response_id}/{word}", json=body).is_success
        whole += b"".join(chunks)
    own = whole.split(b"event: response.created")
    first = b"event: response.created" + own[1]
    if word == "steer":  # the receipt is no event of the response
        first = b"".join(each for each in split(first) if b'"response.steer.' not in each)
    first = first.removesuffix(b"data: [DONE]\n\n")
    events = split(first)
    for where in ("memory", "store"):
        for number in range(len(events)):
            told = raw(http, response_id, number).removesuffix(b"data: [DONE]\n\n")
            assert b"".join(events[: number + 1]) + told == first, where
        if where == "memory":
            forget(gateway, response_id)


def test_it_can_be_read_while_another_is_told_it(
    gateway: RunningGateway, http: httpx.Client
) -> None:
    gateway.engine.play([Reply(when="^x$", then=SLOW)])
    with Socket(gateway.url) as socket:
        response_id, events = begin(socket)
        with ThreadPoolExecutor(1) as aside:
            reading = aside.submit(raw, http, response_id, events[-1]["sequence_number"])
            eventually(lambda: is_read(gateway, response_id))
            gateway.go_on()
            rest = reading.result()
        events += socket.until_end()
    assert list(sse(rest.decode().splitlines())) == events[-len(split(rest)) + 1 :]
    assert text_in(events) == "early late"


def is_read(gateway: RunningGateway, response_id: str) -> bool:
    """Whether a client reads it over HTTP."""

    async def readers() -> int:
        record = await gateway.gateway.archive.events.find(response_id, "local")
        assert isinstance(record, LogRecord)
        return record._readers

    return gateway.run(readers()) > 0


def forget(gateway: RunningGateway, response_id: str) -> None:
    """As after a restart: only the store has it."""

    async def gone() -> None:
        assert await gateway.gateway.archive.events.delete(response_id, "local")

    gateway.run(gone())


@pytest.mark.parametrize("kind", ANSWERS)
def test_one_that_is_in_no_memory_any_more_is_told_from_the_store(
    gateway: RunningGateway, http: httpx.Client, kind: str
) -> None:
    gateway.engine.play([Reply(then=ANSWERS[kind])])
    whole = ask(http, kind)
    response_id, events = id_in(whole), split(whole)
    forget(gateway, response_id)
    for number in range(-1, len(events) - 1):
        assert b"".join(events[: number + 1]) + raw(http, response_id, number) == whole
    with Socket(gateway.url) as socket:
        resume(socket, response_id, 3, stream_id="a")
        told = socket.until_end()
    assert {event["stream_id"] for event in told} == {"a"}
    assert without_lane(told) == list(sse(whole.decode().splitlines()))[4:]


def test_of_one_that_was_stored_without_its_cuts_it_says_so(
    gateway: RunningGateway, http: httpx.Client
) -> None:
    response_id = http.post(RESPONSES, json={"input": "x"}).json()["id"]

    async def as_an_older_version_had_it() -> None:
        archive = gateway.gateway.archive
        stored = await archive._store.load(response_id, "local")
        assert stored is not None
        await archive._store.save(stored)
        await archive.events.delete(response_id, "local")

    gateway.run(as_an_older_version_had_it())
    answer = http.get(f"{RESPONSES}/{response_id}", params={"stream": "true"})
    assert answer.status_code == 404
    assert "Retrieve it without stream" in answer.json()["error"]["message"]


def test_nobody_reads_or_takes_anothers() -> None:
    config = configuration(keys=keys("ada", "bob"))
    with RunningGateway([Reply(when="^x$", then=SLOW)], config=config) as gateway:
        with Socket(gateway.url, bearer("ada")) as ada, Socket(gateway.url, bearer("bob")) as bob:
            response_id, _ = begin(ada)
            resume(bob, response_id)
            assert bob.read()["error"]["code"] == "response_not_found"
            gateway.go_on()
            assert ada.until_end()[-1]["type"] == "response.completed"
            resume(bob, response_id)
            assert bob.read()["error"]["code"] == "response_not_found"
        query = {"stream": "true"}
        answer = gateway.http.get(f"{RESPONSES}/{response_id}", params=query, headers=bearer("bob"))
        assert answer.status_code == 404


# -- over the WebSocket ---------------------------------------------------------------------------


def resumed(socket: Socket, response_id: str) -> list[dict[str, Any]]:
    resume(socket, response_id)
    return socket.until_end()


@pytest.mark.parametrize("lane", [None, "b"])
def test_a_running_turn_goes_on_where_it_is_resumed(
    gateway: RunningGateway, lane: str | None
) -> None:
    gateway.engine.play([Reply(when="^x$", then=SLOW)])
    named = {} if lane is None else {"stream_id": lane}
    with Socket(gateway.url) as old, Socket(gateway.url) as new:
        response_id, events = begin(old, stream_id="a")
        resume(new, response_id, events[-1]["sequence_number"], **named)
        told = old.until_end()[-1]
        assert (told["error"]["code"], told["stream_id"]) == ("resumed_elsewhere", "a")
        gateway.go_on()
        rest = new.until_end()
        assert {event.get("stream_id") for event in rest} == {lane}
        whole = events + rest
        assert [event["sequence_number"] for event in whole] == list(range(len(whole)))
        assert text_in(whole) == said(whole[-1]["response"]) == "early late"
        assert old.turn("again", stream_id="a")["type"] == "response.completed"
        after = new.turn("more", previous_response_id=response_id, **named)
        assert after["response"]["previous_response_id"] == response_id


def test_who_claims_to_have_seen_what_was_not_said_is_told_so_and_does_not_take_it(
    gateway: RunningGateway,
) -> None:
    gateway.engine.play([Reply(when="^x$", then=SLOW)])
    with Socket(gateway.url) as old, Socket(gateway.url) as new:
        response_id, events = begin(old)
        resume(new, response_id, 10_000)
        error = new.read()["error"]
        assert (error["code"], error["param"]) == ("invalid_value", "starting_after")
        assert "the last so far is" in error["message"]
        gateway.go_on()
        assert text_in(events + old.until_end()) == "early late"
        assert new.turn("the lane is free")["type"] == "response.completed"


def test_of_two_that_take_it_at_once_one_has_it_and_the_other_knows(
    gateway: RunningGateway,
) -> None:
    gateway.engine.play([Reply(when="^x$", then=SLOW)])
    with (
        Socket(gateway.url) as old,
        Socket(gateway.url) as one,
        Socket(gateway.url) as two,
        ThreadPoolExecutor(2) as pool,
    ):
        response_id, _ = begin(old)
        reading = [pool.submit(resumed, socket, response_id) for socket in (one, two)]
        ends = [old.until_end()]
        wait(reading, return_when=FIRST_COMPLETED)  # the one that it was taken from again
        gateway.go_on()
        ends += [each.result() for each in reading]
    outcomes = [events[-1].get("error", {}).get("code") for events in ends]
    assert sorted(map(str, outcomes)) == ["None", "resumed_elsewhere", "resumed_elsewhere"]
    assert outcomes[0] == "resumed_elsewhere"
    assert text_in(ends[outcomes.index(None)]) == "early late"


def test_who_resumes_it_where_it_runs_is_told_again_and_what_waits_there_waits_on(
    gateway: RunningGateway,
) -> None:
    gateway.engine.play([Reply(when="x", then=SLOW), Reply(then=(Say("second"),))])
    with Socket(gateway.url) as socket:
        response_id, events = begin(socket)
        socket.create("more")
        resume(socket, response_id)
        eventually(lambda: gateway.witness.received == 3)
        gateway.go_on()
        told = socket.until_end()
        again = told[told.index(events[0]) :]  # behind what was on its way
        assert [each["sequence_number"] for each in again] == list(range(len(again)))
        assert text_in(again) == "early late"
        assert text_in(socket.until_end()) == "second"
        connections: list[Any] = [*gateway.gateway.runner._connections]
        eventually(lambda: all(each._session.idle for each in connections))


@pytest.mark.parametrize("word", ["interrupt", "steer"])
def test_who_has_resumed_it_steers_and_interrupts_it(gateway: RunningGateway, word: str) -> None:
    gateway.engine.play([Reply(when="y", then=(Say("after"),)), Reply(then=(Say("a "), Stall(60)))])
    with Socket(gateway.url) as old, Socket(gateway.url) as new:
        response_id, _ = begin(old)
        resume(new, response_id)
        new.until("response.output_text.delta")
        if word == "interrupt":
            new.send(type="response.interrupt", response_id=response_id)
            assert new.until("response.interrupt.accepted")["response_id"] == response_id
        else:
            new.send(type="response.steer", previous_response_id=response_id, input="y")
            new.until("response.steer.accepted")
        end = new.until_end()[-1]["response"]
        assert end["incomplete_details"]["reason"] == f"{word}ed"
        if word == "steer":
            assert said(new.until_end()[-1]["response"]) == "after"
    eventually(lambda: gateway.engine.running() == 0)


def test_a_client_that_takes_nothing_does_not_hold_up_who_resumes() -> None:
    lump = " " * 180_000
    config = configuration(engine={"rate": 20_000})
    with RunningGateway(config=config) as gateway:
        gateway.engine.play([Reply(then=(Say(lump, times=40), Say("end")))])
        with Socket(gateway.url, receive_buffer=4096) as stuck, Socket(gateway.url) as new:
            stuck.create("x")
            response_id = stuck.read()["response"]["id"]
            eventually(lambda: bool(gateway.gateway.connections._unread))
            resume(new, response_id)
            events = new.until_end()
            stuck.vanish()
    assert text_in(events) == lump * 40 + "end"


def test_one_that_has_ended_is_told_from_where_its_reader_was(gateway: RunningGateway) -> None:
    with Socket(gateway.url) as old, Socket(gateway.url) as new:
        old.create("x")
        events = old.until_end()
        response_id = events[0]["response"]["id"]
        for number in range(len(events) - 1):
            resume(new, response_id, number)
            assert new.until_end() == events[number + 1 :]
        for number in (len(events) - 1, len(events) + 5):  # who knows it all, or more than that
            resume(new, response_id, number)
            assert new.until_end() == events[-1:]


@pytest.mark.parametrize("seen", ["nothing", "all"])
def test_who_comes_back_to_a_steered_turn_gets_what_follows_it(
    gateway: RunningGateway, seen: str
) -> None:
    gateway.engine.play([Reply(when="y", then=SLOW), Reply(then=(Say("a "), Stall(60)))])
    with Socket(gateway.url) as old, Socket(gateway.url) as new:
        response_id, _ = begin(old)
        old.send(type="response.steer", previous_response_id=response_id, input="y")
        end = old.until_end()[-1]
        resume(new, response_id, end["sequence_number"] if seen == "all" else None)
        eventually(lambda: gateway.witness.received == 3)
        gateway.go_on("early ")
        ends = new.until_ends(1 if seen == "all" else 2)
    assert said(ends[-1]["response"]) == "early late"


def test_what_is_not_known_or_has_no_room_is_refused(gateway: RunningGateway) -> None:
    gateway.engine.play([Reply(then=(Say("a"), Stall(60)))])
    with Socket(gateway.url) as socket, Socket(gateway.url) as other:
        resume(socket, "resp_of_nobody")
        assert socket.read()["error"]["code"] == "response_not_found"
        passing, _ = begin(socket, store=False)
        resume(other, passing)
        assert other.read()["error"]["code"] == "response_not_found"
        kept, _ = begin(other)
        resume(socket, kept)
        assert socket.read()["error"]["code"] == "stream_busy"
        resume(socket, kept, stream_id="no lane")
        assert socket.read()["error"]["code"] == "invalid_stream_id"


# -- when the client is gone ----------------------------------------------------------------------


def orphans(seconds: float) -> RunningGateway:
    return RunningGateway(config=configuration(limits={"orphan_seconds": seconds}))


@pytest.mark.parametrize("store", [True, False])
def test_one_that_waits_is_resumed_when_its_client_is_back(store: bool) -> None:
    with orphans(10) as gateway:
        gateway.engine.play([Reply(when="^x$", then=SLOW)])
        with Socket(gateway.url) as old:
            response_id, events = begin(old, store=store, on_disconnect="wait")
            old.vanish()
        eventually(lambda: not gateway.gateway.door._sockets)
        assert gateway.engine.running() == 1
        with Socket(gateway.url) as new:
            resume(new, response_id, events[-1]["sequence_number"])
            eventually(lambda: gateway.witness.received == 2)
            gateway.go_on()
            events += new.until_end()
            assert new.turn("y", store=store, previous_response_id=response_id)["response"]
        assert text_in(events) == "early late"


def test_one_that_waits_over_http_is_read_by_who_is_back() -> None:
    with orphans(10) as gateway, gateway.http as http:
        gateway.engine.play([Reply(when="^x$", then=SLOW)])
        body = {"input": "x", "stream": True, "store": False, "on_disconnect": "wait"}
        with http.stream("POST", RESPONSES, json=body) as answer:
            created = next(sse(answer.iter_lines()))
        eventually(lambda: gateway.witness.requests == 0)
        gateway.go_on()
        rest = raw(http, created["response"]["id"], 0).decode().splitlines()
        assert text_in(list(sse(rest))) == "early late"


class Patience:
    """Has a gateway look often whether it has waited for clients for long enough, and ends that."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.looks = 0
        self._elapsed = 0.0
        hurried = SimpleNamespace(**(vars(asyncio) | {"sleep": self._sleep}))
        monkeypatch.setattr(moving, "asyncio", hurried)
        monkeypatch.setattr(moving, "time", SimpleNamespace(monotonic=self._monotonic))

    def _monotonic(self) -> float:
        return time.monotonic() + self._elapsed

    async def _sleep(self, seconds: float) -> None:
        self.looks += 1
        await asyncio.sleep(min(seconds, 0.02))

    def end(self) -> None:
        """Let an hour pass."""
        self._elapsed += 3600


def test_one_that_no_client_comes_back_for_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    patience = Patience(monkeypatch)
    with orphans(600) as gateway, gateway.http as http:
        gateway.engine.play([Reply(then=(Say("a"), Stall(600)))])
        with Socket(gateway.url) as old:
            response_id, _ = begin(old, on_disconnect="wait")
            old.vanish()
        eventually(lambda: patience.looks > 2)
        assert gateway.engine.running() == 1
        patience.end()
        eventually(lambda: gateway.engine.running() == 0)
        eventually(lambda: http.get(f"{RESPONSES}/{response_id}").json()["status"] == "cancelled")


def test_one_that_is_read_over_http_is_not_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    patience = Patience(monkeypatch)
    with (
        orphans(600) as gateway,
        gateway.http as http,
        ThreadPoolExecutor(1) as aside,
    ):
        gateway.engine.play([Reply(when="^x$", then=SLOW)])
        with Socket(gateway.url) as old:
            response_id, _ = begin(old, on_disconnect="wait")
            reading = aside.submit(raw, http, response_id)
            eventually(lambda: is_read(gateway, response_id))
            old.vanish()
        eventually(lambda: patience.looks > 0)
        patience.end()
        looks = patience.looks
        eventually(lambda: patience.looks > looks + 2)
        gateway.go_on()
        events = list(sse(reading.result().decode().splitlines()))
        assert events[-1]["type"] == "response.completed"


def test_one_that_does_not_wait_is_stopped_at_once(gateway: RunningGateway) -> None:
    gateway.engine.play([Reply(then=(Say("a"), Stall(60)))])
    with Socket(gateway.url) as old:
        begin(old, on_disconnect="stop")
        old.vanish()
    eventually(lambda: gateway.engine.running() == 0)


def test_when_its_key_is_revoked_one_that_waits_ends() -> None:
    with orphans(60) as gateway:
        gateway.engine.play([Reply(then=(Say("a"), Stall(60)))])
        with Socket(gateway.url) as old:
            begin(old, on_disconnect="wait")
            old.vanish()
        eventually(lambda: not gateway.gateway.door._sockets)

        async def revoke() -> None:
            gateway.gateway.runner.revoke("local")

        gateway.run(revoke())
        eventually(lambda: gateway.engine.running() == 0)

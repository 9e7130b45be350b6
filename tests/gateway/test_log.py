"""What a client is told of a turn is what its log gives, however the turn went."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.server import RunningGateway, configuration
from tests.support.socket import Event, Socket
from tests.support.waiting import eventually
from vivace.conversation import log
from vivace.conversation.log import (
    Begun,
    Entry,
    Failed,
    Placed,
    SteerAtItemEnd,
    Stopped,
    ThinkingEnded,
)
from vivace.conversation.replay import events_of, replay
from vivace.conversation.turn import Turn
from vivace.engines.scripted import Call, Die, Reply, Say, Stall, Think
from vivace.gateway import ids
from vivace.gateway.runs import Run
from vivace.protocol.codec import encode
from vivace.protocol.events import Event as SentEvent
from vivace.protocol.events import Response

TOOLS = [
    {"type": "function", "name": "f"},
    {"type": "custom", "name": "patch"},
]
REPLIES = [
    Reply(when="^Summarise the conversation", then=(Say("They like cobalt."),)),
    Reply(when="left", then=(Say("Going left."),)),
    Reply(when="riddle", then=(Think("Let me see. " * 20_000), Say("A shadow."))),
    Reply(when="slowly", then=(Think("Well"), Stall(600), Think(" then."), Say("word " * 20_000))),
    Reply(when="tools", then=(Call("f", '{"a": 1}'), Call("patch", "*** Begin", custom=True))),
    Reply(when="dies", then=(Think("I feel"), Say("faint"), Die())),
    Reply(when="story", then=(Think("Hm."), Say("Once upon a time ", times=20_000))),
    Reply(then=(Think("Hm, hm."), Say("Hello, Wörld."))),
]


class Journal:
    """All that came to be known of turns, as it would be written down."""

    def __init__(self) -> None:
        self.created: dict[str, Response] = {}
        self.turns: dict[str, Turn] = {}
        self.written: dict[str, bytes] = {}

    def write(self, turn: Turn, entry: Entry) -> None:
        self.created.setdefault(turn.id, turn.response)
        self.turns[turn.id] = turn
        self.written[turn.id] = self.written.get(turn.id, b"") + log.pack([entry])

    def entries(self, response_id: str) -> list[Entry]:
        return log.unpack(self.written[response_id])

    def check(self, told: list[Event], lane: str | None = None) -> list[Entry]:
        """Events of one response, as a client has read them; returns its log."""
        response_id = told[0]["response"]["id"]
        told = [event for event in told if "steer" not in event and "sequence_number" in event]
        created, entries = self.created[response_id], self.entries(response_id)
        again = replay(created, entries, lane)
        assert told == [json.loads(encode(event)) for event in again]
        turn = self.turns[response_id]
        ended = events_of(created, turn.response, turn.cuts, lane)
        assert [encode(event) for event in ended] == [encode(event) for event in again]
        return entries


@pytest.fixture
def journal(monkeypatch: pytest.MonkeyPatch) -> Journal:
    journal = Journal()
    enter = Run.enter

    def written_first(run: Run, entry: Entry) -> list[SentEvent]:
        journal.write(run.turn, entry)
        return enter(run, entry)

    monkeypatch.setattr(Run, "enter", written_first)
    return journal


@pytest.fixture
def one_slot() -> Iterator[RunningGateway]:
    with RunningGateway(REPLIES, config=configuration(engine={"slots": 1})) as running:
        yield running


@pytest.fixture
def socket(one_slot: RunningGateway) -> Iterator[Socket]:
    with Socket(one_slot.url) as socket:
        yield socket
        socket.vanish()  # it may have left a story unread, and would wait for a goodbye


def until(socket: Socket, kind: str) -> list[Event]:
    events = [socket.read()]
    while events[-1]["type"] != kind:
        events.append(socket.read())
    return events


@pytest.mark.parametrize("asked", ["Hello", "Use tools", "It dies"])
@pytest.mark.parametrize("lane", [None, "lane"])
@pytest.mark.parametrize("limit", [{}, {"max_output_tokens": 2}, {"max_tool_calls": 1}])
def test_a_turn_that_nobody_stops(
    journal: Journal, socket: Socket, asked: str, lane: str | None, limit: dict[str, int]
) -> None:
    socket.create(asked, tools=TOOLS, **limit, **({"stream_id": lane} if lane else {}))
    journal.check(socket.until_end(), lane)


def test_one_that_puts_a_conversation_in_short(journal: Journal, socket: Socket) -> None:
    likes = {"type": "message", "role": "user", "content": "I like cobalt."}
    socket.create([likes, {"type": "compaction_trigger"}])
    events = socket.until_end()
    assert events[-1]["response"]["output"][0]["type"] == "compaction"
    assert [entry.summary for entry in journal.check(events) if isinstance(entry, Begun)] == [True]


@pytest.mark.parametrize("until_then", ["output_text.delta", "reasoning_text.delta", "created"])
@pytest.mark.parametrize("how", ["interrupt", "steer"])
def test_one_that_is_stopped(journal: Journal, socket: Socket, how: str, until_then: str) -> None:
    socket.create("A story")
    events = until(socket, f"response.{until_then}")
    named = {"interrupt": "response_id", "steer": "previous_response_id"}[how]
    more: dict[str, Any] = {"input": "Go left"} if how == "steer" else {}
    socket.send(type=f"response.{how}", **{named: events[0]["response"]["id"]}, **more)
    entries = journal.check([*events, *socket.until_end()])
    assert [entry.how for entry in entries if isinstance(entry, Stopped)] == [how]
    if how == "steer":
        journal.check(socket.until_end())


def test_one_that_is_steered_when_its_thoughts_are_whole(
    journal: Journal, one_slot: RunningGateway, socket: Socket
) -> None:
    socket.create("Think slowly")
    events = until(socket, "response.reasoning_text.delta")
    target = events[0]["response"]["id"]
    steer = {"type": "response.steer", "previous_response_id": target, "input": "Go left"}
    socket.send(**steer, when="item_end")
    events += until(socket, "response.steer.accepted")
    one_slot.go_on()
    events += socket.until_end()
    assert events[-1]["response"]["incomplete_details"] == {"reason": "steered"}
    assert any(isinstance(entry, SteerAtItemEnd) for entry in journal.check(events))


def test_one_whose_thinking_is_ended(journal: Journal, socket: Socket) -> None:
    socket.create("A riddle")
    events = until(socket, "response.reasoning_text.delta")
    target = events[0]["response"]["id"]
    socket.send(type="response.steer", previous_response_id=target, when="end_thinking")
    events += socket.until_end()
    assert events[-1]["type"] == "response.completed"
    assert any(isinstance(entry, ThinkingEnded) for entry in journal.check(events))


def test_one_that_has_to_wait(journal: Journal, one_slot: RunningGateway, socket: Socket) -> None:
    socket.create("A story")
    running = until(socket, "response.output_text.delta")[0]["response"]["id"]
    with Socket(one_slot.url) as second:
        second.create("Hello")
        events = until(second, "response.queued")
        socket.send(type="response.interrupt", response_id=running)
        entries = journal.check([*events, *second.until_end()])
    assert isinstance(entries[0], Placed)


def test_one_whose_client_leaves_or_loses_its_key(
    journal: Journal, one_slot: RunningGateway
) -> None:
    with Socket(one_slot.url) as socket:
        socket.create("A story")
        left = until(socket, "response.output_text.delta")[0]["response"]["id"]
        socket.vanish()
    eventually(lambda: journal.turns[left].ended)
    stopped = journal.entries(left)[-1]
    assert isinstance(stopped, Stopped)
    assert stopped.how == "disconnect"
    with Socket(one_slot.url) as socket:
        socket.create("A story", background=True)
        revoked = until(socket, "response.output_text.delta")[0]["response"]["id"]

        async def revoke() -> None:
            one_slot.gateway.runner.revoke("local")

        one_slot.run(revoke())
        eventually(lambda: journal.turns[revoked].ended)
    failed = journal.entries(revoked)[-1]
    assert isinstance(failed, Failed)
    assert failed.code == "invalid_api_key"
    for response_id in (left, revoked):
        response = replay(journal.created[response_id], journal.entries(response_id))[-1].response  # type: ignore[attr-defined]
        assert response == journal.turns[response_id].response


def test_the_id_of_a_response_says_when_it_was_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimpleNamespace(time_ns=lambda: 1_700_000_000_123_999_999)
    monkeypatch.setattr(ids, "time", clock)
    made = [ids.new_id("resp") for _ in range(100)]
    assert len(set(made)) == 100
    for response_id in made:
        assert re.fullmatch(r"resp_[0-9a-f]{32}", response_id)
        assert int(response_id.removeprefix("resp_")[:12], 16) == 1_700_000_000_123
    assert re.fullmatch(r"msg_[0-9a-f]{32}", ids.new_id("msg"))

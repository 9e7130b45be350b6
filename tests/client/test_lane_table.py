"""The lanes of one connection: first by example, then against a gateway's own session, in any order
of asking, leaving and losing the connection."""

from __future__ import annotations

import asyncio
from collections import deque
from itertools import count
from typing import Any

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.support.examples import examples
from vivace.client.errors import ClientError
from vivace.client.events import ServerEvent, decode_event
from vivace.client.lane_table import LaneTable, Request, Unheard, Unspoken
from vivace.conversation.chain import Link
from vivace.conversation.deltas import Finished, TextDelta, Tokens
from vivace.conversation.response import open_response
from vivace.conversation.session import (
    Decision,
    Limits,
    Refuse,
    Say,
    Session,
    Start,
    Stop,
    Ticket,
)
from vivace.conversation.turn import Turn
from vivace.errors import TooManyRequests
from vivace.protocol.codec import decode_client_event, encode, error_frame
from vivace.protocol.events import Event
from vivace.protocol.requests import Resume


def told(request: Request) -> list[str | ClientError | None]:
    """All that has been said to whoever waits; a None is the end."""
    said = []
    while not request._told.empty():
        said.append(request._told.get_nowait())
    return said


class Wire:
    """A table, what it has sent, and a server that says what it is told to."""

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []
        self.table = LaneTable(self.sent.append)

    def ask(self, lane: str, name: str = "") -> Request:
        return self.table.ask(lane, {"fill": {"prefix": name or lane}})

    def hear(self, kind: str, stream: str | None = "0", **fields: Any) -> None:
        event = {"type": kind, "stream_id": stream, **fields}
        decoded = decode_event(msgspec.json.encode(event))
        assert isinstance(decoded, ServerEvent)
        self.table.hear(decoded)

    def begin(self, name: str, stream: str | None = "0") -> None:
        self.hear("response.created", stream, response={"id": name, "fill": True})

    def refuse(self, stream: str | None = "0", status: int = 400, **error: Any) -> None:
        self.hear("error", stream, status=status, error=error)

    def take(self) -> list[str]:
        """What was sent since the last time: each request by its text, an interrupt by its id."""
        taken = [
            f"stop {event['response_id']}" if "response_id" in event else event["fill"]["prefix"]
            for event in self.sent
        ]
        self.sent.clear()
        return taken


# -- by example -----------------------------------------------------------------------------------


def test_an_answer_goes_to_who_asked_and_ends() -> None:
    wire = Wire()
    one, other = wire.ask("a"), wire.ask("b")
    assert [event["stream_id"] for event in wire.sent] == ["0", "1"]
    wire.begin("resp_b", "1")
    wire.begin("resp_a", "0")
    wire.hear("response.output_text.delta", "1", delta="for b")
    wire.hear("response.output_text.delta", "0", delta="for a")
    wire.hear("response.completed", "1", response={"id": "resp_b"})
    assert told(one) == ["for a"]
    assert told(other) == ["for b", None]


def test_what_is_left_while_it_runs_is_interrupted_once_and_says_no_more() -> None:
    wire = Wire()
    request = wire.ask("a")
    wire.begin("resp_1")
    wire.take()
    wire.table.leave(request)
    wire.table.leave(request)
    wire.hear("response.output_text.delta", delta="late")
    assert wire.take() == ["stop resp_1"]
    assert told(request) == []


def test_what_is_left_before_it_has_an_id_is_interrupted_as_soon_as_it_has_one() -> None:
    wire = Wire()
    wire.table.leave(wire.ask("a"))
    assert wire.take() == ["a"]
    wire.begin("resp_1")
    assert wire.take() == ["stop resp_1"]


def test_of_many_that_follow_each_other_quickly_only_the_last_is_sent() -> None:
    wire = Wire()
    wire.table.leave(wire.ask("a", "first"))
    for each in range(5):
        wire.table.leave(wire.ask("a", f"key {each}"))
    last = wire.ask("a", "last")
    assert wire.take() == ["first"]
    wire.begin("resp_1")
    assert wire.take() == ["stop resp_1", "last"]
    wire.hear("response.incomplete", response={"id": "resp_1"})
    wire.begin("resp_2")
    wire.hear("response.output_text.delta", delta="x")
    assert told(last) == ["x"]


def test_the_next_of_a_lane_is_sent_while_the_one_before_it_runs() -> None:
    wire = Wire()
    wire.ask("a", "warm")
    wire.begin("resp_1")
    wire.ask("a", "typed")
    assert wire.take() == ["warm", "typed"]


def test_what_ended_is_not_interrupted() -> None:
    wire = Wire()
    request = wire.ask("a")
    wire.begin("resp_1")
    wire.hear("response.completed", response={"id": "resp_1"})
    wire.take()
    wire.table.leave(request)
    assert wire.take() == []


def test_an_interrupt_that_came_too_late_harms_nobody() -> None:
    wire = Wire()
    running, asked = wire.ask("a"), wire.ask("b")
    wire.begin("resp_1")
    wire.refuse(None, 404, code="response_not_found", message="Not running.")
    assert told(running) == told(asked) == []


def test_more_documents_than_a_server_has_streams_take_turns() -> None:
    wire = Wire()
    requests = [wire.ask(f"file:///a b/{number}.py") for number in range(20)]
    assert sorted(int(event["stream_id"]) for event in wire.sent) == list(range(16))
    assert len({event["stream_id"] for event in wire.sent}) == 16
    wire.sent.clear()
    wire.begin("resp_7", "7")
    wire.hear("response.completed", "7", response={"id": "resp_7"})
    assert told(requests[7]) == [None]
    assert [event["stream_id"] for event in wire.sent] == ["7"]


def test_a_refusal_is_for_the_one_that_has_not_begun_and_says_how_long_to_wait() -> None:
    wire = Wire()
    running = wire.ask("a", "one")
    wire.begin("resp_1")
    refused = wire.ask("a", "two")
    headers = {"retry-after": "7"}
    wire.refuse(status=429, code="rate_limit_exceeded", message="Too many.", headers=headers)
    (error,) = told(refused)
    assert isinstance(error, ClientError)
    assert (error.code, error.status, error.retry_after) == ("rate_limit_exceeded", 429, 7)
    assert told(running) == []
    wire.take()
    wire.ask("a", "three")
    assert wire.take() == ["three"]


@pytest.mark.parametrize(
    ("message", "seconds"),
    [("Too much. Try again in 200 s.", 200), ("Please try again in 250ms.", 0.25), ("No.", None)],
)
def test_an_answer_that_fails_says_why_and_when_to_try_again(
    message: str, seconds: float | None
) -> None:
    wire = Wire()
    request = wire.ask("a")
    wire.begin("resp_1")
    failed = {"id": "resp_1", "error": {"code": "rate_limit_exceeded", "message": message}}
    wire.hear("response.failed", response=failed)
    (error,) = told(request)
    assert isinstance(error, ClientError)
    assert (str(error), error.retry_after) == (message, seconds)


@pytest.mark.parametrize(
    ("reason", "whole"), [("max_output_tokens", True), ("cancelled", False), (None, False)]
)
def test_an_answer_is_whole_or_an_error(reason: str | None, whole: bool) -> None:
    wire = Wire()
    request = wire.ask("a")
    wire.begin("resp_1")
    response = {"id": "r", "status": "incomplete", "incomplete_details": {"reason": reason}}
    wire.hear("response.incomplete", response=response)
    (end,) = told(request)
    assert (end is None) == whole


def test_an_answer_without_an_end_is_broken_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vivace.client.lane_table._LONGEST_ANSWER", 1000)
    wire = Wire()
    request = wire.ask("a")
    wire.begin("resp_1")
    wire.take()
    for _ in range(20):
        wire.hear("response.output_text.delta", delta="x" * 100)
    *texts, error = told(request)
    assert len(texts) == 10
    assert "does not end" in str(error)
    assert wire.take() == ["stop resp_1"]


def test_when_the_connection_is_gone_only_what_had_not_begun_may_be_asked_again() -> None:
    wire = Wire()
    running = wire.ask("a", "one")
    wire.begin("resp_1")
    asked, waiting = wire.ask("a", "two"), wire.ask("a", "three")
    wire.table.lost(Unheard("Gone."))
    assert [type(end) for end in told(running)] == [ClientError]
    assert [type(end) for end in told(asked) + told(waiting)] == [Unheard, Unheard]


def test_a_connection_that_is_too_old_is_left() -> None:
    wire = Wire()
    wire.ask("a")
    with pytest.raises(Unheard):
        wire.refuse(code="websocket_connection_limit_reached", message="Too old.")


@pytest.mark.parametrize(
    ("stream", "response"),
    [(None, {"id": "r", "fill": True}), ("0", {"id": "r"}), ("0", {"id": "r", "fill": "?"})],
    ids=["no lanes", "no gap", "another gap"],
)
def test_a_server_that_answers_something_else_is_not_listened_to(
    stream: str | None, response: dict[str, Any]
) -> None:
    wire = Wire()
    wire.ask("a")
    with pytest.raises(Unspoken):
        wire.hear("response.created", stream, response=response)


def test_a_refusal_of_nothing_in_particular_ends_the_connection() -> None:
    wire = Wire()
    wire.ask("a")
    with pytest.raises(ClientError, match="No memory"):
        wire.refuse(None, 503, code="overloaded", message="No memory.")


def test_who_waits_gets_the_texts_and_then_the_end() -> None:
    async def read() -> list[str]:
        return [text async for text in request.texts()]

    wire = Wire()
    request = wire.ask("a")
    wire.begin("resp_1")
    wire.hear("response.output_text.delta", delta="x")
    wire.hear("response.completed", response={"id": "resp_1"})
    assert asyncio.run(read()) == ["x"]


# -- in any order ---------------------------------------------------------------------------------


class Asked:
    """A request as its asker sees it."""

    def __init__(self, request: Request, name: str) -> None:
        self.request = request
        self.name = name
        self.texts: list[str] = []
        self.end: ClientError | str = ""

    def listen(self) -> None:
        for said in told(self.request):
            assert not self.end, "nothing comes after the end"
            if isinstance(said, str):
                self.texts.append(said)
            else:
                self.end = said or "whole"


class Server:
    """A gateway without its engines: these are played by the rules below."""

    def __init__(self, in_flight: int) -> None:
        numbers = count()
        self.new_id = lambda prefix: f"{prefix}_{next(numbers)}"
        self.session = Session(self.new_id, Limits(in_flight=in_flight))
        self.starting: list[Ticket] = []
        self.running: dict[str, tuple[Ticket, Turn]] = {}
        self.said: deque[Event] = deque()

    def hear(self, event: dict[str, Any]) -> None:
        text = msgspec.json.encode(event).decode()
        said = decode_client_event(text, None)
        assert not isinstance(said, Resume)
        self._act(self.session.receive(said))

    def begin(self, ticket: Ticket) -> None:
        self.starting.remove(ticket)
        turn = Turn(open_response(ticket.request, ticket.id, "m", 0), ticket.lane)
        self.running[ticket.id] = ticket, turn
        self.said += turn.begin()

    def refuse(self, ticket: Ticket) -> None:
        self.starting.remove(ticket)
        self._act(self.session.refuse(ticket, TooManyRequests("Later.", retry_after=3)))

    def write(self, response_id: str) -> None:
        ticket, turn = self.running[response_id]
        self.said += turn.feed(TextDelta(name_of(ticket)), 0)

    def finish(self, response_id: str) -> None:
        _, turn = self.running[response_id]
        self._settle(response_id, turn.feed(Finished("stop", Tokens(1, 1)), 0))

    def fail(self, response_id: str) -> None:
        _, turn = self.running[response_id]
        self._settle(response_id, turn.fail("server_error", "Unwell.", 0))

    def _settle(self, response_id: str, last: list[Any]) -> None:
        ticket, turn = self.running.pop(response_id)
        self.said += last
        link = Link(ticket.id, ticket.parent, ticket.input, ())
        self._act(self.session.settle(ticket, None if turn.status == "failed" else link))

    def _act(self, decisions: list[Decision]) -> None:
        for decision in decisions:
            if isinstance(decision, Say):
                self.said.append(decision.event)
            elif isinstance(decision, Refuse):
                self.said.append(error_frame(decision.error, decision.ticket.lane))
            elif isinstance(decision, Start):
                self.starting.append(decision.ticket)
            else:
                assert isinstance(decision, Stop)
                assert decision.receipt is not None
                self.said.append(decision.receipt)
                _, turn = self.running[decision.ticket.id]
                self._settle(decision.ticket.id, turn.interrupt(0))


def name_of(ticket: Ticket) -> str:
    assert ticket.request.fill is not None
    return ticket.request.fill.prefix


class Interleavings(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.names = count()
        self.asked: dict[str, Asked] = {}
        self.connect()

    def connect(self) -> None:
        self.sent: deque[dict[str, Any]] = deque()
        self.table = LaneTable(self.sent.append)
        self.server = Server(in_flight=3)

    @rule(lane=st.sampled_from("abcde"))
    def ask(self, lane: str) -> None:
        name = f"{lane}{next(self.names)} "
        self.asked[name] = Asked(self.table.ask(lane, {"fill": {"prefix": name}}), name)

    @precondition(lambda self: self.asked)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        self.table.leave(self.asked[data.draw(st.sampled_from(sorted(self.asked)))].request)

    @precondition(lambda self: self.sent)
    @rule(times=st.integers(1, 3))
    def the_server_hears(self, times: int) -> None:
        while self.sent and times:
            self.server.hear(self.sent.popleft())
            times -= 1

    @precondition(lambda self: self.server.said)
    @rule(times=st.integers(1, 6))
    def the_client_hears(self, times: int) -> None:
        while self.server.said and times:
            event = decode_event(encode(self.server.said.popleft()))
            assert event is not None
            self.table.hear(event)
            times -= 1

    @precondition(lambda self: self.server.starting)
    @rule(data=st.data(), refused=st.sampled_from([False, False, False, True]))
    def it_begins(self, data: st.DataObject, refused: bool) -> None:
        ticket = data.draw(st.sampled_from(self.server.starting))
        self.server.refuse(ticket) if refused else self.server.begin(ticket)

    @precondition(lambda self: self.server.running)
    @rule(data=st.data(), act=st.sampled_from(["write", "write", "finish", "fail"]))
    def it_runs(self, data: st.DataObject, act: str) -> None:
        response_id = data.draw(st.sampled_from(sorted(self.server.running)))
        getattr(self.server, act)(response_id)

    @rule(often=st.sampled_from([False, False, False, False, False, True]))
    def the_connection_is_lost(self, often: bool) -> None:
        if often:
            self.table.lost(Unheard("Gone."))
            self.connect()
            for asked in self.asked.values():
                asked.listen()
                assert asked.end or asked.request.left

    @invariant()
    def everybody_hears_only_their_own(self) -> None:
        for asked in self.asked.values():
            asked.listen()
            assert set(asked.texts) <= {asked.name}

    @invariant()
    def a_lane_has_one_request_at_most_that_has_not_begun(self) -> None:
        streams = [each["stream_id"] for each in self.sent if each["type"] == "response.create"]
        assert len(streams) == len(set(streams))

    def teardown(self) -> None:
        self._deliver()
        left = {name for name, asked in self.asked.items() if asked.request.left}
        running = {name_of(ticket) for ticket, _ in self.server.running.values()}
        assert not running & left, "nothing goes on that nobody waits for"
        while self.server.running:
            self.server.finish(next(iter(self.server.running)))
            self._deliver()
        self.everybody_hears_only_their_own()
        assert all(asked.end or asked.request.left for asked in self.asked.values())
        assert self.server.session.idle
        assert self.table._lanes == {}
        assert sorted(self.table._streams) == list(range(16))

    def _deliver(self) -> None:
        while self.sent or self.server.said or self.server.starting:
            self.the_server_hears(100) if self.sent else None
            for ticket in list(self.server.starting):
                self.server.begin(ticket)
            self.the_client_hears(100) if self.server.said else None


TestInterleavings = Interleavings.TestCase
TestInterleavings.settings = settings(
    max_examples=examples(100), stateful_step_count=50, deadline=None
)

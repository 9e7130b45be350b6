"""All lanes of one connection: first by example, then whatever may happen in any order."""

from __future__ import annotations

from collections import deque
from itertools import count
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from msgspec import UNSET

from tests.support.examples import examples
from vivace.conversation.chain import Link
from vivace.conversation.deltas import (
    CallOpened,
    CallText,
    Delta,
    Finished,
    ReasoningDelta,
    TextDelta,
    Tokens,
)
from vivace.conversation.response import open_response
from vivace.conversation.session import (
    Decision,
    Fetch,
    Limits,
    Recall,
    Refuse,
    Say,
    Session,
    Start,
    Stop,
    Ticket,
)
from vivace.conversation.turn import Turn
from vivace.errors import NotFound, Unauthorized
from vivace.protocol.codec import error_frame
from vivace.protocol.events import (
    ErrorFrame,
    Event,
    InterruptAccepted,
    ResponseCompleted,
    ResponseCreated,
    ResponseEvent,
    ResponseFailed,
    ResponseIncomplete,
)
from vivace.protocol.items import FunctionCall, FunctionCallOutput, Item, Message, ToolCall
from vivace.protocol.once import Once
from vivace.protocol.requests import CreateBody, CreateResponse, Fill, Interrupt

HI = Message(role="user", content="hi")
STRAY = FunctionCallOutput(call_id="nobody", output="x")


def session(**limits: int) -> Session:
    numbers = count()
    return Session(lambda prefix: f"{prefix}_{next(numbers)}", Limits(**limits))


def create(
    *items: Item, lane: str | None = None, after: str | None = None, **body: Any
) -> CreateResponse:
    return CreateResponse(
        CreateBody(stream_id=lane, previous_response_id=after, **body), items or (HI,)
    )


def started(decisions: list[Decision]) -> Ticket:
    (decision,) = decisions
    assert isinstance(decision, Start)
    return decision.ticket


def refused(decisions: list[Decision]) -> ErrorFrame:
    (decision,) = decisions
    if isinstance(decision, Refuse):
        return error_frame(decision.error, decision.ticket.lane)
    assert isinstance(decision, Say)
    assert isinstance(decision.event, ErrorFrame)
    return decision.event


def link(ticket: Ticket, *output: Item) -> Link:
    return Link(ticket.id, ticket.parent, ticket.input, output)


# -- lanes ----------------------------------------------------------------------------------------


def test_a_turn_starts_at_once_when_its_lane_is_free() -> None:
    ticket = started(session().receive(create()))
    assert ticket.running
    assert ticket.id.startswith("resp_")
    assert [item.id for item in ticket.input] == ["msg_1"]


def test_turns_of_one_lane_follow_each_other() -> None:
    one = session()
    first = started(one.receive(create(lane="a")))
    assert one.receive(create(lane="a")) == []
    second = started(one.settle(first, link(first)))
    assert second is not first
    assert not one.idle
    assert one.settle(second, link(second)) == []
    assert one.idle


def test_lanes_run_beside_each_other() -> None:
    one = session()
    tickets = [started(one.receive(create(lane=lane))) for lane in (None, "a", "b")]
    assert [ticket.lane for ticket in tickets] == [None, "a", "b"]


def test_more_than_may_run_have_to_wait() -> None:
    one = session(in_flight=2)
    first = started(one.receive(create(lane="a")))
    started(one.receive(create(lane="b")))
    assert one.receive(create(lane="c")) == []
    assert started(one.settle(first, link(first))).lane == "c"


@pytest.mark.parametrize("lane", ["", "a b", "a/b", "é", "x" * 257, "a\n"])
def test_a_lane_with_a_wrong_name_is_refused(lane: str) -> None:
    frame = refused(session().receive(create(lane=lane)))
    assert (frame.status, frame.error.code) == (400, "invalid_stream_id")
    assert frame.error.param == "stream_id"


@pytest.mark.parametrize("lane", ["a", "A-b_c.9", "x" * 256])
def test_a_lane_with_a_right_name_is_opened(lane: str) -> None:
    assert started(session().receive(create(lane=lane))).lane == lane


def test_one_lane_too_many_is_refused_and_the_default_one_counts_not() -> None:
    one = session(lanes=2)
    for lane in (None, "a", "b"):
        started(one.receive(create(lane=lane)))
    frame = refused(one.receive(create(lane="c")))
    assert (frame.error.code, frame.stream_id) == ("websocket_stream_limit_reached", "c")
    assert frame.error.param == "stream_id"
    assert one.receive(create(lane="a")) == []


def test_one_waiting_turn_too_many_is_refused() -> None:
    one = session(waiting=1)
    started(one.receive(create()))
    assert one.receive(create()) == []
    frame = refused(one.receive(create()))
    assert (frame.status, frame.error.code) == (429, "too_many_waiting_turns")


# -- parents --------------------------------------------------------------------------------------


def ended(one: Session, lane: str | None = None, after: str | None = None) -> Ticket:
    """A turn that ran to its end."""
    ticket = started(one.receive(create(lane=lane, after=after)))
    one.settle(ticket, link(ticket, Message(id=f"msg_of_{ticket.id}", role="user", content="x")))
    return ticket


def test_the_newest_turn_of_a_lane_is_in_memory() -> None:
    one = session()
    parent = ended(one)
    child = started(one.receive(create(after=parent.id)))
    assert child.parent is not None
    assert child.parent.id == parent.id
    assert [item.id for item in child.past] == ["msg_1", f"msg_of_{parent.id}"]


def test_another_lane_may_fork_from_it() -> None:
    one = session()
    parent = ended(one, "a")
    assert started(one.receive(create(lane="b", after=parent.id))).parent is not None


def test_an_older_turn_has_to_be_fetched() -> None:
    one = session()
    oldest = ended(one)
    ended(one, after=oldest.id)
    (decision,) = one.receive(create(after=oldest.id))
    assert isinstance(decision, Fetch)
    assert decision.response_id == oldest.id
    kept = Link(oldest.id, None, (), ())
    assert started(one.found(decision.ticket, kept)).parent is kept


def test_an_unknown_parent_is_refused_and_the_lane_goes_on() -> None:
    one = session()
    (decision,) = one.receive(create(after="resp_nobody", lane="a"))
    assert isinstance(decision, Fetch)
    assert one.receive(create(lane="a")) == []
    said, start = one.found(decision.ticket, None)
    frame = refused([said])
    assert (frame.error.code, frame.stream_id) == ("previous_response_not_found", "a")
    assert frame.error.param == "previous_response_id"
    started([start])


def test_a_turn_refused_after_its_parent_was_found_lets_the_next_begin() -> None:
    one = session()
    (fetch,) = one.receive(create(STRAY, after="resp_old"))
    assert isinstance(fetch, Fetch)
    assert one.receive(create()) == []
    said, start = one.found(fetch.ticket, Link("resp_old", None, (), ()))
    assert refused([said]).error.code == "tool_call_not_found"
    started([start])


def test_a_failed_turn_evicts_its_parent_from_its_lane() -> None:
    one = session()
    parent = ended(one)
    child = started(one.receive(create(after=parent.id)))
    one.settle(child, None)
    assert isinstance(one.receive(create(after=parent.id))[0], Fetch)


def test_a_refused_turn_evicts_its_parent_from_its_lane() -> None:
    one = session()
    parent = ended(one)
    refused(one.receive(create(STRAY, after=parent.id)))
    assert isinstance(one.receive(create(after=parent.id))[0], Fetch)


def test_a_failed_fork_keeps_the_parent_where_it_was() -> None:
    one = session()
    parent = ended(one, "a")
    fork = started(one.receive(create(lane="b", after=parent.id)))
    one.settle(fork, None)
    started(one.receive(create(lane="a", after=parent.id)))


def test_a_deleted_turn_and_all_that_followed_it_are_not_continued_from_memory() -> None:
    one = session()
    first = ended(one, "a")
    second = ended(one, "a", after=first.id)
    other = ended(one, "b")
    one.forget(first.id)
    assert isinstance(one.receive(create(lane="a", after=second.id))[0], Fetch)
    started(one.receive(create(lane="b", after=other.id)))


def test_forgetting_what_is_not_remembered_changes_nothing() -> None:
    one = session()
    parent = ended(one)
    one.forget("resp_nobody")
    started(one.receive(create(after=parent.id)))


# -- what a turn needs ----------------------------------------------------------------------------


def test_an_output_nobody_asked_for_is_refused() -> None:
    frame = refused(session().receive(create(STRAY)))
    assert (frame.error.code, frame.error.param) == ("tool_call_not_found", "input[0].call_id")


def test_an_output_of_the_parents_call_is_taken() -> None:
    one = session()
    parent = started(one.receive(create()))
    one.settle(parent, link(parent, FunctionCall(id="fc", call_id="c", name="f", arguments="")))
    started(one.receive(create(FunctionCallOutput(call_id="c", output="x"), after=parent.id)))


def test_a_turn_about_nothing_is_refused() -> None:
    frame = refused(session().receive(CreateResponse(CreateBody())))
    assert (frame.error.code, frame.error.param) == ("missing_required_parameter", "input")
    assert "input" in frame.error.message


def test_a_warm_up_a_fill_and_a_continuation_need_no_input() -> None:
    one = session()
    started(one.receive(CreateResponse(CreateBody(generate=False))))
    started(one.receive(CreateResponse(CreateBody(stream_id="b"), fill=Fill(prefix=""))))
    parent = ended(one, "c")
    body = CreateBody(stream_id="c", previous_response_id=parent.id)
    started(one.receive(CreateResponse(body)))


def test_many_waiting_turns_that_are_all_refused_are_all_told_so() -> None:
    one = session(waiting=1000)
    first = started(one.receive(create()))
    for _ in range(1000):
        assert one.receive(create(STRAY)) == []
    decisions = one.settle(first, link(first))
    assert [refused([decision]).error.code for decision in decisions] == [
        "tool_call_not_found"
    ] * 1000
    assert one.idle


# -- interrupt, steer, close ----------------------------------------------------------------------


def test_an_interrupt_of_a_running_turn_stops_it_and_says_so() -> None:
    one = session()
    ticket = started(one.receive(create()))
    assert one.receive(Interrupt(response_id=ticket.id)) == [
        Stop(ticket, "interrupt", InterruptAccepted(response_id=ticket.id))
    ]


def test_an_interrupt_of_anything_else_is_refused() -> None:
    one = session()
    over = ended(one)
    for response_id in (over.id, "resp_nobody"):
        frame = refused(one.receive(Interrupt(response_id=response_id)))
        assert (frame.status, frame.error.code) == (404, "response_not_found")
        assert frame.error.param == "response_id"


def test_closing_stops_what_runs_and_drops_what_waits() -> None:
    one = session()
    ticket = started(one.receive(create()))
    one.receive(create())
    assert one.close() == [Stop(ticket, "disconnect")]
    assert one.receive(create()) == []
    assert one.settle(ticket, None) == []
    assert one.idle


def test_a_lane_that_lets_go_has_to_look_for_its_newest_response_again() -> None:
    one = session()
    over = ended(one)
    one.let_go(None)
    (fetch,) = one.receive(create(after=over.id))
    assert isinstance(fetch, Fetch)


def test_closing_leaves_alone_what_runs_in_the_background() -> None:
    one = session()
    lasting = started(one.receive(create(background=True)))
    other = started(one.receive(create(lane="a")))
    one.receive(create(background=True))
    assert one.close() == [Stop(other, "disconnect")]
    assert one.settle(other, None) == []
    assert not one.idle
    told = InterruptAccepted(response_id=lasting.id)
    assert one.receive(Interrupt(response_id=lasting.id)) == [Stop(lasting, "interrupt", told)]
    assert one.settle(lasting, None) == []
    assert one.idle  # what waited had told nobody its name


def test_a_parent_that_is_found_after_the_close_starts_nothing() -> None:
    one = session()
    (fetch,) = one.receive(create(after="resp_old"))
    assert isinstance(fetch, Fetch)
    one.close()
    assert one.found(fetch.ticket, Link("resp_old", None, (), ())) == []
    assert one.idle


def test_whoever_is_revoked_is_told_so_in_every_turn_that_did_not_begin() -> None:
    one = session()
    running = started(one.receive(create()))
    one.receive(create())
    (fetch,) = one.receive(create(lane="a", after="resp_old"))
    assert isinstance(fetch, Fetch)
    one.receive(create(lane="a"))
    decisions = one.revoke(Unauthorized("This key was revoked."))
    assert [each for each in decisions if isinstance(each, Stop)] == [Stop(running, "revoke")]
    told = [refused([each]) for each in decisions if isinstance(each, Refuse)]
    assert [(frame.status, frame.error.code) for frame in told] == [(401, "invalid_api_key")] * 3
    assert one.found(fetch.ticket, Link("resp_old", None, (), ())) == []
    assert one.receive(create()) == []
    assert one.settle(running, None) == []
    assert one.idle


def test_a_ticket_settles_once() -> None:
    one = session()
    ticket = started(one.receive(create()))
    one.settle(ticket, link(ticket))
    one.receive(create())
    assert one.settle(ticket, None) == []
    assert one.refuse(ticket, NotFound("late")) == []
    assert one.found(ticket, None) == []


# -- in any order ---------------------------------------------------------------------------------

LIMITS = Limits(in_flight=2, lanes=3, waiting=5)
LANES = (None, "a", "b", "c", "d", "not a lane")
NOT_ACCEPTED = {
    "invalid_stream_id",
    "websocket_stream_limit_reached",
    "too_many_waiting_turns",
    "response_not_found",
}
TERMINAL = (ResponseCompleted, ResponseIncomplete, ResponseFailed)
indices = st.integers(0, 1000)
deltas: st.SearchStrategy[Delta] = st.one_of(
    st.builds(TextDelta, st.text(max_size=2)),
    st.builds(ReasoningDelta, st.text(max_size=2)),
    st.builds(CallOpened, st.just("f"), st.booleans()),
    st.builds(CallText, st.text(max_size=2)),
)


class Connection(RuleBasedStateMachine):
    """Carries out what a session decides, as the gateway does, but one step at a time.

    Beside it stands a model of what must hold: who waits in which lane, who is at work, and how
    far the numbering of each response has come.
    """

    def __init__(self) -> None:
        super().__init__()
        numbers = count()
        self.new_id = lambda prefix: f"{prefix}_{next(numbers)}"
        self.session = Session(self.new_id, LIMITS)
        self.closed = False
        self.lanes: set[str | None] = {None}
        self.waiting: dict[str | None, deque[CreateResponse]] = {}
        self.active: dict[str | None, Ticket] = {}
        self.recalling: list[Ticket] = []
        self.retelling: list[Ticket] = []
        self.fetching: list[Fetch] = []
        self.ready: list[Ticket] = []
        self.turns: list[tuple[Ticket, Turn]] = []
        self.over: list[Turn] = []
        self.links: dict[str, Link] = {}
        self.next_number: dict[str | None, int | None] = {}

    # -- carrying out ---------------------------------------------------------------------------

    def act(self, decisions: list[Decision]) -> None:
        for decision in decisions:
            match decision:
                case Say():
                    self.hear(decision.event)
                case Refuse():
                    self.hear(refused([decision]))
                case Recall():
                    self.takes_its_place(decision.ticket)
                    self.recalling.append(decision.ticket)
                case Fetch():
                    if self.active.get(decision.ticket.lane) is not decision.ticket:
                        self.takes_its_place(decision.ticket)
                    self.fetching.append(decision)
                case Start():
                    self.starts(decision.ticket)
                case Stop():
                    self.stops(decision)

    def hear(self, event: Event) -> None:
        """An error that is not about an accepted turn is checked where it was provoked."""
        if isinstance(event, ErrorFrame) and event.error.code not in NOT_ACCEPTED:
            lane = None if event.stream_id is UNSET else event.stream_id
            if lane in self.active:
                del self.active[lane]
            else:
                self.waiting[lane].popleft()

    def takes_its_place(self, ticket: Ticket) -> None:
        assert ticket.lane not in self.active, "one at a time in a lane"
        assert self.waiting[ticket.lane].popleft() is ticket.request, "first come, first served"
        self.active[ticket.lane] = ticket

    def starts(self, ticket: Ticket) -> None:
        assert not self.closed
        if self.active.get(ticket.lane) is not ticket:
            self.takes_its_place(ticket)
        wanted = ticket.request.body.previous_response_id
        assert (ticket.parent.id if ticket.parent else None) == wanted
        assert all(item.id for item in ticket.input)
        self.ready.append(ticket)

    def stops(self, stop: Stop) -> None:
        if stop.ticket in self.retelling:
            self.is_told(stop.ticket)
            return
        for ticket, turn in self.turns:
            if ticket is stop.ticket:
                end = turn.interrupt if stop.how == "interrupt" else turn.cancel
                self.ends(ticket, turn, end(3))
                return

    def tell(self, ticket: Ticket, events: list[ResponseEvent]) -> None:
        for event in events:
            assert event.stream_id == (ticket.lane or UNSET)
            if isinstance(event, ResponseCreated):
                assert ticket.id not in self.next_number
                self.next_number[ticket.id] = 0
            assert event.sequence_number == self.next_number[ticket.id]
            last = isinstance(event, TERMINAL)
            self.next_number[ticket.id] = None if last else event.sequence_number + 1

    def ends(self, ticket: Ticket, turn: Turn, last: list[ResponseEvent]) -> None:
        assert isinstance(last[-1], TERMINAL)
        self.turns.remove((ticket, turn))
        self.over.append(turn)
        del self.active[ticket.lane]
        kept = link(ticket, *turn.response.output)
        if turn.status != "failed":
            self.links[ticket.id] = kept
        decisions = self.session.settle(ticket, None if turn.status == "failed" else kept)
        self.tell(ticket, last)
        self.act(decisions)

    # -- what the client does -------------------------------------------------------------------

    def known_ids(self) -> list[str]:
        return [*self.links, *(turn.id for turn in self.over), "resp_nobody"]

    def outputs_for(self, response_id: str | None) -> list[Item]:
        parent = self.links.get(response_id or "")
        calls = [item for item in parent.output if isinstance(item, ToolCall)] if parent else []
        return [FunctionCallOutput(call_id=call.call_id, output="ok") for call in calls]

    @rule(
        lane=st.sampled_from(LANES),
        chained=st.booleans(),
        pick=indices,
        what=st.sampled_from(["text", "text", "nothing", "outputs", "stray"]),
        generate=st.booleans(),
        keyed=st.booleans(),
    )
    def client_creates(
        self, lane: str | None, chained: bool, pick: int, what: str, generate: bool, keyed: bool
    ) -> None:
        ids = self.known_ids()
        after = ids[pick % len(ids)] if chained else None
        items: dict[str, list[Item]] = {
            "text": [HI],
            "nothing": [],
            "outputs": self.outputs_for(after),
            "stray": [HI, STRAY],
        }
        body = CreateBody(stream_id=lane, previous_response_id=after, generate=generate)
        once = Once("k", b"") if keyed else None
        request = CreateResponse(body, tuple(items[what]), once=once)
        problem = self.problem_with(lane)
        if problem is None and not self.closed:
            self.lanes.add(lane)
            self.waiting.setdefault(lane, deque()).append(request)
        decisions = self.session.receive(request)
        if problem is not None and not self.closed:
            assert refused(decisions).error.code == problem
        elif self.closed:
            assert decisions == []
        self.act(decisions)

    def problem_with(self, lane: str | None) -> str | None:
        if lane == "not a lane":
            return "invalid_stream_id"
        if lane not in self.lanes and len(self.lanes) == 1 + LIMITS.lanes:
            return "websocket_stream_limit_reached"
        full = sum(len(queue) for queue in self.waiting.values()) >= LIMITS.waiting
        return "too_many_waiting_turns" if full else None

    @rule(pick=indices)
    def client_interrupts(self, pick: int) -> None:
        ids = [*(ticket.id for ticket, _ in self.turns), *self.known_ids()]
        response_id = ids[pick % len(ids)]
        running = any(ticket.id == response_id for ticket, _ in self.turns)
        decisions = self.session.receive(Interrupt(response_id=response_id))
        if not self.closed:
            (decision,) = decisions
            assert isinstance(decision, Stop) == running
        self.act(decisions)

    @rule(sure=st.integers(0, 9))
    def client_leaves(self, sure: int) -> None:
        if sure == 0 and not self.closed:
            self.closed = True
            self.waiting.clear()
            self.act(self.session.close())

    @rule(sure=st.integers(0, 9))
    def key_is_revoked(self, sure: int) -> None:
        if sure == 0 and not self.closed:
            seeking = [*(fetch.ticket for fetch in self.fetching), *self.recalling]
            waiting = sum(len(queue) for queue in self.waiting.values())
            decisions = self.session.revoke(Unauthorized("This key was revoked."))
            told = [refused([each]) for each in decisions if isinstance(each, Refuse)]
            assert len(told) == len(seeking) + waiting
            self.closed = True
            self.waiting.clear()
            for ticket in seeking:
                del self.active[ticket.lane]
            self.act([each for each in decisions if isinstance(each, Stop)])

    # -- what the store and the engine do -------------------------------------------------------

    @precondition(lambda self: self.recalling)
    @rule(pick=indices, known=st.booleans())
    def key_is_looked_up(self, pick: int, known: bool) -> None:
        ticket = self.recalling.pop(pick % len(self.recalling))
        if known:
            self.is_sent_again(ticket)
            return
        decisions = self.session.is_new(ticket)
        if self.closed:
            assert decisions == []
            self.active.pop(ticket.lane, None)
        self.act(decisions)

    @precondition(lambda self: any(ticket.request.once for ticket in self.ready))
    @rule(pick=indices)
    def another_with_its_key_was_first(self, pick: int) -> None:
        keyed = [ticket for ticket in self.ready if ticket.request.once]
        ticket = keyed[pick % len(keyed)]
        self.ready.remove(ticket)
        self.is_sent_again(ticket)

    def is_sent_again(self, ticket: Ticket) -> None:
        assert self.session.retells(ticket) is not self.closed
        assert not ticket.waits
        self.retelling.append(ticket)
        if self.closed:  # nobody is there to hear it
            self.is_told(ticket)

    def is_told(self, ticket: Ticket) -> None:
        self.retelling.remove(ticket)
        self.active.pop(ticket.lane, None)
        self.act(self.session.retold(ticket))

    @precondition(lambda self: self.retelling)
    @rule(pick=indices)
    def what_was_sent_again_is_told(self, pick: int) -> None:
        self.is_told(self.retelling[pick % len(self.retelling)])

    @precondition(lambda self: self.fetching)
    @rule(pick=indices, there=st.booleans())
    def store_answers(self, pick: int, there: bool) -> None:
        fetch = self.fetching.pop(pick % len(self.fetching))
        # A store may know turns of other connections, so any id may be found in it.
        elsewhere = Link(fetch.response_id, None, (), ())
        found = self.links.get(fetch.response_id, elsewhere) if there else None
        decisions = self.session.found(fetch.ticket, found)
        if self.closed:
            assert decisions == []
            self.active.pop(fetch.ticket.lane, None)
        self.act(decisions)

    @precondition(lambda self: self.ready)
    @rule(pick=indices)
    def engine_begins(self, pick: int) -> None:
        ticket = self.ready.pop(pick % len(self.ready))
        turn = Turn(open_response(ticket.request, ticket.id, "m", 1), ticket.lane)
        self.turns.append((ticket, turn))
        self.tell(ticket, turn.begin())

    @precondition(lambda self: self.ready)
    @rule(pick=indices)
    def engine_cannot_begin(self, pick: int) -> None:
        ticket = self.ready.pop(pick % len(self.ready))
        self.act(self.session.refuse(ticket, NotFound("no such model", code="model_not_found")))

    @precondition(lambda self: self.turns)
    @rule(pick=indices, said=st.lists(deltas, max_size=4))
    def engine_says(self, pick: int, said: list[Delta]) -> None:
        ticket, turn = self.turns[pick % len(self.turns)]
        for delta in said:
            self.tell(ticket, turn.feed(delta, 2))

    @precondition(lambda self: self.turns)
    @rule(pick=indices, how=st.sampled_from(["stop", "length", "fail", "cancel"]))
    def engine_ends(self, pick: int, how: str) -> None:
        ticket, turn = self.turns[pick % len(self.turns)]
        match how:
            case "fail":
                last = turn.fail("server_error", "gone", 3)
            case "cancel":
                last = turn.cancel(3)
            case "length":
                last = turn.feed(Finished("length", Tokens()), 3)
            case _:
                last = turn.feed(Finished("stop", Tokens(1, 1)), 3)
        self.ends(ticket, turn, last)

    @precondition(lambda self: self.over)
    @rule(pick=indices, delta=deltas)
    def engine_says_something_too_late(self, pick: int, delta: Delta) -> None:
        turn = self.over[pick % len(self.over)]
        assert turn.feed(delta, 4) == []
        assert turn.interrupt(4) == turn.fail("late", "late", 4) == turn.cancel(4) == []

    # -- what must hold -------------------------------------------------------------------------

    @invariant()
    def no_more_than_the_limit_are_at_work(self) -> None:
        assert len(self.active) <= LIMITS.in_flight

    @invariant()
    def nobody_waits_who_could_begin(self) -> None:
        if len(self.active) < LIMITS.in_flight:
            assert [lane for lane, queue in self.waiting.items() if queue] == [
                lane for lane, queue in self.waiting.items() if queue and lane in self.active
            ]

    @invariant()
    def it_is_idle_when_nothing_is_at_work_or_waits(self) -> None:
        busy = bool(self.active) or any(self.waiting.values())
        assert self.session.idle != busy

    def teardown(self) -> None:
        """Once all that runs has ended, everything that was accepted has had its turn."""
        while self.recalling or self.retelling or self.fetching or self.ready or self.turns:
            if self.recalling:
                self.key_is_looked_up(0, False)
            elif self.retelling:
                self.is_told(self.retelling[0])
            elif self.fetching:
                self.store_answers(0, True)
            elif self.ready:
                self.engine_begins(0)
            else:
                self.engine_ends(0, "stop")
        assert self.session.idle
        assert not any(self.waiting.values())
        assert all(number is None for number in self.next_number.values())


TestAnyOrder = Connection.TestCase
TestAnyOrder.settings = settings(deadline=None, max_examples=examples(100), stateful_step_count=50)

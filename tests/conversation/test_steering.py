"""Steers: first by example, then whatever may happen in any order."""

from __future__ import annotations

import json
from collections import Counter
from itertools import count
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from msgspec import UNSET, Raw

from tests.support.examples import examples
from vivace.conversation.chain import Link
from vivace.conversation.deltas import CallOpened, CallText, Delta, Finished, TextDelta, Tokens
from vivace.conversation.response import open_response
from vivace.conversation.session import (
    Decision,
    Fetch,
    Limits,
    Say,
    Session,
    Start,
    Stop,
    Ticket,
)
from vivace.conversation.turn import Turn
from vivace.errors import NotFound
from vivace.protocol.events import (
    ErrorFrame,
    Event,
    ResponseCompleted,
    ResponseCreated,
    ResponseEvent,
    ResponseFailed,
    ResponseIncomplete,
    SteerAccepted,
    SteerFailed,
    SteerPending,
)
from vivace.protocol.items import (
    CustomToolCall,
    FunctionCall,
    FunctionCallOutput,
    Item,
    Message,
    ToolCall,
    text_of,
)
from vivace.protocol.once import Once
from vivace.protocol.requests import (
    CacheOptions,
    CreateBody,
    CreateResponse,
    Fill,
    Interrupt,
    Steer,
)

HI = Message(role="user", content="hi")
CALL = FunctionCall(id="fc_1", call_id="call_1", name="look", arguments="{}")


def session(*, once: bool = False, **limits: int) -> Session:
    numbers = count()
    return Session(lambda prefix: f"{prefix}_{next(numbers)}", Limits(**limits), once=once)


def create(*items: Item, lane: str | None = None, after: str | None = None, **body: Any) -> Any:
    settings = CreateBody(stream_id=lane, previous_response_id=after, **body)
    return CreateResponse(settings, items or (HI,))


def steer(target: Ticket | str, said: object = "left", **more: Any) -> Steer:
    target_id = target if isinstance(target, str) else target.id
    return Steer(previous_response_id=target_id, input=Raw(json.dumps(said).encode()), **more)


def begun(one: Session, **body: Any) -> Ticket:
    (decision,) = one.receive(create(**body))
    assert isinstance(decision, Start)
    return decision.ticket


def link(ticket: Ticket, *output: Item) -> Link:
    return Link(ticket.id, ticket.parent, ticket.input, output)


def stop(decisions: list[Decision]) -> Stop:
    (decision,) = decisions
    assert isinstance(decision, Stop)
    return decision


def accepted(decisions: list[Decision]) -> SteerAccepted:
    event = stop(decisions).receipt
    assert isinstance(event, SteerAccepted)
    return event


def start(decisions: list[Decision]) -> Ticket:
    (decision,) = decisions
    assert isinstance(decision, Start)
    return decision.ticket


def said(decisions: list[Decision]) -> list[Event]:
    assert all(isinstance(decision, Say) for decision in decisions)
    return [decision.event for decision in decisions if isinstance(decision, Say)]


def failed(decisions: list[Decision]) -> SteerFailed:
    (event,) = said(decisions)
    assert isinstance(event, SteerFailed)
    return event


def texts(ticket: Ticket) -> list[str]:
    return [text_of(item.content) for item in ticket.input if isinstance(item, Message)]


# -- a running turn -------------------------------------------------------------------------------


def test_a_steer_stops_the_turn_and_the_receipt_waits_for_that() -> None:
    one = session()
    ticket = begun(one)
    order = stop(one.receive(steer(ticket)))
    assert (order.ticket, order.how, order.at_item_end) == (ticket, "steer", False)
    assert isinstance(order.receipt, SteerAccepted)
    assert order.receipt.steer.previous_response_id == ticket.id
    assert order.receipt.steer.id.startswith("steer_")


def test_the_successor_follows_by_itself_with_the_steer_as_input_and_the_same_settings() -> None:
    one = session()
    ticket = begun(one, instructions="Be brief.", temperature=0.5, store=False)
    one.receive(steer(ticket))
    partial = Message(role="assistant", content="half", status="incomplete")
    successor = start(one.settle(ticket, link(ticket, partial)))
    assert texts(successor) == ["left"]
    assert successor.id == ticket.successor_id  # as whoever steers over HTTP was told
    assert successor.past[-1] == partial
    body = successor.request.body
    assert body.previous_response_id == ticket.id
    assert (body.instructions, body.temperature, body.store) == ("Be brief.", 0.5, False)


def test_the_successor_goes_before_turns_that_waited_in_the_lane() -> None:
    one = session()
    ticket = begun(one, lane="a")
    assert one.receive(create(Message(role="user", content="later"), lane="a")) == []
    one.receive(steer(ticket))
    assert texts(start(one.settle(ticket, link(ticket)))) == ["left"]


def test_several_steers_of_one_turn_become_one_successor_in_their_order() -> None:
    one = session()
    ticket = begun(one)
    for word in ("left", "no, right"):
        accepted(one.receive(steer(ticket, word)))
    assert texts(start(one.settle(ticket, link(ticket)))) == ["left", "no, right"]


def test_a_steer_of_a_steered_response_reaches_its_successor() -> None:
    """A client that says two things at once cannot know the successor's id yet."""
    one = session()
    ticket = begun(one)
    one.receive(steer(ticket))
    successor = start(one.settle(ticket, link(ticket)))
    assert stop(one.receive(steer(ticket, "and now up"))).ticket is successor


def test_a_turn_that_ends_by_itself_first_is_followed_all_the_same() -> None:
    one = session()
    ticket = begun(one)
    assert stop(one.receive(steer(ticket, when="item_end"))).at_item_end
    whole = Message(role="assistant", content="done", status="completed")
    assert texts(start(one.settle(ticket, link(ticket, whole)))) == ["left"]


@pytest.mark.parametrize(
    "warm_up", [{"generate": False}, {"prompt_cache_options": CacheOptions(prewarm=True)}]
)
def test_a_warm_up_that_is_steered_is_followed_by_an_answer(warm_up: dict[str, Any]) -> None:
    one = session()
    ticket = begun(one, **warm_up)
    one.receive(steer(ticket))
    assert start(one.settle(ticket, link(ticket))).request.generates


# -- open calls -----------------------------------------------------------------------------------


def test_with_open_calls_it_waits_and_says_for_what() -> None:
    one = session()
    ticket = begun(one, lane="a")
    given = accepted(one.receive(steer(ticket)))
    custom = CustomToolCall(id="ctc_1", call_id="call_2", name="patch", input="x")
    (event,) = said(one.settle(ticket, link(ticket, CALL, custom)))
    assert isinstance(event, SteerPending)
    assert (event.steer, event.stream_id) == (given.steer, "a")
    assert event.reason == "waiting_for_required_input"
    first, second = event.required_input
    assert (first.type, first.call_id, first.name) == ("function_call_output", "call_1", "look")
    assert (second.type, second.call_id) == ("custom_tool_call_output", "call_2")


def test_the_create_that_brings_the_outputs_takes_the_steer_before_them() -> None:
    one = session()
    ticket = begun(one)
    one.receive(steer(ticket))
    one.settle(ticket, link(ticket, CALL))
    output = FunctionCallOutput(call_id="call_1", output="ok")
    follow = start(one.receive(create(output, after=ticket.id)))
    assert [type(item) for item in follow.input] == [Message, FunctionCallOutput]


def test_a_steer_may_come_while_the_client_runs_the_tools() -> None:
    one = session()
    ticket = begun(one)
    one.settle(ticket, link(ticket, CALL))
    first, second = said(one.receive(steer(ticket)))
    assert isinstance(first, SteerAccepted)
    assert isinstance(second, SteerPending)
    output = FunctionCallOutput(call_id="call_1", output="ok")
    assert texts(start(one.receive(create(output, after=ticket.id)))) == ["left"]


def test_a_conversation_that_goes_on_elsewhere_hands_the_steer_back() -> None:
    one = session()
    ticket = begun(one)
    one.receive(steer(ticket))
    one.settle(ticket, link(ticket, CALL))
    back, go = one.receive(create())
    assert isinstance(go, Start)
    assert isinstance(back, Say)
    assert isinstance(back.event, SteerFailed)
    assert back.event.error.code == "response_not_active"
    assert "another response" in back.event.error.message


def test_where_nothing_can_wait_for_the_next_request_it_is_handed_back() -> None:
    one = session(once=True)
    ticket = begun(one)
    one.receive(steer(ticket))
    event = failed(one.settle(ticket, link(ticket, CALL)))
    assert event.error.code == "successor_creation_failed"
    assert event.steer.input == Raw(b'"left"')


# -- receipts -------------------------------------------------------------------------------------


@pytest.mark.parametrize("lane", [None, "a"])
def test_receipts_carry_the_lane_and_are_numbered_in_the_order_they_are_given(
    lane: str | None,
) -> None:
    one = session(steers=1)
    ticket = begun(one, lane=lane)
    receipts: list[Any] = [
        accepted(one.receive(steer(ticket))),
        failed(one.receive(steer(ticket, "one too many"))),
        *said(one.settle(ticket, link(ticket, CALL))),
    ]
    follow = begun(one, lane=lane, after=ticket.id)
    one.settle(follow, link(follow, CALL))
    receipts += said(one.receive(steer(follow)))
    kinds = [SteerAccepted, SteerFailed, SteerPending, SteerAccepted, SteerPending]
    assert [type(receipt) for receipt in receipts] == kinds
    assert [receipt.sequence_number for receipt in receipts] == [0, 1, 2, 3, 4]
    assert {receipt.stream_id for receipt in receipts} == {lane or UNSET}


def test_who_gets_a_steer_back_is_told_why() -> None:
    one = session()
    gone = failed(one.receive(steer("resp_nobody")))
    ticket = begun(one)
    one.receive(steer(ticket))
    failure = failed(one.settle(ticket, None))
    ticket = begun(one)
    one.receive(steer(ticket))
    one.receive(Interrupt(response_id=ticket.id))
    late = failed(one.receive(steer(ticket)))
    interrupted = failed(one.settle(ticket, link(ticket)))
    over = failed(one.receive(steer(ticket)))
    reasons = ("resp_nobody", "failed", "interrupted", "interrupted", "ended")
    for event, reason in zip((gone, failure, late, interrupted, over), reasons, strict=True):
        assert reason in event.error.message


# -- handed back ----------------------------------------------------------------------------------


def test_a_finished_response_and_an_unknown_one_are_told_apart() -> None:
    one = session()
    ticket = begun(one)
    one.settle(ticket, link(ticket))
    over = failed(one.receive(steer(ticket)))
    assert (over.error.code, over.steer.input) == ("response_already_completed", Raw(b'"left"'))
    assert failed(one.receive(steer("resp_nobody"))).error.code == "response_not_found"


@pytest.mark.parametrize(
    "wrong",
    [
        "",
        [],
        7,
        None,
        [{"role": "assistant", "content": "I"}],
        [{"role": "user", "content": [{"type": "input_image", "image_url": "data:,"}]}],
        [{"type": "function_call_output", "call_id": "c", "output": "x"}],
    ],
    ids=json.dumps,
)
def test_input_that_is_no_word_of_the_user_comes_back_and_stops_nothing(wrong: object) -> None:
    one = session()
    ticket = begun(one)
    event = failed(one.receive(steer(ticket, wrong)))
    assert event.error.code == "invalid_input"
    assert event.error.type == "invalid_request_error"
    assert json.loads(bytes(event.steer.input)) == wrong
    assert one.settle(ticket, link(ticket)) == []


def test_messages_of_the_user_are_as_good_as_a_string() -> None:
    one = session()
    ticket = begun(one)
    accepted(one.receive(steer(ticket, [{"role": "user", "content": "left"}])))
    assert texts(start(one.settle(ticket, link(ticket)))) == ["left"]


def keyed(target: Ticket | str, said: str = "left", **more: Any) -> Steer:
    return steer(target, said, once=Once("k", said.encode()), **more)


def test_one_that_is_sent_again_has_the_same_receipt_and_stands_once() -> None:
    one = session()
    ticket = begun(one)
    receipt = accepted(one.receive(keyed(ticket))).steer
    assert accepted(one.receive(keyed(ticket))).steer == receipt
    assert len(ticket.steers) == 1
    follower = one.seal(ticket, link(ticket))
    assert follower is not None
    assert accepted(one.receive(keyed(ticket))).steer == receipt  # while the end is written
    assert start(one.settle(ticket, link(ticket))) is follower
    [again] = said(one.receive(keyed(ticket)))  # and when what it made has begun
    assert isinstance(again, SteerAccepted)
    assert again.steer == receipt
    assert texts(follower) == ["left"]
    assert follower.steers == []


def test_other_words_under_the_same_key_are_refused() -> None:
    one = session()
    ticket = begun(one)
    one.receive(keyed(ticket))
    [refused] = said(one.receive(keyed(ticket, "right")))
    assert isinstance(refused, ErrorFrame)
    assert refused.error.code == "idempotency_key_reused"
    assert len(ticket.steers) == 1


def test_one_of_a_turn_that_is_not_kept_can_have_no_key() -> None:
    one = session()
    ticket = start(one.receive(create(store=False)))
    assert failed(one.receive(keyed(ticket))).error.code == "idempotency_key_needs_store"
    assert ticket.steers == []


def test_too_many_come_back() -> None:
    one = session(steers=2)
    ticket = begun(one)
    for _ in range(2):
        accepted(one.receive(steer(ticket)))
    assert failed(one.receive(steer(ticket))).error.code == "too_many_pending_steers"


def test_plain_text_completion_is_not_steered() -> None:
    one = session()
    request = CreateResponse(CreateBody(), fill=Fill(prefix="def "))
    (decision,) = one.receive(request)
    assert isinstance(decision, Start)
    event = failed(one.receive(steer(decision.ticket)))
    assert event.error.code == "steering_not_supported"


def test_a_turn_that_fails_hands_its_steers_back_with_their_ids() -> None:
    one = session()
    ticket = begun(one)
    given = accepted(one.receive(steer(ticket)))
    event = failed(one.settle(ticket, None))
    assert event.error.code == "successor_creation_failed"
    assert event.steer.id == given.steer.id


@pytest.mark.parametrize("steered_first", [True, False])
def test_an_interrupt_wins_over_a_steer(steered_first: bool) -> None:
    one = session()
    ticket = begun(one)
    if steered_first:
        accepted(one.receive(steer(ticket)))
        assert stop(one.receive(Interrupt(response_id=ticket.id))).how == "interrupt"
        assert failed(one.settle(ticket, link(ticket))).error.code == "response_not_active"
    else:
        assert stop(one.receive(Interrupt(response_id=ticket.id))).how == "interrupt"
        assert failed(one.receive(steer(ticket))).error.code == "response_not_active"


def test_an_interrupt_of_a_steered_response_stops_its_successor() -> None:
    one = session()
    ticket = begun(one)
    one.receive(steer(ticket))
    successor = start(one.settle(ticket, link(ticket)))
    assert stop(one.receive(Interrupt(response_id=ticket.id))).ticket is successor


def test_a_successor_that_cannot_begin_hands_its_steer_back_and_no_error_frame() -> None:
    one = session()
    ticket = begun(one)
    given = accepted(one.receive(steer(ticket)))
    successor = start(one.settle(ticket, link(ticket)))
    event = failed(one.refuse(successor, NotFound("The model is gone.")))
    assert (event.error.code, event.steer.id) == ("successor_creation_failed", given.steer.id)
    assert event.error.message == "The model is gone."


def test_after_the_client_has_left_nothing_follows() -> None:
    one = session()
    ticket = begun(one)
    one.receive(steer(ticket))
    one.close()
    assert failed(one.settle(ticket, link(ticket))).error.code == "response_not_active"
    assert one.idle


def test_a_lane_does_not_let_go_of_what_a_steer_waits_with() -> None:
    one = session()
    ticket = begun(one)
    one.settle(ticket, link(ticket, CALL))
    one.receive(steer(ticket))
    one.let_go(None)
    (started,) = one.receive(
        create(FunctionCallOutput(call_id=CALL.call_id, output="x"), after=ticket.id)
    )
    assert isinstance(started, Start)
    assert len(started.ticket.carried) == 1


def test_a_background_turn_can_be_steered_when_its_client_has_left() -> None:
    one = session()
    ticket = begun(one, background=True)
    assert one.close() == []
    accepted(one.receive(steer(ticket)))
    successor = start(one.settle(ticket, link(ticket)))
    assert successor.background
    one.receive(steer(successor))
    event = failed(one.settle(successor, link(successor, CALL)))
    assert event.error.code == "successor_creation_failed"  # nobody is there to bring the output
    assert failed(one.receive(steer(successor))).error.code == "response_already_completed"
    assert one.idle


# -- in any order ---------------------------------------------------------------------------------

TERMINAL = (ResponseCompleted, ResponseIncomplete, ResponseFailed)
deltas = st.sampled_from([TextDelta("word"), CallOpened("look"), CallText("{}")])
picks = st.integers(0, 1 << 20)


# -- only the thinking ends -----------------------------------------------------------------------


def answer_now(target: Ticket | str, said: object = None) -> Steer:
    return steer(target, said, when="end_thinking")


def test_to_end_the_thinking_ends_no_turn_and_brings_no_successor() -> None:
    one = session()
    ticket = begun(one)
    ticket.ends_thinking = True
    order = stop(one.receive(answer_now(ticket)))
    assert order.how == "end_thinking"
    assert isinstance(order.receipt, SteerAccepted)
    assert order.receipt.steer.when == "end_thinking"
    assert ticket.successor_id is None
    assert one.settle(ticket, link(ticket)) == []


@pytest.mark.parametrize(
    ("can", "said", "code"),
    [
        (False, None, "steering_not_supported"),
        (None, None, "response_not_active"),
        (True, "Quick!", "invalid_input"),
    ],
)
def test_thinking_that_cannot_be_ended_says_why(can: bool | None, said: object, code: str) -> None:
    one = session()
    ticket = begun(one)
    ticket.ends_thinking = can
    (decision,) = one.receive(answer_now(ticket, said))
    assert isinstance(decision, Say)
    assert isinstance(decision.event, SteerFailed)
    assert decision.event.error.code == code
    assert decision.event.steer.when == "end_thinking"


def test_it_reaches_the_successor_of_a_response_that_was_steered() -> None:
    one = session()
    ticket = begun(one)
    one.receive(steer(ticket))
    (decision,) = one.settle(ticket, link(ticket))
    assert isinstance(decision, Start)
    decision.ticket.ends_thinking = True
    assert stop(one.receive(answer_now(ticket))).ticket is decision.ticket


class Redirecting(RuleBasedStateMachine):
    """A client that creates, steers, interrupts and leaves; an engine that takes its time.

    Orders to stop are carried out late, as they are in life: between an order and its effect
    anything may happen.
    """

    def __init__(self) -> None:
        super().__init__()
        numbers = count()
        self.new_id = lambda prefix: f"{prefix}_{next(numbers)}"
        self.session = Session(self.new_id, Limits(in_flight=2, lanes=2, waiting=4, steers=3))
        self.ready: list[Ticket] = []
        self.turns: list[tuple[Ticket, Turn]] = []
        self.orders: list[Stop] = []
        self.links: dict[str, Link] = {}
        self.fetching: list[Fetch] = []
        self.seen: list[str] = []
        self.ends: Counter[str] = Counter()
        self.owned: dict[str, str] = {}
        """Accepted steers by id, with their text."""
        self.applied: list[str] = []
        self.by_lane: dict[str | None, list[str]] = {}
        self.returned: list[str] = []
        self.last_word = ""
        self.lanes: dict[str, str | None] = {}
        """Of the responses that were seen."""
        self.closed = False
        self.words = count()

    # -- carrying out -----------------------------------------------------------------------------

    def act(self, decisions: list[Decision]) -> None:
        for decision in decisions:
            match decision:
                case Start():
                    self.ready.append(decision.ticket)
                case Fetch():
                    self.fetching.append(decision)
                case Stop():
                    self.orders.append(decision)
                    if decision.receipt is not None:
                        self.hear(decision.receipt)
                case Say():
                    self.hear(decision.event)

    def hear(self, event: Event) -> None:
        if isinstance(event, SteerAccepted | SteerFailed | SteerPending):
            self.hear_where(event)
        if isinstance(event, SteerAccepted):
            assert event.steer.id not in self.owned
            self.owned[event.steer.id] = self.last_word
        elif isinstance(event, SteerFailed) and isinstance(event.steer.id, str):
            assert json.loads(bytes(event.steer.input)) == self.owned[event.steer.id]
            self.returned.append(self.owned[event.steer.id])
        elif isinstance(event, SteerPending):
            assert event.required_input
        elif not isinstance(event, SteerFailed | ErrorFrame):
            assert not isinstance(event, ResponseEvent)

    def hear_where(self, event: SteerAccepted | SteerFailed | SteerPending) -> None:
        """A receipt comes on the lane of the response that was steered, and a refusal has words."""
        target = event.steer.previous_response_id
        if isinstance(event, SteerFailed):
            assert event.error.message
            if event.error.code == "response_not_found":
                return
        assert event.stream_id == (self.lanes[target] or UNSET)

    def tell(self, ticket: Ticket, events: list[ResponseEvent]) -> None:
        for event in events:
            if isinstance(event, ResponseCreated):
                self.seen.append(ticket.id)
                self.lanes[ticket.id] = ticket.lane
                words = [text for text in texts(ticket) if text in self.owned.values()]
                self.applied += words
                self.by_lane.setdefault(ticket.lane, []).extend(words)
            if isinstance(event, TERMINAL):
                self.ends[ticket.id] += 1

    def settle(self, ticket: Ticket, turn: Turn, last: list[ResponseEvent]) -> None:
        self.turns.remove((ticket, turn))
        self.orders = [order for order in self.orders if order.ticket is not ticket]
        kept = None
        if turn.status != "failed":
            kept = self.links[ticket.id] = link(ticket, *turn.response.output)
        decisions = self.session.settle(ticket, kept)
        self.tell(ticket, last)
        self.act(decisions)

    # -- the client -------------------------------------------------------------------------------

    @rule(lane=st.sampled_from([None, "a", "b"]), chained=st.booleans(), pick=picks)
    def creates(self, lane: str | None, chained: bool, pick: int) -> None:
        ids = list(self.links)
        after = ids[pick % len(ids)] if chained and ids else None
        calls = [c for c in self.links[after].output if isinstance(c, ToolCall)] if after else []
        outputs = [FunctionCallOutput(call_id=call.call_id, output="ok") for call in calls]
        self.act(self.session.receive(create(*outputs, lane=lane, after=after)))

    @rule(pick=picks, when=st.sampled_from(["now", "item_end"]))
    def steers(self, pick: int, when: str) -> None:
        ids = [*self.seen[-6:], "resp_nobody"]
        self.last_word = f"word {next(self.words)}"
        self.act(self.session.receive(steer(ids[pick % len(ids)], self.last_word, when=when)))

    @rule(pick=picks)
    def steers_to_nowhere(self, pick: int) -> None:
        ids = [*self.seen[-6:], "resp_nobody"]
        self.act(self.session.receive(steer(ids[pick % len(ids)], 7)))

    @rule(pick=picks)
    def interrupts(self, pick: int) -> None:
        ids = [*self.seen[-4:], "resp_nobody"]
        self.act(self.session.receive(Interrupt(response_id=ids[pick % len(ids)])))

    @rule(sure=st.integers(0, 19))
    def leaves(self, sure: int) -> None:
        if sure == 0:
            self.closed = True
            self.act(self.session.close())

    # -- the engine and the store -----------------------------------------------------------------

    @precondition(lambda self: self.fetching)
    @rule(there=st.booleans())
    def store_answers(self, there: bool) -> None:
        fetch = self.fetching.pop(0)
        found = self.links.get(fetch.response_id) if there else None
        self.act(self.session.found(fetch.ticket, found))

    @precondition(lambda self: self.ready)
    @rule(pick=picks, works=st.integers(0, 4))
    def begins(self, pick: int, works: int) -> None:
        ticket = self.ready.pop(pick % len(self.ready))
        if not works:
            self.orders = [order for order in self.orders if order.ticket is not ticket]
            self.act(self.session.refuse(ticket, NotFound("no such model")))
            return
        turn = Turn(open_response(ticket.request, ticket.id, "m", 1), ticket.lane)
        self.turns.append((ticket, turn))
        self.tell(ticket, turn.begin())

    @precondition(lambda self: self.turns)
    @rule(pick=picks, say=st.lists(deltas, max_size=4))
    def says(self, pick: int, say: list[Delta]) -> None:
        ticket, turn = self.turns[pick % len(self.turns)]
        for delta in say:
            events = turn.feed(delta, 2)
            if turn.ended:
                self.settle(ticket, turn, events)
                return
            self.tell(ticket, events)

    @precondition(lambda self: self.orders)
    @rule(pick=picks)
    def obeys(self, pick: int) -> None:
        order = self.orders.pop(pick % len(self.orders))
        for ticket, turn in self.turns:
            if ticket is order.ticket:
                if order.at_item_end and turn.steer_with_item():
                    return
                end = {"interrupt": turn.interrupt, "steer": turn.steer}
                self.settle(ticket, turn, end.get(order.how, turn.cancel)(3))
                return
        self.orders.append(order)  # it has not begun yet

    @precondition(lambda self: self.turns)
    @rule(pick=picks, how=st.sampled_from(["stop", "length", "fail", "cancel"]))
    def ends_by_itself(self, pick: int, how: str) -> None:
        ticket, turn = self.turns[pick % len(self.turns)]
        if how == "fail":
            last = turn.fail("server_error", "gone", 3)
        elif how == "cancel":
            self.session.withdraw(ticket)
            last = turn.cancel(3)
        else:
            last = turn.feed(Finished("stop" if how == "stop" else "length", Tokens(1, 1)), 3)
        self.settle(ticket, turn, last)

    # -- what must hold ---------------------------------------------------------------------------

    @invariant()
    def no_steer_is_applied_or_returned_twice(self) -> None:
        assert max(Counter([*self.applied, *self.returned]).values(), default=1) == 1

    @invariant()
    def each_response_ends_at_most_once(self) -> None:
        assert max(self.ends.values(), default=1) == 1

    def teardown(self) -> None:
        while self.goes_on():
            pass
        assert self.session.idle
        assert all(self.ends[response_id] == 1 for response_id in self.seen)
        if not self.closed:
            assert {*self.applied, *self.returned} == set(self.owned.values())
        accepted_order = list(self.owned.values())
        for words in self.by_lane.values():
            assert words == sorted(words, key=accepted_order.index)

    def goes_on(self) -> bool:
        """Let everything come to its end; what waits for outputs gets them."""
        pending = [name for name, lane in self.session._lanes.items() if lane.pending]
        if self.fetching:
            self.store_answers(True)
        elif self.ready:
            self.begins(0, 1)
        elif self.turns:
            self.ends_by_itself(0, "stop")
        elif pending and not self.closed:
            latest = self.session._lanes[pending[0]].latest
            assert latest is not None
            self.creates_for(pending[0], latest)
        else:
            return False
        return True

    def creates_for(self, lane: str | None, latest: Link) -> None:
        calls = [call for call in latest.output if isinstance(call, ToolCall)]
        outputs = [FunctionCallOutput(call_id=call.call_id, output="ok") for call in calls]
        self.act(self.session.receive(create(*outputs, lane=lane, after=latest.id)))


TestInAnyOrder = Redirecting.TestCase
TestInAnyOrder.settings = settings(
    deadline=None, max_examples=examples(200), stateful_step_count=60
)

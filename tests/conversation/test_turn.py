"""One response: whatever an engine says, the client sees a well-formed story with one end."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET, to_builtins

from tests.support.examples import examples
from vivace.conversation.deltas import (
    CallOpened,
    CallText,
    Delta,
    Finished,
    ReasoningDelta,
    TextDelta,
    Tokens,
)
from vivace.conversation.response import open_response, usage_of
from vivace.conversation.turn import Turn
from vivace.protocol.codec import decode_create
from vivace.protocol.events import (
    ContentPartAdded,
    ContentPartDone,
    CustomInputDelta,
    CustomInputDone,
    FunctionArgumentsDelta,
    FunctionArgumentsDone,
    IncompleteDetails,
    OutputItemAdded,
    OutputItemDone,
    OutputItemInterrupted,
    OutputTextDelta,
    OutputTextDone,
    QueuePlace,
    ReasoningTextDelta,
    ReasoningTextDone,
    Response,
    ResponseCompleted,
    ResponseCreated,
    ResponseEvent,
    ResponseFailed,
    ResponseIncomplete,
    ResponseInProgress,
    ResponseQueued,
)
from vivace.protocol.items import (
    CustomToolCall,
    FunctionCall,
    Item,
    Message,
    Part,
    Reasoning,
    ToolCall,
    text_of,
)
from vivace.protocol.requests import CreateBody, CreateResponse, ReasoningConfig

TERMINAL = (ResponseCompleted, ResponseIncomplete, ResponseFailed)
SOME = Tokens(input=10, output=4, cached=8, reasoning=1)


def new_turn(lane: str | None = None, **body: Any) -> Turn:
    response = open_response(CreateResponse(CreateBody(**body)), "resp_1", "m", 100)
    return Turn(response, lane)


def names(events: list[ResponseEvent]) -> list[str]:
    return [str(type(event).__struct_config__.tag).removeprefix("response.") for event in events]


def text_in(item: Item) -> str:
    match item:
        case Message():
            return text_of(item.content)
        case Reasoning():
            return text_of(item.content or ())
        case FunctionCall():
            return item.arguments
        case CustomToolCall():
            return item.input
    raise AssertionError(item)


# -- for any sequence -----------------------------------------------------------------------------

texts = st.text(max_size=6)
deltas: st.SearchStrategy[Delta] = st.one_of(
    st.builds(TextDelta, texts),
    st.builds(ReasoningDelta, texts),
    st.builds(
        CallOpened,
        st.sampled_from("fg"),
        st.booleans(),
        st.sampled_from([None, "space"]),
        st.sampled_from([None, "call_given"]),
    ),
    st.builds(CallText, texts),
)
ENDINGS = ("stop", "length", "interrupt", "steer", "cancel", "fail")
endings = st.sampled_from(ENDINGS)


def end(turn: Turn, how: str) -> list[ResponseEvent]:
    match how:
        case "interrupt":
            return turn.interrupt(200)
        case "steer":
            return turn.steer(200)
        case "cancel":
            return turn.cancel(200)
        case "fail":
            return turn.fail("server_error", "gone", 200)
        case "length":
            return turn.feed(Finished("length", SOME), 200)
    return turn.feed(Finished("stop", SOME), 200)


def play(said: list[Delta], how: str, **body: Any) -> tuple[Turn, list[ResponseEvent]]:
    turn = new_turn(**body)
    events = turn.begin()
    for delta in said:
        events += turn.feed(delta, 150)
    return turn, events + end(turn, how)


many = settings(deadline=None, max_examples=examples(100))
told = given(st.lists(deltas, max_size=20), endings)


@many
@told
def test_events_are_numbered_without_gap(said: list[Delta], how: str) -> None:
    _, events = play(said, how)
    assert [event.sequence_number for event in events] == list(range(len(events)))


@many
@told
def test_there_is_one_end_and_it_is_the_last_event(said: list[Delta], how: str) -> None:
    turn, events = play(said, how)
    assert [event for event in events if isinstance(event, TERMINAL)] == events[-1:]
    assert turn.ended


@many
@told
def test_what_comes_after_the_end_is_dropped(said: list[Delta], how: str) -> None:
    turn, _ = play(said, how)
    ended = turn.response
    late = [event for delta in said for event in turn.feed(delta, 300)]
    for again in ENDINGS:
        late += end(turn, again)
    assert late + turn.begin() == []
    assert turn.response is ended


@many
@told
def test_every_item_that_is_added_is_done_interrupted_or_lost_to_a_failure(
    said: list[Delta], how: str
) -> None:
    _, events = play(said, how)
    open_items: list[tuple[int, str | None]] = []
    for event in events:
        match event:
            case OutputItemAdded():
                assert not open_items, "one item at a time"
                open_items.append((event.output_index, event.item.id))
            case OutputItemDone():
                assert open_items.pop() == (event.output_index, event.item.id)
            case OutputItemInterrupted():
                assert open_items.pop() == (event.output_index, event.item_id)
            case ResponseFailed():
                open_items.clear()
    assert not open_items


@many
@told
def test_an_item_is_the_same_when_done_and_in_the_response(said: list[Delta], how: str) -> None:
    turn, events = play(said, how)
    done = [event for event in events if isinstance(event, OutputItemDone)]
    assert [event.item for event in done] == turn.response.output
    assert [event.output_index for event in done] == list(range(len(done)))
    last = events[-1]
    assert isinstance(last, TERMINAL)
    assert last.response == turn.response


DELTAS = (OutputTextDelta, ReasoningTextDelta, FunctionArgumentsDelta, CustomInputDelta)


@many
@told
def test_deltas_add_up_to_the_text_that_is_done(said: list[Delta], how: str) -> None:
    _, events = play(said, how)
    grown: dict[str | None, str] = {}
    done: dict[str | None, str] = {}
    for event in events:
        match event:
            case _ if isinstance(event, DELTAS):
                grown[event.item_id] = grown.get(event.item_id, "") + event.delta
            case OutputTextDone() | ReasoningTextDone():
                done[event.item_id] = event.text
            case FunctionArgumentsDone():
                done[event.item_id] = event.arguments
            case CustomInputDone():
                done[event.item_id] = event.input
            case OutputItemDone():
                assert done[event.item.id] == grown.get(event.item.id, "") == text_in(event.item)


@many
@told
def test_every_part_that_is_added_is_done_with_its_item(said: list[Delta], how: str) -> None:
    _, events = play(said, how)
    parts: list[str] = []
    whole: list[Part] = []
    for event in events:
        match event:
            case ContentPartAdded():
                assert text_of([event.part]) == ""
                parts.append(event.item_id)
            case ContentPartDone():
                assert parts.pop() == event.item_id
                whole = [event.part]
            case OutputItemDone(item=Message() | Reasoning()):
                assert not parts
                assert event.item.content == whole  # type: ignore[union-attr]


@many
@given(st.lists(deltas, max_size=20))
def test_nothing_an_engine_says_is_lost(said: list[Delta]) -> None:
    turn, _ = play(said, "stop")
    expected = ""
    in_call = False
    for delta in said:
        if isinstance(delta, CallOpened):
            in_call = True
        elif isinstance(delta, CallText):
            expected += delta.text if in_call else ""
        else:
            assert isinstance(delta, TextDelta | ReasoningDelta)
            in_call = False
            expected += delta.text
    assert "".join(text_in(item) for item in turn.response.output) == expected


@many
@given(st.lists(deltas, max_size=20), st.integers(1, 4))
def test_calls_beyond_their_limit_are_ignored_and_nothing_else(
    said: list[Delta], most: int
) -> None:
    limited = play(said, "stop", max_tool_calls=most)[0].response
    free = play(said, "stop")[0].response

    def calls(response: Response) -> list[str]:
        return [text_in(item) for item in response.output if isinstance(item, ToolCall)]

    def rest(response: Response) -> list[str]:
        return [text_in(item) for item in response.output if not isinstance(item, ToolCall)]

    assert calls(limited) == calls(free)[:most]
    assert rest(limited) == rest(free)
    assert limited.max_tool_calls == most


@many
@given(st.lists(deltas, max_size=10), endings, st.sampled_from([None, "a", "lane.2"]))
def test_events_of_a_named_lane_carry_its_name(
    said: list[Delta], how: str, lane: str | None
) -> None:
    turn = new_turn(lane)
    events = [*turn.begin(), *(e for delta in said for e in turn.feed(delta, 1)), *end(turn, how)]
    assert {event.stream_id for event in events} == {lane or UNSET}


# -- the order of the wire ------------------------------------------------------------------------


def test_text_is_told_in_the_order_of_the_wire() -> None:
    _, events = play([TextDelta("Hel"), TextDelta("lo")], "stop")
    assert names(events) == [
        "created",
        "in_progress",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "completed",
    ]


@pytest.mark.parametrize(
    ("custom", "word"), [(False, "function_call_arguments"), (True, "custom_tool_call_input")]
)
def test_a_call_is_told_in_the_order_of_the_wire(custom: bool, word: str) -> None:
    _, events = play([CallOpened("f", custom), CallText("{}")], "stop")
    assert names(events)[2:] == [
        "output_item.added",
        f"{word}.delta",
        f"{word}.done",
        "output_item.done",
        "completed",
    ]


def test_reasoning_then_text_then_two_calls_are_four_items() -> None:
    said: list[Delta] = [ReasoningDelta("hm"), TextDelta("so"), CallOpened("f"), CallOpened("f")]
    turn, _ = play(said, "stop")
    assert [type(item) for item in turn.response.output] == [
        Reasoning,
        Message,
        FunctionCall,
        FunctionCall,
    ]


def test_a_warm_up_says_nothing_and_completes() -> None:
    turn, events = play([], "stop")
    assert names(events) == ["created", "in_progress", "completed"]
    assert turn.response.output == []


def test_text_for_a_call_that_was_never_opened_is_dropped() -> None:
    turn, _ = play([TextDelta("a"), CallText("stray"), TextDelta("b")], "stop")
    assert [text_in(item) for item in turn.response.output] == ["ab"]


# -- calls ----------------------------------------------------------------------------------------


def test_a_call_keeps_the_engines_id_and_namespace() -> None:
    turn, _ = play([CallOpened("f", False, "space", "call_7")], "stop")
    (call,) = turn.response.output
    assert isinstance(call, FunctionCall)
    assert (call.call_id, call.namespace, call.name) == ("call_7", "space", "f")


def test_a_call_without_id_is_given_one() -> None:
    turn, _ = play([CallOpened("f", True), CallOpened("f", True)], "stop")
    first, second = turn.response.output
    assert isinstance(first, CustomToolCall)
    assert isinstance(second, CustomToolCall)
    assert first.call_id != second.call_id
    assert first.call_id.startswith("call_")


# -- ends -----------------------------------------------------------------------------------------


def test_a_completed_turn_says_when_and_at_what_cost() -> None:
    turn, _ = play([TextDelta("x")], "stop")
    response = turn.response
    assert (response.status, response.completed_at, response.created_at) == ("completed", 200, 100)
    assert response.incomplete_details is None
    assert response.usage == usage_of(SOME)


def test_what_the_engine_counted_is_told_as_the_wire_names_it() -> None:
    counted = Tokens(input=10, output=4, cached=8, reasoning=1, accepted=3, rejected=2)
    assert to_builtins(usage_of(counted)) == {
        "input_tokens": 10,
        "output_tokens": 4,
        "total_tokens": 14,
        "input_tokens_details": {"cached_tokens": 8},
        "output_tokens_details": {
            "reasoning_tokens": 1,
            "accepted_prediction_tokens": 3,
            "rejected_prediction_tokens": 2,
        },
    }


def test_a_turn_cut_by_its_length_keeps_the_half_item() -> None:
    turn, events = play([TextDelta("half")], "length")
    assert isinstance(events[-1], ResponseIncomplete)
    response = turn.response
    assert response.incomplete_details is not None
    assert response.incomplete_details.reason == "max_output_tokens"
    (item,) = response.output
    assert isinstance(item, Message)
    assert item.status == "incomplete"
    assert response.completed_at is None
    assert response.usage == usage_of(SOME)


def test_an_interrupt_drops_the_item_in_the_making_and_keeps_the_whole_ones() -> None:
    turn, events = play([ReasoningDelta("hm"), TextDelta("half")], "interrupt")
    assert names(events)[-2:] == ["output_item.interrupted", "incomplete"]
    response = turn.response
    assert [type(item) for item in response.output] == [Reasoning]
    assert response.incomplete_details is not None
    assert response.incomplete_details.reason == "interrupted"


def test_a_steer_keeps_text_in_the_making_as_far_as_it_came() -> None:
    turn, events = play([ReasoningDelta("hm"), TextDelta("half")], "steer")
    assert names(events)[-2:] == ["output_item.done", "incomplete"]
    response = turn.response
    assert [item.status for item in response.output] == ["completed", "incomplete"]  # type: ignore[union-attr]
    assert response.incomplete_details is not None
    assert response.incomplete_details.reason == "steered"


def test_a_steer_drops_half_a_call_and_keeps_a_whole_one() -> None:
    said: list[Delta] = [CallOpened("f"), CallText("{}"), CallOpened("g"), CallText('{"a')]
    turn, events = play(said, "steer")
    assert names(events)[-2:] == ["output_item.interrupted", "incomplete"]
    assert [item.name for item in turn.response.output] == ["f"]  # type: ignore[union-attr]


def test_a_steer_may_wait_for_the_item_in_the_making() -> None:
    turn = new_turn()
    turn.begin()
    assert not turn.steer_with_item()  # there is none yet
    turn.feed(TextDelta("whole"), 150)
    assert turn.steer_with_item()
    turn.feed(TextDelta(" sentence"), 150)
    assert not turn.ended
    events = turn.feed(CallOpened("f"), 150)
    assert names(events)[-2:] == ["output_item.done", "incomplete"]
    assert [item.status for item in turn.response.output] == ["completed"]  # type: ignore[union-attr]
    assert turn.response.incomplete_details == IncompleteDetails("steered")


def test_a_cancelled_turn_ends_as_incomplete_on_the_wire() -> None:
    turn, events = play([TextDelta("half")], "cancel")
    assert isinstance(events[-1], ResponseIncomplete)
    assert turn.response.status == turn.status == "cancelled"
    assert [item.status for item in turn.response.output] == ["incomplete"]  # type: ignore[union-attr]
    assert turn.response.incomplete_details == IncompleteDetails("cancelled")


def test_a_failed_turn_says_why() -> None:
    turn, events = play([TextDelta("half")], "fail")
    assert isinstance(events[-1], ResponseFailed)
    assert turn.response.error is not None
    assert (turn.response.error.code, turn.response.error.message) == ("server_error", "gone")


@pytest.mark.parametrize("how", ["cancel", "fail"])
def test_a_turn_that_ends_before_it_began_is_still_created_first(how: str) -> None:
    events = end(new_turn(), how)
    assert [event.sequence_number for event in events] == [0, 1]
    assert isinstance(events[0], ResponseCreated)
    assert isinstance(events[1], TERMINAL)


def test_nothing_is_said_before_a_turn_begins() -> None:
    assert new_turn().feed(TextDelta("early"), 1) == []


def test_a_turn_begins_once() -> None:
    turn = new_turn()
    first = turn.begin()
    assert isinstance(first[1], ResponseInProgress)
    assert first[1].response.status == "in_progress"
    assert turn.begin() == []


def test_a_turn_that_waits_says_where_it_stands_until_it_begins() -> None:
    turn = new_turn()
    events = turn.wait(3, 1.26)
    assert names(events) == ["created", "queued"]
    assert isinstance(events[1], ResponseQueued)
    assert (events[1].queue, events[1].response.status) == (QueuePlace(3, 1.3), "queued")
    assert names(turn.wait(1, 0.5)) == ["queued"]
    assert names(turn.begin()) == ["in_progress"]
    assert turn.wait(1, 0.5) == []


@pytest.mark.parametrize("how", ["stop", "length"])
@pytest.mark.parametrize("custom", [True, False])
def test_a_call_is_open_and_empty_when_added_and_whole_or_not_when_done(
    custom: bool, how: str
) -> None:
    _, events = play([CallOpened("f", custom, "space"), CallText("{}")], how)
    [added] = (event.item for event in events if isinstance(event, OutputItemAdded))
    [done] = (event.item for event in events if isinstance(event, OutputItemDone))
    assert isinstance(added, ToolCall)
    assert isinstance(done, ToolCall)
    assert (text_in(added), added.status) == ("", "in_progress")
    assert (text_in(done), done.status) == ("{}", "completed" if how == "stop" else "incomplete")
    assert added.namespace == done.namespace == "space"


def test_a_message_is_the_assistants_and_empty_when_it_is_added() -> None:
    _, events = play([TextDelta("x")], "stop")
    [added] = (event.item for event in events if isinstance(event, OutputItemAdded))
    assert isinstance(added, Message)
    assert (added.role, added.content, added.status) == ("assistant", [], "in_progress")
    assert isinstance(events[0], ResponseCreated)
    assert events[0].response.id == "resp_1"


def test_reasoning_is_empty_when_it_is_added() -> None:
    _, events = play([ReasoningDelta("x")], "stop")
    [added] = (event.item for event in events if isinstance(event, OutputItemAdded))
    assert isinstance(added, Reasoning)
    assert (added.summary, added.content, added.status) == ([], [], "in_progress")


# -- the response object --------------------------------------------------------------------------


def test_the_response_echoes_what_was_asked() -> None:
    asked = decode_create(
        b'{"instructions":"brief","temperature":0,"top_p":0,"store":false,"truncation":"auto",'
        b'"parallel_tool_calls":false,"max_output_tokens":5,"metadata":{"a":"b"},'
        b'"tools":[{"type":"web_search"}],"tool_choice":"none","previous_response_id":"resp_0",'
        b'"presence_penalty":0.5,"frequency_penalty":-0.5,"max_tool_calls":3,'
        b'"safety_identifier":"s","prompt_cache_key":"k","reasoning":{"effort":"low"}}'
    )
    response = open_response(asked, "resp_1", "m", 7)
    assert (response.id, response.model, response.created_at) == ("resp_1", "m", 7)
    assert (response.presence_penalty, response.frequency_penalty) == (0.5, -0.5)
    assert response.max_tool_calls == 3
    assert (response.safety_identifier, response.prompt_cache_key) == ("s", "k")
    assert response.reasoning == ReasoningConfig("low")
    assert (response.temperature, response.top_p, response.store) == (0, 0, False)
    assert (response.truncation, response.parallel_tool_calls) == ("auto", False)
    assert (response.max_output_tokens, response.metadata) == (5, {"a": "b"})
    assert (response.instructions, response.previous_response_id) == ("brief", "resp_0")
    assert bytes(response.tools) == b'[{"type":"web_search"}]'
    assert (response.tool_choice, response.status) == ("none", "queued")


def test_the_response_shows_defaults_for_what_was_not_asked() -> None:
    response = open_response(decode_create(b'{"input":"x"}'), "resp_1", "m", 7)
    assert (response.temperature, response.top_p, response.store) == (1, 1, True)
    assert (response.truncation, response.parallel_tool_calls) == ("disabled", True)
    assert (response.presence_penalty, response.frequency_penalty) == (0, 0)
    assert (response.top_logprobs, response.background) == (0, False)
    assert response.metadata == {}
    assert bytes(response.tools) == b"[]"


def test_a_response_says_whether_it_is_text_for_a_gap() -> None:
    gap = open_response(decode_create(b'{"fill":{"prefix":"x"}}'), "resp_1", "m", 7)
    chat = open_response(decode_create(b'{"input":"x"}'), "resp_1", "m", 7)
    assert (gap.fill, chat.fill) == (True, UNSET)

"""Whether a conversation fits, and what goes when it does not."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct

from vivace.conversation.context import fit, refuse_images
from vivace.errors import InvalidRequest
from vivace.protocol.items import (
    AdditionalTools,
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCall,
    FunctionCallOutput,
    InputFile,
    InputImage,
    InputText,
    Item,
    Message,
    Part,
    Role,
    ToolCall,
    ToolOutput,
    text_of,
)

many = settings(deadline=None, max_examples=150)


def said(text: str, role: Role = "user") -> Message:
    return Message(role=role, content=text)


def call(number: int, text: str = "") -> Item:
    if number % 2:
        return FunctionCall(call_id=f"c{number}", name="f", arguments=text)
    return CustomToolCall(call_id=f"c{number}", name="f", input=text)


def output(number: int, text: str = "") -> Item:
    kind = FunctionCallOutput if number % 2 else CustomToolCallOutput
    return kind(call_id=f"c{number}", output=text)


def size(item: Item) -> int:
    match item:
        case Message():
            return 1 + len(text_of(item.content))
        case FunctionCall():
            return 1 + len(item.arguments)
        case CustomToolCall():
            return 1 + len(item.input)
        case FunctionCallOutput() | CustomToolCallOutput():
            return 1 + len(text_of(item.output))
    return 1


def count(items: Sequence[Item]) -> int:
    return sum(size(item) for item in items)


def standing(item: Item) -> bool:
    return isinstance(item, AdditionalTools) or (
        isinstance(item, Message) and item.role in ("system", "developer")
    )


class Talk(Struct):
    past: list[Item]
    new: list[Item]


@st.composite
def talks(draw: st.DrawFn) -> Talk:
    """A conversation in which every output follows its call, at any distance."""
    items: list[Item] = []
    unanswered: list[int] = []
    for number in range(draw(st.integers(0, 12))):
        text = "x" * draw(st.integers(0, 6))
        kind = draw(st.sampled_from(["user", "assistant", "developer", "tools", "call", "output"]))
        if kind == "call":
            unanswered.append(number)
            items.append(call(number, text))
        elif kind == "output" and unanswered:
            index = draw(st.integers(0, len(unanswered) - 1))
            items.append(output(unanswered.pop(index), text))
        elif kind == "tools":
            items.append(AdditionalTools(tools=[]))
        elif kind == "developer":
            items.append(said(text, "developer"))
        else:
            items.append(said(text, "assistant" if kind == "assistant" else "user"))
    cut = draw(st.integers(0, len(items)))
    return Talk(items[:cut], items[cut:])


def fitted(talk: Talk, limit: int, *, fixed: int = 0, truncate: bool = True) -> list[Item] | None:
    try:
        return fit(
            talk.past,
            talk.new,
            known=0,
            fixed=fixed,
            limit=limit,
            count=count,
            truncate=truncate,
        )
    except InvalidRequest as error:
        if error.code != "context_length_exceeded":
            raise
        return None


limits = st.integers(1, 60)
fixeds = st.integers(0, 10)


@many
@given(talks(), limits, fixeds)
def test_what_is_kept_leaves_room_for_an_answer(talk: Talk, limit: int, fixed: int) -> None:
    kept = fitted(talk, limit, fixed=fixed)
    assert kept is None or fixed + count(kept) < limit


@many
@given(talks(), limits)
def test_nothing_of_this_turn_and_no_standing_instruction_goes(talk: Talk, limit: int) -> None:
    kept = fitted(talk, limit)
    if kept is None:
        return
    ids = {id(item) for item in kept}
    must = [*(item for item in talk.past if standing(item)), *talk.new]
    assert [item for item in must if id(item) not in ids] == []


@many
@given(talks(), limits)
def test_a_call_and_its_output_stay_or_go_together(talk: Talk, limit: int) -> None:
    kept = fitted(talk, limit)
    if kept is None:
        return
    whole = [*talk.past, *talk.new]
    answered = {item.call_id for item in whole if isinstance(item, ToolOutput)}
    calls = {item.call_id for item in kept if isinstance(item, ToolCall)}
    outputs = {item.call_id for item in kept if isinstance(item, ToolOutput)}
    assert calls & answered == outputs


@many
@given(talks(), limits)
def test_what_is_kept_stays_in_order(talk: Talk, limit: int) -> None:
    kept = fitted(talk, limit)
    if kept is None:
        return
    places = {id(item): place for place, item in enumerate([*talk.past, *talk.new])}
    order = [places[id(item)] for item in kept]
    assert order == sorted(set(order))


@many
@given(talks(), limits)
def test_it_is_refused_only_if_what_must_stay_is_too_long(talk: Talk, limit: int) -> None:
    answered = {item.call_id for item in talk.new if isinstance(item, ToolOutput)}
    must = [
        item
        for item in talk.past
        if standing(item) or (isinstance(item, ToolCall) and item.call_id in answered)
    ]
    fits = count([*must, *talk.new]) < limit
    assert (fitted(talk, limit) is not None) == fits


@many
@given(talks(), limits, fixeds)
def test_without_truncation_it_is_all_or_nothing(talk: Talk, limit: int, fixed: int) -> None:
    whole = [*talk.past, *talk.new]
    kept = fitted(talk, limit, fixed=fixed, truncate=False)
    assert kept == (whole if fixed + count(whole) < limit else None)


def test_the_oldest_goes_first() -> None:
    talk = Talk([said("aaaa"), said("bbbb"), said("cccc")], [said("d")])
    assert fitted(talk, 13) == [said("bbbb"), said("cccc"), said("d")]


def test_the_call_this_turn_answers_stays_though_it_is_the_oldest() -> None:
    talk = Talk([call(1, "xxxx"), said("aaaa")], [output(1, "y")])
    assert fitted(talk, 9) == [call(1, "xxxx"), output(1, "y")]


def test_what_an_engine_has_counted_counts_more_than_the_estimate() -> None:
    past, new = [said("aaaa"), said("bbbb")], [said("c")]
    with pytest.raises(InvalidRequest, match="102 tokens"):
        fit(past, new, known=100, fixed=0, limit=102, count=count, truncate=False)
    assert fit(past, new, known=5, fixed=0, limit=8, count=count, truncate=False) == [*past, *new]


def test_a_conversation_counted_as_too_long_is_cut_though_the_estimate_is_short() -> None:
    past, new = [said("aaaa"), said("bbbb")], [said("c")]
    kept = fit(past, new, known=100, fixed=0, limit=99, count=count, truncate=True)
    assert kept == [said("bbbb"), *new]


# -- images ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("part", "what"), [(InputImage("http://x"), "images"), (InputFile("f"), "files")]
)
def test_a_model_that_cannot_see_says_so(part: Part, what: str) -> None:
    items: list[Item] = [
        said("look"),
        Message(role="user", content=[InputText("at"), part]),
    ]
    with pytest.raises(InvalidRequest, match=what) as caught:
        refuse_images(items, "blind")
    assert caught.value.param == "input[1].content[1]"


def test_an_image_a_tool_returned_is_refused_too() -> None:
    items: list[Item] = [FunctionCallOutput(call_id="c", output=[InputImage("http://x")])]
    with pytest.raises(InvalidRequest) as caught:
        refuse_images(items, "blind")
    assert caught.value.param == "input[0].output[0]"


def test_text_is_seen() -> None:
    refuse_images([said("a"), output(1, "b"), call(1)], "blind")

"""Whether a conversation fits, and what goes when it does not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule
from msgspec import Struct

from tests.support.examples import examples
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

many = settings(deadline=None, max_examples=examples(150))


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


Kind = Role | Literal["tools", "call", "output"]
KINDS: tuple[Kind, ...] = (*get_args(Role), "tools", "call", "output")


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
        kind = draw(st.sampled_from(KINDS))
        if kind == "call":
            unanswered.append(number)
            items.append(call(number, text))
        elif kind == "output" and unanswered:
            index = draw(st.integers(0, len(unanswered) - 1))
            items.append(output(unanswered.pop(index), text))
        elif kind == "tools":
            items.append(AdditionalTools(tools=[]))
        else:
            role: Role = "user" if kind == "output" else kind
            items.append(said(text, role))
    cut = draw(st.integers(0, len(items)))
    return Talk(items[:cut], items[cut:])


def fitted(
    talk: Talk, limit: int, *, known: int = 0, fixed: int = 0, truncate: bool = True
) -> list[Item] | None:
    try:
        return fit(
            talk.past,
            talk.new,
            known=known,
            fixed=fixed,
            limit=limit,
            count=count,
            truncate=truncate,
        ).items
    except InvalidRequest as error:
        if error.code != "context_length_exceeded":
            raise
        return None


limits = st.integers(1, 60)
fixeds = st.integers(0, 10)
knowns = st.integers(0, 120)
"""What an engine may have counted, however far from what is guessed here."""


@many
@given(talks(), limits, fixeds, knowns)
def test_what_is_kept_leaves_room_for_an_answer(
    talk: Talk, limit: int, fixed: int, known: int
) -> None:
    kept = fitted(talk, limit, known=known, fixed=fixed)
    if kept is None:
        return
    guessed = fixed + count([*talk.past, *talk.new])
    total = fixed + known + count(talk.new) if known else guessed
    assert (fixed + count(kept)) * total < limit * max(1, guessed)


@many
@given(talks(), limits, knowns)
def test_nothing_of_this_turn_and_no_standing_instruction_goes(
    talk: Talk, limit: int, known: int
) -> None:
    kept = fitted(talk, limit, known=known)
    if kept is None:
        return
    ids = {id(item) for item in kept}
    must = [*(item for item in talk.past if standing(item)), *talk.new]
    assert [item for item in must if id(item) not in ids] == []


@many
@given(talks(), limits, knowns)
def test_a_call_and_its_output_stay_or_go_together(talk: Talk, limit: int, known: int) -> None:
    kept = fitted(talk, limit, known=known)
    if kept is None:
        return
    whole = [*talk.past, *talk.new]
    answered = {item.call_id for item in whole if isinstance(item, ToolOutput)}
    calls = {item.call_id for item in kept if isinstance(item, ToolCall)}
    outputs = {item.call_id for item in kept if isinstance(item, ToolOutput)}
    assert calls & answered == outputs


@many
@given(talks(), limits, knowns)
def test_what_is_kept_stays_in_order(talk: Talk, limit: int, known: int) -> None:
    kept = fitted(talk, limit, known=known)
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
@given(talks(), limits, fixeds, knowns)
def test_without_truncation_it_is_all_or_nothing(
    talk: Talk, limit: int, fixed: int, known: int
) -> None:
    whole = [*talk.past, *talk.new]
    kept = fitted(talk, limit, known=known, fixed=fixed, truncate=False)
    total = fixed + (known + count(talk.new) if known else count(whole))
    assert kept == (whole if total < limit else None)


class Conversations(RuleBasedStateMachine):
    """Turn after turn: what is known of the past is what an engine counted of what it was shown,
    and what was dropped before that."""

    @initialize(limit=st.integers(20, 80))
    def begin(self, limit: int) -> None:
        self.limit = limit
        self.past: list[Item] = []
        self.known = 0
        self.unanswered: list[int] = []
        self.number = 0

    @rule(
        text=st.integers(0, 12),
        developer=st.booleans(),
        answers=st.booleans(),
        says=st.integers(1, 12),
        calls=st.booleans(),
        fixed=st.integers(0, 6),
        counted=st.sampled_from([True, True, True, False]),
    )
    def takes_a_turn(
        self,
        text: int,
        developer: bool,
        answers: bool,
        says: int,
        calls: bool,
        fixed: int,
        counted: bool,
    ) -> None:
        new: list[Item] = [said("x" * text, "developer" if developer and text < 2 else "user")]
        if answers and self.unanswered:
            new.insert(0, output(self.unanswered.pop(0), "x" * text))
        try:
            shown = fit(
                self.past,
                new,
                known=self.known,
                fixed=fixed,
                limit=self.limit,
                count=count,
                truncate=True,
            )
        except InvalidRequest:
            must = [each for each in self.past if standing(each) or isinstance(each, ToolCall)]
            assert fixed + count([*must, *new]) >= self.limit
            return
        self.check(shown.items, new, fixed)
        answer: list[Item] = [said("y" * says, "assistant")]
        if calls:
            self.number += 1
            self.unanswered.append(self.number)
            answer.append(call(self.number, "z"))
        read, written = fixed + count(shown.items), count(answer)
        self.past += [*new, *answer]
        self.known = read + written + shown.dropped - fixed if counted else 0
        assert self.known in (0, count(self.past))

    def check(self, shown: list[Item], new: list[Item], fixed: int) -> None:
        assert fixed + count(shown) < self.limit
        assert shown[len(shown) - len(new) :] == new
        ids = {id(item) for item in shown}
        assert all(id(item) in ids for item in self.past if standing(item))
        called = {item.call_id for item in shown if isinstance(item, ToolCall)}
        answered = {item.call_id for item in shown if isinstance(item, ToolOutput)}
        assert answered <= called
        past = {item.call_id for item in self.past if isinstance(item, ToolOutput)}
        assert called & past <= answered


TestAnyConversation = Conversations.TestCase
TestAnyConversation.settings = settings(
    deadline=None, max_examples=examples(100), stateful_step_count=30
)


def test_the_oldest_goes_first() -> None:
    talk = Talk([said("aaaa"), said("bbbb"), said("cccc")], [said("d")])
    assert fitted(talk, 13) == [said("bbbb"), said("cccc"), said("d")]


def test_the_call_this_turn_answers_stays_though_it_is_the_oldest() -> None:
    talk = Talk([call(1, "xxxx"), said("aaaa")], [output(1, "y")])
    assert fitted(talk, 9) == [call(1, "xxxx"), output(1, "y")]


def test_what_an_engine_has_counted_counts_more_than_the_estimate() -> None:
    talk = Talk([said("aaaa"), said("bbbb")], [said("c")])
    assert fitted(talk, 102, known=100, truncate=False) is None
    assert fitted(talk, 8, known=5, truncate=False) == [*talk.past, *talk.new]


def test_a_conversation_counted_as_too_long_is_cut_though_the_estimate_is_short() -> None:
    talk = Talk([said("aaaa"), said("bbbb")], [said("c")])
    assert fitted(talk, 99, known=100) == [said("bbbb"), said("c")]


@pytest.mark.parametrize(("known", "kept"), [(40, 4), (80, 2), (20, 8), (160, 1)])
def test_items_are_measured_as_the_engine_measured_the_whole(known: int, kept: int) -> None:
    """Eight items that are guessed to be five tokens each, and are more or less to the engine."""
    talk = Talk([said("aaaa") for _ in range(8)], [])
    assert len(fitted(talk, 21, known=known) or ()) == kept


def test_who_asks_too_much_is_told_so_of_the_input() -> None:
    with pytest.raises(InvalidRequest) as caught:
        fit([], [said("aaaa")], known=0, fixed=0, limit=2, count=count, truncate=False)
    assert (caught.value.code, caught.value.param) == ("context_length_exceeded", "input")


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
    assert caught.value.code == "unsupported_content"


def test_an_image_a_tool_returned_is_refused_too() -> None:
    items: list[Item] = [FunctionCallOutput(call_id="c", output=[InputImage("http://x")])]
    with pytest.raises(InvalidRequest) as caught:
        refuse_images(items, "blind")
    assert caught.value.param == "input[0].output[0]"


def test_text_is_seen() -> None:
    refuse_images([said("a"), output(1, "b"), call(1)], "blind")

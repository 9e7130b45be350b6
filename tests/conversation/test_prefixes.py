"""Conversations that are sent whole find the turn that they go on from."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from vivace.conversation.chain import Link, past_items
from vivace.conversation.prefixes import mark_of, marks
from vivace.protocol.items import (
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCall,
    FunctionCallOutput,
    InputImage,
    InputText,
    Item,
    Message,
    OutputText,
    Reasoning,
    SummaryText,
)


def asked(text: str) -> Message:
    return Message(role="user", content=text)


def answered(text: str) -> Message:
    return Message(role="assistant", content=text)


CALL = FunctionCall(call_id="c", name="f", arguments='{"a": [1, "é"], "b": null}')
OUTPUT = FunctionCallOutput(call_id="c", output="done")
THOUGHT = Reasoning(summary=[SummaryText("Hm.")])


def found(known: Link, items: Sequence[Item]) -> int | None:
    """Behind how many of these items the known turn is gone on from."""
    return next((at for at, mark in marks(items) if mark == known.mark), None)


def turn(parent: Link | None, said: Sequence[Item], output: Sequence[Item]) -> Link:
    mark = mark_of(parent, (*said, *output))
    return Link("resp", parent, tuple(said), tuple(output), mark=mark)


TURN = turn(None, [asked("Go.")], [THOUGHT, answered("I will."), CALL])
SENT: list[Item] = [asked("Go."), answered("I will."), CALL]


def test_who_says_the_same_again_goes_on_from_there() -> None:
    assert found(TURN, [*SENT, OUTPUT]) == 3


def test_the_newest_known_turn_is_found_first() -> None:
    second = turn(TURN, [OUTPUT], [answered("Done.")])
    items = [*SENT, OUTPUT, answered("Done."), asked("Thanks.")]
    order = [mark for _, mark in marks(items)]
    assert order.index(second.mark) < order.index(TURN.mark)


def test_nothing_is_gone_on_from_where_nothing_new_is_said() -> None:
    assert found(TURN, SENT) is None


@pytest.mark.parametrize(
    "again",
    [
        [replace(each, id=f"other_{place}") for place, each in enumerate(SENT)],
        [asked("Go."), THOUGHT, *SENT[1:]],
        [*SENT[:2], replace(CALL, arguments='{"b":null,"a":[1,"\\u00e9"]}')],
        [replace(asked(""), content=[InputText("G"), InputText("o.")]), *SENT[1:]],
        [SENT[0], replace(answered(""), content=[OutputText("I will.\n")]), CALL],
        [*SENT[:2], answered("\n\n"), CALL],
    ],
    ids=["ids", "thoughts", "spacing", "parts", "white space", "nothing said"],
)
def test_what_makes_no_difference_makes_none(again: list[Item]) -> None:
    assert found(TURN, [*again, OUTPUT]) == len(again)


@pytest.mark.parametrize(
    "again",
    [
        [asked("Go. "), *SENT[1:]],
        [replace(asked("Go."), role="system"), *SENT[1:]],
        [SENT[0], answered("I won't."), CALL],
        [*SENT[:2], replace(CALL, arguments='{"a": [1]}')],
        [*SENT[:2], replace(CALL, name="g")],
        [*SENT[:2], replace(CALL, call_id="d")],
        [replace(asked(""), content=[InputText("Go."), InputImage("data:,x")]), *SENT[1:]],
        [SENT[1], SENT[0], CALL],
        SENT[:2],
    ],
    ids=["user", "role", "answer", "arguments", "name", "call", "image", "order", "less"],
)
def test_what_was_said_otherwise_is_another_conversation(again: list[Item]) -> None:
    assert found(TURN, [*again, OUTPUT]) is None


def test_arguments_that_are_no_json_are_compared_as_they_are() -> None:
    broken = replace(CALL, arguments='{"a": ' + "[" * 5000)
    known = turn(None, [asked("Go.")], [broken])
    assert found(known, [asked("Go."), broken, OUTPUT]) == 2


def test_a_turn_after_a_stored_one_has_the_mark_of_all_that_was_said() -> None:
    stored = Link("resp", None, (asked("Go."),), (answered("I will."),))
    after = turn(stored, [asked("And?")], [answered("Done.")])
    assert found(after, [*past_items(after), asked("Thanks.")]) == 4


TEXTS = st.text(max_size=3)
ITEMS: st.SearchStrategy[Item] = st.one_of(
    st.builds(asked, TEXTS),
    st.builds(answered, TEXTS),
    st.builds(lambda value: replace(CALL, arguments=json.dumps(value)), st.integers(0, 3)),
    st.builds(lambda text: replace(OUTPUT, output=text), TEXTS),
    st.builds(lambda text: CustomToolCall(call_id="k", name="p", input=text), TEXTS),
    st.builds(lambda text: CustomToolCallOutput(call_id="k", output=text), TEXTS),
    st.just(THOUGHT),
)


def meant(item: Item) -> Any:
    match item:
        case Reasoning():
            return None
        case Message(role="assistant", content=str(content)):
            return content.strip() or None
    return item


@settings(deadline=None)
@given(st.lists(st.tuples(st.lists(ITEMS, max_size=3), st.lists(ITEMS, max_size=2)), max_size=4))
def test_a_mark_is_the_same_however_a_conversation_was_cut_into_turns(
    turns: list[tuple[list[Item], list[Item]]],
) -> None:
    link: Link | None = None
    for said, output in turns:
        link = turn(link, said, output)
    whole = [item for said, output in turns for item in (*said, *output)]
    assert (link.mark if link else b"") == mark_of(None, whole)


@settings(deadline=None)
@given(st.lists(ITEMS, max_size=5), st.lists(ITEMS, max_size=5))
def test_two_marks_are_the_same_only_if_the_same_was_meant(
    one: list[Item], other: list[Item]
) -> None:
    same = [meant(each) for each in one if meant(each) is not None] == [
        meant(each) for each in other if meant(each) is not None
    ]
    assert (mark_of(None, one) == mark_of(None, other)) == same


def called(arguments: str) -> list[Item]:
    return [asked("Go."), FunctionCall(call_id="c", name="f", arguments=arguments), asked("On.")]


def test_very_long_arguments_are_the_same_only_as_they_stand() -> None:
    for length, same in ((1_000, True), (200_000, False)):
        arguments = json.dumps({"a": "x" * length, "b": [1, 2]})
        spaced = arguments.replace(", ", " ,  ")
        assert (marks(called(arguments)) == marks(called(spaced))) == same
        assert marks(called(arguments)) == marks(called(arguments))


def test_arguments_of_many_values_take_no_memory_to_be_marked() -> None:
    items = called("[" + ",".join(["[]"] * 1_000_000) + "]")
    tracemalloc.start()
    try:
        marks(items)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 20_000_000

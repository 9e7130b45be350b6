"""Turns that follow each other."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vivace.conversation.chain import Link, check_input, past_items, tools_in
from vivace.conversation.compaction import pack
from vivace.errors import InvalidRequest
from vivace.protocol.items import (
    AdditionalTools,
    Compaction,
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCall,
    FunctionCallOutput,
    FunctionTool,
    Item,
    ItemReference,
    Message,
)


def said(text: str) -> Message:
    return Message(id=f"msg_{text}", role="user", content=text)


CALL = FunctionCall(id="fc_1", call_id="c1", name="f", arguments="{}")
CUSTOM = CustomToolCall(id="ctc_1", call_id="c2", name="p", input="x")
OUTPUT = FunctionCallOutput(call_id="c1", output="done")


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=6))
def test_the_past_is_everything_said_oldest_first(shape: list[tuple[int, int]]) -> None:
    link: Link | None = None
    told: list[Item] = []
    for turn, (asked, answered) in enumerate(shape):
        new = tuple(said(f"{turn}.{index}") for index in range(asked + answered))
        link = Link(f"resp_{turn}", link, new[:asked], new[asked:])
        told += new
    assert past_items(link) == told


def test_a_very_long_chain_is_no_problem() -> None:
    link: Link | None = None
    for turn in range(5000):
        link = Link(f"resp_{turn}", link, (said(str(turn)),), ())
    assert len(past_items(link)) == 5000


def test_two_forks_share_their_past_and_nothing_else() -> None:
    root = Link("resp_0", None, (said("root"),), ())
    left = Link("resp_1", root, (said("left"),), ())
    right = Link("resp_2", root, (said("right"),), ())
    assert past_items(left) == [said("root"), said("left")]
    assert past_items(right) == [said("root"), said("right")]


def test_tools_that_came_as_items_are_found() -> None:
    tool = FunctionTool("f")
    assert list(tools_in([said("a"), AdditionalTools(tools=[tool]), said("b")])) == [tool]


@pytest.mark.parametrize(
    ("items", "past"),
    [
        ([OUTPUT], [CALL]),
        ([CALL, OUTPUT], []),
        ([CustomToolCallOutput(call_id="c2", output="x")], [CUSTOM]),
        ([said("a")], []),
    ],
)
def test_what_fits_the_conversation_is_taken(items: list[Item], past: list[Item]) -> None:
    assert check_input(items, past) == tuple(items)


def test_an_output_without_its_call_is_refused_by_name() -> None:
    with pytest.raises(InvalidRequest) as caught:
        check_input([said("a"), OUTPUT], [CUSTOM])
    assert (caught.value.code, caught.value.param) == ("tool_call_not_found", "input[1].call_id")


def test_a_reference_to_the_past_says_nothing_twice() -> None:
    assert check_input([ItemReference(id="msg_a"), said("b")], [said("a")]) == (said("b"),)


def test_a_reference_to_nothing_is_refused_by_name() -> None:
    with pytest.raises(InvalidRequest) as caught:
        check_input([ItemReference(id="msg_x")], [said("a")])
    assert (caught.value.code, caught.value.param) == ("item_not_found", "input[0].id")


def test_our_own_compaction_is_taken_and_a_foreign_one_is_not() -> None:
    ours = pack("summary", lambda prefix: f"{prefix}_1")
    assert check_input([ours], []) == (ours,)
    with pytest.raises(InvalidRequest) as caught:
        check_input([said("a"), Compaction(encrypted_content="foreign")], [])
    assert caught.value.param == "input[1].encrypted_content"

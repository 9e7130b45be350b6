"""Items as chat messages."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import Any

import pytest

from vivace.engines.base import Chat
from vivace.engines.messages import chat_messages, written
from vivace.engines.tool_forms import ToolForms
from vivace.protocol.items import (
    AdditionalTools,
    CustomTool,
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCall,
    FunctionCallOutput,
    FunctionTool,
    InputText,
    Item,
    Message,
    OutputText,
    Reasoning,
    ReasoningText,
    Refusal,
    Role,
)
from vivace.protocol.requests import Toolbox

BOX = Toolbox((FunctionTool("read"), CustomTool("free"), CustomTool("apply_patch")))


def messages(*items: Item, **chat: Any) -> list[dict[str, Any]]:
    return chat_messages(Chat(items=items, **chat), ToolForms(BOX))


def said(role: Role, text: str) -> Message:
    return Message(role=role, content=text)


def call(number: int, name: str = "read", arguments: str = "{}") -> FunctionCall:
    return FunctionCall(call_id=f"c{number}", name=name, arguments=arguments)


def output(number: int, text: str = "ok") -> FunctionCallOutput:
    return FunctionCallOutput(call_id=f"c{number}", output=text)


def as_message(number: int, name: str = "read", arguments: str = "{}") -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    return {"id": f"c{number}", "type": "function", "function": function}


def test_an_empty_conversation_has_no_messages() -> None:
    assert messages() == []


def test_instructions_come_first() -> None:
    assert messages(said("user", "hi"), instructions="Be brief.") == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "hi"},
    ]


@pytest.mark.parametrize("role", ["user", "assistant", "system"])
def test_roles_stay(role: Role) -> None:
    assert messages(said(role, "x")) == [{"role": role, "content": "x"}]


def test_a_developer_message_is_a_system_message_where_it_stands() -> None:
    told = messages(said("user", "a"), said("developer", "b"), said("user", "c"))
    assert [(each["role"], each["content"]) for each in told] == [
        ("user", "a"),
        ("system", "b"),
        ("user", "c"),
    ]


def test_parts_are_joined() -> None:
    parts = Message(role="user", content=[InputText("a"), InputText("b")])
    answer = Message(role="assistant", content=[OutputText("c"), Refusal("d")])
    assert [each["content"] for each in messages(parts, answer)] == ["ab", "cd"]


def test_text_and_calls_of_one_turn_are_one_message() -> None:
    told = messages(said("assistant", "I look."), call(1), call(2), output(1), output(2))
    assert told == [
        {
            "role": "assistant",
            "content": "I look.",
            "tool_calls": [as_message(1), as_message(2)],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "ok"},
        {"role": "tool", "tool_call_id": "c2", "content": "ok"},
    ]


def test_a_call_without_text_is_a_message_of_its_own() -> None:
    told = messages(said("user", "hi"), call(1))
    assert told[1:] == [{"role": "assistant", "content": "", "tool_calls": [as_message(1)]}]


def test_calls_of_two_turns_are_two_messages() -> None:
    told = messages(call(1), output(1), call(2), output(2))
    assert [each["role"] for each in told] == ["assistant", "tool", "assistant", "tool"]


def test_what_the_model_thought_is_left_out_and_parts_nothing() -> None:
    thought = Reasoning(content=[ReasoningText("hm")])
    told = messages(thought, said("assistant", "I look."), thought, call(1))
    assert told == [{"role": "assistant", "content": "I look.", "tool_calls": [as_message(1)]}]


def test_tools_sent_as_an_item_are_no_message() -> None:
    assert messages(AdditionalTools(tools=[FunctionTool("read")])) == []


def test_a_custom_call_is_told_as_the_function_the_model_was_offered() -> None:
    patch = "*** Begin Patch\n*** Update File: a\n@@\n-x\n+y\n*** End Patch"
    items: list[Item] = [
        CustomToolCall(call_id="c1", name="free", input="text"),
        CustomToolCall(call_id="c2", name="apply_patch", input=patch),
        CustomToolCallOutput(call_id="c2", output=[InputText("done")]),
    ]
    calls, last = messages(*items)
    free, change = calls["tool_calls"]
    assert free == as_message(1, "free", '{"input":"text"}')
    assert (change["id"], change["function"]["name"]) == ("c2", "apply_patch")
    lines = json.loads(change["function"]["arguments"])
    assert {key: text.rstrip("\n") for key, text in lines.items()} == {
        "path": "a",
        "old": "x",
        "new": "y",
    }
    assert last == {"role": "tool", "tool_call_id": "c2", "content": "done"}


# -- thoughts -------------------------------------------------------------------------------------


def thought(text: str) -> Reasoning:
    return Reasoning(content=[ReasoningText(text)])


def with_thoughts(*items: Item) -> list[tuple[str, str | None]]:
    kept = chat_messages(Chat(items=items), ToolForms(BOX), thoughts=True)
    return [(message["role"], message.get("reasoning_content")) for message in kept]


def test_thoughts_stand_in_the_message_that_they_led_to() -> None:
    items: list[Item] = [
        *(said("user", "u"), thought("first"), call(1), output(1)),
        *(thought("then"), said("assistant", "a"), call(2), output(2)),
    ]
    assert with_thoughts(*items) == [
        ("user", None),
        ("assistant", "first"),
        ("tool", None),
        ("assistant", "then"),
        ("tool", None),
    ]


def test_thoughts_of_one_message_are_joined() -> None:
    items: list[Item] = [
        thought("one"),
        thought("two"),
        said("assistant", "a"),
        thought("three"),
        call(1),
    ]
    assert with_thoughts(*items) == [("assistant", "one\ntwo\nthree")]


def test_thoughts_that_led_to_nothing_are_left_out() -> None:
    items: list[Item] = [
        said("assistant", "a"),
        thought("broken off"),
        said("user", "u"),
        thought("again"),
    ]
    assert with_thoughts(*items) == [("assistant", None), ("user", None)]


def test_thoughts_that_are_only_a_summary_or_a_secret_are_left_out() -> None:
    items: list[Item] = [
        Reasoning(encrypted_content="x"),
        Reasoning(content=[]),
        said("assistant", "a"),
    ]
    assert with_thoughts(*items) == [("assistant", None)]


def test_tools_that_come_between_get_no_thoughts() -> None:
    items: list[Item] = [
        said("assistant", "a"),
        thought("t"),
        AdditionalTools(tools=[]),
        said("user", "u"),
    ]
    assert with_thoughts(*items) == [("assistant", None), ("user", None)]


def test_without_being_asked_for_thoughts_stay_here() -> None:
    assert "reasoning_content" not in messages(thought("t"), said("assistant", "a"))[0]


def test_a_long_conversation_is_written_beside_the_event_loop_and_a_short_one_is_not() -> None:
    def writes(count: int) -> bool:
        chat = Chat(items=[said("user", "u")] * count)
        thread = asyncio.run(written(chat, threading.current_thread))
        return thread is threading.current_thread()

    assert writes(1000)
    assert not writes(1001)

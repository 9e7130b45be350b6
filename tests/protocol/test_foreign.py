"""Conversations that began on another server: every item is read, or skipped and counted."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from vivace.errors import InvalidRequest
from vivace.protocol.codec import Input, decode_create, decode_input
from vivace.protocol.foreign import OTHER
from vivace.protocol.items import (
    AdditionalTools,
    FunctionCall,
    FunctionCallOutput,
    FunctionTool,
    Message,
    Reasoning,
    text_of,
)

SHELL = {
    "type": "local_shell_call",
    "call_id": "c1",
    "status": "completed",
    "action": {"type": "exec", "command": ["ls", "-l"], "working_directory": "/srv"},
}
SEARCH = {"type": "web_search_call", "status": "completed", "action": {"type": "search"}}
PICTURE = {"type": "image_generation_call", "status": "completed", "result": "aGk="}
TOOL_SEARCH = {"type": "tool_search_call", "call_id": "s", "execution": "client", "arguments": {}}
AGENT = {
    "type": "agent_message",
    "author": "root",
    "recipient": "helper",
    "content": [
        {"type": "input_text", "text": "Look at the tests."},
        {"type": "encrypted_content", "encrypted_content": "gAAA"},
    ],
}


def read(*items: Any) -> Input:
    return decode_input([Raw(json.dumps(item).encode()) for item in items])


def user(text: str) -> dict[str, Any]:
    return {"type": "message", "role": "user", "content": text}


def test_a_shell_call_is_a_call_with_its_output() -> None:
    outputs = (
        {"type": "function_call_output", "call_id": "c1", "output": "total 0"},
        {"type": "local_shell_call_output", "call_id": "c1", "output": "total 0"},
    )
    for output in outputs:
        call, answer = read(SHELL, output).items
        assert isinstance(call, FunctionCall)
        assert json.loads(call.arguments) == {"command": ["ls", "-l"], "workdir": "/srv"}
        assert isinstance(answer, FunctionCallOutput)
        assert (answer.call_id, answer.output) == (call.call_id, "total 0")


def test_what_one_agent_told_another_is_text() -> None:
    (message,) = read(AGENT).items
    assert isinstance(message, Message)
    assert text_of(message.content) == "Message from root to helper:\nLook at the tests."


def test_tools_that_a_search_found_can_be_called() -> None:
    tool = {"type": "function", "name": "f", "parameters": {}, "defer_loading": True}
    found = {"type": "tool_search_output", "call_id": "s", "status": "completed", "tools": [tool]}
    decoded = read(TOOL_SEARCH, found)
    (tools,) = decoded.items
    assert isinstance(tools, AdditionalTools)
    assert tools.tools == [FunctionTool("f", parameters={})]
    assert decoded.skipped == ("tool_search_call",)


def test_what_means_nothing_here_is_skipped_and_counted() -> None:
    decoded = read(SEARCH, user("a"), PICTURE, {"type": "hologram"}, SEARCH, user("b"))
    assert [text_of(item.content) for item in decoded.items if isinstance(item, Message)] == [
        "a",
        "b",
    ]
    assert decoded.skipped == (
        "web_search_call",
        "image_generation_call",
        OTHER,
        "web_search_call",
    )


@pytest.mark.parametrize("kind", ["compaction", "compaction_summary", "context_compaction"])
def test_another_servers_summary_leaves_a_note_for_the_model(kind: str) -> None:
    decoded = read({"type": kind, "encrypted_content": "gAAAAAB"}, user("a"))
    note, _ = decoded.items
    assert isinstance(note, Message)
    assert "another server" in text_of(note.content)
    assert decoded.skipped == ("compaction",)


def test_another_servers_thoughts_are_no_problem() -> None:
    (thought,) = read({"type": "reasoning", "summary": [], "encrypted_content": "gAAA"}).items
    assert isinstance(thought, Reasoning)


def test_an_output_that_no_call_asked_for_is_text() -> None:
    output = {"type": "function_call_output", "name": "clock", "output": [{"text": "noon"}]}
    (message,) = read(output).items
    assert isinstance(message, Message)
    assert text_of(message.content) == "Output of clock:\nnoon"


def test_outputs_of_calls_that_were_skipped_go_with_them() -> None:
    call = {"type": "hologram_call", "call_id": "h"}
    output = {"type": "function_call_output", "call_id": "h", "output": "x"}
    assert read(call, output) == Input((), (OTHER, "function_call_output"))
    orphan = {"type": "local_shell_call_output", "call_id": "gone", "output": "x"}
    assert read(orphan) == Input((), ("local_shell_call_output",))


@pytest.mark.parametrize(
    "item",
    [
        {"type": "function_call", "name": "f"},
        {"type": "message", "role": "king", "content": ""},
        {"type": "compaction"},
        {"type": 7},
        {},
    ],
)
def test_a_known_item_that_is_malformed_is_still_refused(item: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest) as caught:
        read(user("a"), item)
    assert (caught.value.param or "").startswith("input[1]")


def test_a_trigger_asks_for_the_conversation_in_short() -> None:
    body = {"input": [user("a"), {"type": "compaction_trigger"}], "tool_choice": "required"}
    create = decode_create(json.dumps(body))
    assert create.compacts
    assert len(create.items) == 1
    assert create.tool_choice == "none"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
foreign_types = st.sampled_from(
    [
        "agent_message",
        "context_compaction",
        "image_generation_call",
        "local_shell_call",
        "local_shell_call_output",
        "tool_search_call",
        "tool_search_output",
        "web_search_call",
    ]
)
made_up = st.text(min_size=1, max_size=4000).map(lambda text: f"x_{text}")
fields = st.dictionaries(
    st.sampled_from(["action", "content", "call_id", "tools", "output", "summary", "author"]),
    json_values,
)
strangers = st.builds(lambda kind, rest: {**rest, "type": kind}, foreign_types | made_up, fields)


@given(st.lists(st.none() | strangers, max_size=12))
def test_among_strangers_the_known_are_read_in_their_order(mixture: list[Any]) -> None:
    sent = [each or user(f"known {index}") for index, each in enumerate(mixture)]
    decoded = read(*sent)
    known = [
        text_of(item.content)
        for item in decoded.items
        if isinstance(item, Message) and text_of(item.content).startswith("known ")
    ]
    assert known == [each["content"] for each in sent if each.get("type") == "message"]
    assert len(decoded.items) + len(decoded.skipped) >= len(sent)
    assert all(len(name) < 40 for name in decoded.skipped)

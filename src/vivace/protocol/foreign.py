"""Items of other servers, in conversations that began there and go on here.

What means something without that server is taken over as an item of ours; the rest is skipped and
counted. Nothing in them is an error: their makers owe us no form.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Raw, Struct

from vivace.protocol.items import (
    AdditionalTools,
    Compaction,
    CustomTool,
    FunctionCall,
    FunctionCallOutput,
    FunctionTool,
    InputText,
    Item,
    Message,
    NamespaceTool,
    Tool,
)

__all__ = ["OTHER", "adopt", "as_sent", "call_of", "label", "missing_past", "standalone"]

OTHER = "other"
_NAMES = frozenset(
    {
        "agent_message",
        "code_interpreter_call",
        "compaction",
        "computer_call",
        "computer_call_output",
        "context_compaction",
        "custom_tool_call_output",
        "file_search_call",
        "function_call_output",
        "image_generation_call",
        "local_shell_call",
        "local_shell_call_output",
        "mcp_call",
        "mcp_list_tools",
        "tool_search_call",
        "tool_search_output",
        "web_search_call",
    }
)

_UNREADABLE = (
    "An earlier part of this conversation was summarised by another server, in a form that cannot "
    "be read here. Ask about what you miss."
)


def label(kind: str) -> str:
    """The type's name for who counts them: a client must not make names up there."""
    return kind if kind in _NAMES else OTHER


class _Action(Struct):
    command: list[str]
    working_directory: str | None = None


class _ShellCall(Struct):
    action: _Action
    call_id: str | None = None
    id: str | None = None


class _ShellOutput(Struct):
    output: str
    call_id: str | None = None
    id: str | None = None


class _Text(Struct):
    text: str = ""


class _AgentMessage(Struct):
    content: list[_Text]
    author: str = ""
    recipient: str = ""
    id: str | None = None


class _Found(Struct):
    tools: list[Raw]
    id: str | None = None


class _Called(Struct):
    call_id: str | None = None


class _Standalone(Struct):
    output: str | list[_Text]
    name: str | None = None
    call_id: str | None = None
    id: str | None = None


class _Packed(Struct):
    encrypted_content: str
    id: str | None = None


_TOOL = msgspec.json.Decoder(FunctionTool | CustomTool | NamespaceTool)
_CALLED = msgspec.json.Decoder(_Called)


def adopt(kind: str, raw: Raw) -> Item | None:
    """The item as one of ours; None if it says nothing here."""
    make = _ADOPTED.get(kind)
    try:
        return make(raw) if make is not None else None
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None


def call_of(raw: Raw) -> str | None:
    """The call that an item makes, for outputs that belong to it."""
    try:
        return _CALLED.decode(raw).call_id
    except (msgspec.MsgspecError, RecursionError):
        return None


def standalone(raw: Raw) -> Message | None:
    """An output that no call asked for; Codex lets editors put such into a thread."""
    try:
        output = msgspec.json.decode(raw, type=_Standalone)
    except (msgspec.MsgspecError, RecursionError):
        return None
    if output.call_id is not None or not output.name:
        return None
    text = output.output if isinstance(output.output, str) else _joined(output.output)
    return Message(id=output.id, role="user", content=f"Output of {output.name}:\n{text}")


def _joined(parts: list[_Text]) -> str:
    return "".join(part.text for part in parts)


def missing_past(item: Compaction) -> Message:
    """What the model is told where a summary cannot be read."""
    return Message(id=item.id, role="developer", content=[InputText(_UNREADABLE)])


def _shell_call(raw: Raw) -> Item | None:
    call = msgspec.json.decode(raw, type=_ShellCall)
    call_id = call.call_id or call.id
    arguments: dict[str, Any] = {"command": call.action.command}
    if call.action.working_directory:
        arguments["workdir"] = call.action.working_directory
    if call_id is None:
        return None
    return FunctionCall(
        id=call.id,
        call_id=call_id,
        name="local_shell",
        arguments=msgspec.json.encode(arguments).decode(),
    )


def _shell_output(raw: Raw) -> Item | None:
    output = msgspec.json.decode(raw, type=_ShellOutput)
    call_id = output.call_id or output.id
    return None if call_id is None else FunctionCallOutput(call_id=call_id, output=output.output)


def _agent_message(raw: Raw) -> Item | None:
    message = msgspec.json.decode(raw, type=_AgentMessage)
    text = _joined(message.content)
    heading = f"Message from {message.author} to {message.recipient}:\n"
    return Message(id=message.id, role="user", content=heading + text) if text else None


def _found_tools(raw: Raw) -> Item | None:
    """Tools that a search has brought may be called from then on."""
    found = msgspec.json.decode(raw, type=_Found)
    tools: list[Tool] = [_TOOL.decode(each) for each in found.tools]
    return AdditionalTools(id=found.id, tools=tools) if tools else None


def _compaction(raw: Raw) -> Item | None:
    packed = msgspec.json.decode(raw, type=_Packed)
    return Compaction(id=packed.id, encrypted_content=packed.encrypted_content)


_ADOPTED = {
    "agent_message": _agent_message,
    "context_compaction": _compaction,
    "local_shell_call": _shell_call,
    "local_shell_call_output": _shell_output,
    "tool_search_output": _found_tools,
}


_PLACE = re.compile(r"input\[(\d+)\]")


def as_sent(param: str | None, places: Sequence[int]) -> str | None:
    """The field at fault, by where its item stood in what the client sent: ``places`` has that of
    each item that was taken, and is empty where all were."""
    found = _PLACE.match(param or "")
    if param is None or found is None or not int(found[1]) < len(places):
        return param
    return f"input[{places[int(found[1])]}]{param[found.end() :]}"

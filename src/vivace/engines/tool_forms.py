"""Tools in the form an ordinary model can use: functions with JSON arguments, and nothing else.

A custom tool takes free text, often by a grammar that only its maker's models were trained on.
Such a tool is offered as a function, and what the model answers is written back as the text the
client expects. For Codex's ``apply_patch`` the function asks for the old and the new lines and we
write the patch, so it is well-formed whatever the model is.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Raw, Struct

from vivace.conversation.deltas import CallOpened
from vivace.errors import EditError
from vivace.protocol import patches
from vivace.protocol.items import CustomTool, FunctionTool, ToolCall
from vivace.protocol.requests import AllowedTools, NamedTool, Toolbox, ToolChoice, ToolMode

__all__ = ["ToolForms"]


class _Offer(Struct, frozen=True):
    """One tool as the model sees it, and whose it is."""

    name: str
    tool: FunctionTool | CustomTool
    namespace: str | None

    @property
    def kind(self) -> str:
        return "custom" if isinstance(self.tool, CustomTool) else "function"

    @property
    def patches(self) -> bool:
        return isinstance(self.tool, CustomTool) and self.tool.name == "apply_patch"

    def declaration(self) -> dict[str, Any]:
        if isinstance(self.tool, FunctionTool):
            empty: dict[str, Any] = {"type": "object", "properties": {}}
            return _function(self.name, self.tool.description, self.tool.parameters or empty)
        if self.patches:
            return _function(self.name, _PATCH_DESCRIPTION, _PATCH_PARAMETERS)
        definition = self.tool.format.definition
        described = self.tool.description or ""
        if definition:
            described += f"\nThe input must follow this {self.tool.format.syntax} grammar:\n"
            described += str(definition)
        return _function(self.name, described, _INPUT_PARAMETERS)


class ToolForms:
    """The tools of one request, offered as functions."""

    def __init__(self, toolbox: Toolbox, choice: ToolChoice = "auto") -> None:
        offers = [
            _Offer(f"{space}__{tool.name}" if space else tool.name, tool, space)
            for space, tool in toolbox.flat()
        ]
        self._by_name = {offer.name: offer for offer in offers}
        self._names = {(offer.namespace, offer.tool.name): offer.name for offer in offers}
        allowed, self.mode = _narrow(choice)
        self._offered = [o for o in offers if allowed is None or (o.kind, o.tool.name) in allowed]

    def declarations(self) -> list[dict[str, Any]]:
        if self.mode == "none":
            return []
        return [offer.declaration() for offer in self._offered]

    # -- a call that must be made -----------------------------------------------------------------

    def forced_schema(self) -> dict[str, Any]:
        """A schema that only a call of an offered tool obeys, for servers that follow schemas but
        not ``tool_choice: required``."""
        calls, shared = [], {}
        for declaration in self.declarations():
            function = declaration["function"]
            arguments = _own_definitions(function["name"], function["parameters"])
            shared.update(arguments.pop("$defs", {}))
            properties = {"name": {"const": function["name"]}, "arguments": arguments}
            required = ["name", "arguments"]
            calls.append({"type": "object", "properties": properties, "required": required})
        schema: dict[str, Any] = calls[0] if len(calls) == 1 else {"anyOf": calls}
        return {**schema, "$defs": shared} if shared else schema

    def forced_request(self) -> str:
        """What to tell the model that gets a schema instead of tools."""
        functions = (declaration["function"] for declaration in self.declarations())
        listed = "\n".join(msgspec.json.encode(function).decode() for function in functions)
        return (
            'Call exactly one of these functions. Answer with {"name": the function, '
            f'"arguments": its arguments}} as JSON and nothing else.\n{listed}'
        )

    def forced_call(self, answer: str) -> tuple[str, str] | None:
        """Name and arguments of the call in an answer by that schema; None if it was cut off."""
        try:
            call = msgspec.json.decode(answer, type=_Forced)
        except msgspec.MsgspecError:
            return None
        return call.name, bytes(call.arguments).decode()

    # -- from the model ---------------------------------------------------------------------------

    def opened(self, name: str, call_id: str | None) -> CallOpened:
        """A call by the name the model used, as the client knows it."""
        offer = self._by_name.get(name)
        if offer is None:
            return CallOpened(name, call_id=call_id)
        custom = isinstance(offer.tool, CustomTool)
        return CallOpened(offer.tool.name, custom, offer.namespace, call_id)

    def rewrites(self, name: str) -> bool:
        """Whether a call's arguments must be complete before the client can see them."""
        offer = self._by_name.get(name)
        return offer is not None and isinstance(offer.tool, CustomTool)

    def rewrite(self, name: str, arguments: str) -> str:
        """A function's arguments as the custom tool's input; unreadable ones as they are."""
        try:
            if self._by_name[name].patches:
                return _patch(msgspec.json.decode(arguments, type=_Change))
            return msgspec.json.decode(arguments, type=_Input).input
        except msgspec.MsgspecError:
            return arguments

    # -- to the model -----------------------------------------------------------------------------

    def call(self, item: ToolCall) -> tuple[str, str]:
        """A call made earlier, as the function call the model would have made."""
        space = item.namespace or None
        name = self._names.get((space, item.name), item.name)
        if not hasattr(item, "input"):
            return name, _readable(item.arguments)
        offer = self._by_name.get(name)
        change = _read_patch(item.input) if offer is not None and offer.patches else None
        return name, msgspec.json.encode(change or _Input(item.input)).decode()


def _own_definitions(name: str, parameters: dict[str, Any]) -> dict[str, Any]:
    """With definitions that bear the function's name: two functions may both have a 'Place'."""
    if "$defs" not in parameters:
        return dict(parameters)
    text = msgspec.json.encode(parameters).replace(b'"#/$defs/', f'"#/$defs/{name}.'.encode())
    renamed: dict[str, Any] = msgspec.json.decode(text)
    renamed["$defs"] = {f"{name}.{key}": value for key, value in renamed["$defs"].items()}
    return renamed


def _function(name: str, description: str | None, parameters: dict[str, Any]) -> dict[str, Any]:
    function = {"name": name, "description": description or "", "parameters": parameters}
    return {"type": "function", "function": function}


def _readable(arguments: str) -> str:
    """Templates parse the arguments of past calls; those of an interrupted one are no JSON."""
    try:
        msgspec.json.decode(arguments, type=dict[str, Raw])
    except msgspec.MsgspecError:
        return msgspec.json.encode({"unfinished": arguments}).decode()
    return arguments


def _narrow(choice: ToolChoice) -> tuple[set[tuple[str, str]] | None, ToolMode]:
    """Which tools may be used and how. Few servers take more than a mode, so names narrow the
    list instead: one tool and 'required' means the same."""
    if isinstance(choice, NamedTool):
        return {(choice.type, choice.name)}, "required"
    if isinstance(choice, AllowedTools):
        return {(tool.type, tool.name) for tool in choice.tools}, choice.mode
    return None, choice


class _Forced(Struct, frozen=True):
    name: str
    arguments: Raw


# -- free text ------------------------------------------------------------------------------------


class _Input(Struct, frozen=True):
    input: str


_INPUT_PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {"input": {"type": "string", "description": "The input of the tool."}},
    "required": ["input"],
}


# -- patches --------------------------------------------------------------------------------------


class _Change(Struct, frozen=True):
    path: Annotated[str, Meta(pattern=r"\A[^\n]+\Z")]
    old: str = ""
    new: str = ""


_PATCH_DESCRIPTION = (
    "Change a file: replace some of its lines by others. To create a file, leave 'old' empty."
)
_PATCH_PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "path": {"type": "string", "description": "The file, relative to the working folder."},
        "old": {
            "type": "string",
            "description": "The lines to be replaced, copied exactly from the file, whole lines.",
        },
        "new": {"type": "string", "description": "The lines that take their place."},
    },
    "required": ["path", "old", "new"],
}


def _patch(change: _Change) -> str:
    if not change.old:
        return patches.added(change.path, _lines(change.new)).removesuffix("\n")
    return patches.updated(change.path, ["@@", *_hunk(change)]).removesuffix("\n")


def _lines(text: str) -> list[str]:
    """A newline at the end ends the last line and begins no other."""
    return text.removesuffix("\n").split("\n")


def _hunk(change: _Change) -> Iterator[str]:
    """Lines that stay at either end are context, so that the patch changes only what changes."""
    old = _lines(change.old)
    new = _lines(change.new) if change.new else []
    head = 0
    while head < min(len(old), len(new)) and old[head] == new[head]:
        head += 1
    tail = 0
    while tail < min(len(old), len(new)) - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    yield from (f" {line}" for line in old[:head])
    yield from (f"-{line}" for line in old[head : len(old) - tail])
    yield from (f"+{line}" for line in new[head : len(new) - tail])
    yield from (f" {line}" for line in old[len(old) - tail :])


def _read_patch(text: str) -> _Change | None:
    """A patch of one file as the change we would have asked for; None for any other."""
    try:
        reader = patches.Patch()
        pieces = [*reader.feed(text), *reader.finish()]
    except EditError:
        return None
    if len(pieces) != 1 or pieces[0].action == "delete":
        return None
    piece = pieces[0]
    if piece.moved_to or piece.above or piece.at_end:
        return None
    old, new = "".join(piece.old), "".join(piece.new)
    if not old and piece.action == "update":
        return None
    return _Change(piece.path, old, new)

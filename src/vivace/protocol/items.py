"""Items: what a conversation is made of, and the tools it may call.

The same struct serves an item on its way in and on its way out, because a model's output is the
next turn's input. ``id`` and ``status`` are optional on the way in; ``admit`` fills them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, ClassVar, Literal, get_args

import msgspec
from msgspec import UNSET, Struct, UnsetType, field
from msgspec.structs import replace

__all__ = [
    "AdditionalTools",
    "Compaction",
    "CustomTool",
    "CustomToolCall",
    "CustomToolCallOutput",
    "FunctionCall",
    "FunctionCallOutput",
    "FunctionTool",
    "Grammar",
    "InputFile",
    "InputImage",
    "InputText",
    "Item",
    "ItemReference",
    "ItemStatus",
    "Message",
    "NamespaceTool",
    "NewId",
    "OutputText",
    "Part",
    "PlainText",
    "Reasoning",
    "ReasoningText",
    "Refusal",
    "Role",
    "SummaryText",
    "Tool",
    "ToolCall",
    "ToolOutput",
    "admit",
    "by_model",
    "check_depth",
    "check_schema",
    "text_of",
]

NewId = Callable[[str], str]
"""Makes a fresh id with the given prefix (``msg``, ``fc``, …)."""

Role = Literal["user", "assistant", "system", "developer"]
ItemStatus = Literal["in_progress", "completed", "incomplete"]

_DEPTH = 100
_msgpack = msgspec.msgpack.Encoder()


def check_depth(value: object, name: str) -> None:
    """Refuse JSON of a client's own shape that nests deeper than anybody needs.

    Typed values have the depth of their type. What may have any shape is bounded where it is
    read, so that whoever walks it or writes it again, one level deeper, cannot run out of stack.
    """
    level, containers = [value], (dict, list)  # a union would be slower, and there may be 100,000
    for _ in range(_DEPTH):
        level = [
            inner
            for each in level
            for inner in (each.values() if isinstance(each, dict) else each)  # type: ignore[attr-defined]
            if isinstance(inner, containers)
        ]
        if not level:
            return
    raise ValueError(f"'{name}' is nested more than {_DEPTH} levels deep")


def check_schema(value: object, name: str) -> None:
    """Refuse JSON of a client's own shape that cannot be passed on to an engine node.

    MessagePack has whole numbers of up to 64 bits, as most readers of JSON schemas do.
    """
    check_depth(value, name)
    try:
        _msgpack.encode(value)
    except OverflowError:
        raise ValueError(f"'{name}' has a whole number of more than 64 bits") from None


# -- parts of a message ---------------------------------------------------------------------------


class InputText(Struct, frozen=True, tag="input_text"):
    text: str


class OutputText(Struct, frozen=True, tag="output_text"):
    text: str
    annotations: list[Any] = []
    logprobs: list[Any] = []

    def __post_init__(self) -> None:
        if self.annotations:
            check_schema(self.annotations, "annotations")
        if self.logprobs:
            check_schema(self.logprobs, "logprobs")


class Refusal(Struct, frozen=True, tag="refusal"):
    refusal: str


class PlainText(Struct, frozen=True, tag="text"):
    text: str


class SummaryText(Struct, frozen=True, tag="summary_text"):
    text: str


class ReasoningText(Struct, frozen=True, tag="reasoning_text"):
    text: str


class InputImage(Struct, frozen=True, tag="input_image"):
    image_url: str | None = None
    detail: str = "auto"
    file_id: str | None = None


class InputFile(Struct, frozen=True, tag="input_file"):
    filename: str | None = None
    file_data: str | None = None
    file_url: str | None = None
    file_id: str | None = None


Part = (
    InputText
    | OutputText
    | Refusal
    | PlainText
    | SummaryText
    | ReasoningText
    | InputImage
    | InputFile
)


def text_of(content: str | Iterable[Part]) -> str:
    """All text in a message's content or a tool's output; parts without text add nothing."""
    if isinstance(content, str):
        return content
    return "".join(
        part.refusal if isinstance(part, Refusal) else getattr(part, "text", "") for part in content
    )


# -- tools ----------------------------------------------------------------------------------------


class FunctionTool(Struct, frozen=True, tag="function"):
    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None

    def __post_init__(self) -> None:
        if self.parameters:
            check_schema(self.parameters, "parameters")


class Grammar(Struct, frozen=True):
    """The form a custom tool's input must have: free ``text``, or a ``grammar``."""

    type: Literal["text", "grammar"] = "text"
    syntax: Literal["lark", "regex"] | UnsetType = UNSET
    definition: str | UnsetType = UNSET


class CustomTool(Struct, frozen=True, tag="custom"):
    name: str
    description: str | None = None
    format: Grammar = field(default_factory=Grammar)


class NamespaceTool(Struct, frozen=True, tag="namespace"):
    """A named group of tools; a call to one of them carries the group's name beside its own."""

    name: str
    tools: list[FunctionTool | CustomTool]
    description: str | None = None


Tool = FunctionTool | CustomTool | NamespaceTool


# -- items ----------------------------------------------------------------------------------------


class Message(Struct, frozen=True, kw_only=True, tag="message"):
    id: str | None = None
    role: Role
    content: str | list[Part]
    status: ItemStatus | None = None
    phase: Literal["commentary", "final_answer"] | UnsetType | None = UNSET


class FunctionCall(Struct, frozen=True, kw_only=True, tag="function_call"):
    id: str | None = None
    call_id: str
    name: str
    arguments: str
    status: ItemStatus | None = None
    namespace: str | UnsetType | None = UNSET


class FunctionCallOutput(Struct, frozen=True, kw_only=True, tag="function_call_output"):
    id: str | None = None
    call_id: str
    output: str | list[Part]
    status: ItemStatus | None = None


class CustomToolCall(Struct, frozen=True, kw_only=True, tag="custom_tool_call"):
    id: str | None = None
    call_id: str
    name: str
    input: str
    status: ItemStatus | None = None
    namespace: str | UnsetType | None = UNSET


class CustomToolCallOutput(Struct, frozen=True, kw_only=True, tag="custom_tool_call_output"):
    id: str | None = None
    call_id: str
    output: str | list[Part]
    status: ItemStatus | None = None


class Reasoning(Struct, frozen=True, kw_only=True, tag="reasoning"):
    id: str | None = None
    summary: list[Part] = []
    content: list[Part] | UnsetType | None = UNSET
    encrypted_content: str | UnsetType | None = UNSET
    status: ItemStatus | UnsetType | None = UNSET


class Compaction(Struct, frozen=True, kw_only=True, tag="compaction"):
    """A conversation's past in short; ``encrypted_content`` is opaque to the client."""

    MARK: ClassVar[str] = "vivace1."

    id: str | None = None
    encrypted_content: str

    @property
    def ours(self) -> bool:
        """Whether a server of our kind has made it."""
        return self.encrypted_content.startswith(self.MARK)


class ItemReference(Struct, frozen=True, kw_only=True, tag="item_reference"):
    id: str


class AdditionalTools(Struct, frozen=True, kw_only=True, tag="additional_tools"):
    """Tools sent once as an item and good for the rest of the chain (Codex's lite form)."""

    id: str | None = None
    role: Role = "developer"
    tools: list[Tool]


ToolCall = FunctionCall | CustomToolCall
ToolOutput = FunctionCallOutput | CustomToolCallOutput
Item = (
    Message
    | FunctionCall
    | FunctionCallOutput
    | CustomToolCall
    | CustomToolCallOutput
    | Reasoning
    | Compaction
    | ItemReference
    | AdditionalTools
)

_PREFIX: dict[type, str] = {
    Message: "msg",
    FunctionCall: "fc",
    FunctionCallOutput: "fco",
    CustomToolCall: "ctc",
    CustomToolCallOutput: "ctco",
    Reasoning: "rs",
    Compaction: "cmp",
    AdditionalTools: "at",
}


_WITH_STATUS = frozenset({Message, *get_args(ToolCall), *get_args(ToolOutput)})


def by_model(item: Item) -> bool:
    """Whether it is of a kind that a model makes, and no client."""
    spoken = isinstance(item, Message) and item.role == "assistant"
    return spoken or isinstance(item, ToolCall | Reasoning)


def admit(item: Item, new_id: NewId) -> Item:
    """An input item as the server keeps it: with an id, a status, and content as parts."""
    kind = type(item)
    if kind is ItemReference:
        return item
    changes: dict[str, Any] = {}
    if item.id is None:
        changes["id"] = new_id(_PREFIX[kind])
    if kind in _WITH_STATUS and item.status is None:  # type: ignore[union-attr]
        changes["status"] = "completed"
    if isinstance(item, Message) and isinstance(item.content, str):
        part = OutputText if item.role == "assistant" else InputText
        changes["content"] = [part(item.content)]
    return replace(item, **changes) if changes else item

"""The wire of the Messages API: what is read of a request, and what is said in answer.

Fields that are not here are ignored, as are blocks and tools of kinds that are not: clients of this
API send what the newest server of its maker knows, and expect any other to pass over it.
"""

from __future__ import annotations

from typing import Any, Literal

from msgspec import UNSET, Raw, Struct, UnsetType, field

from vivace.protocol.items import check_depth, check_schema
from vivace.protocol.requests import Count, Probability, Stops, Temperature

__all__ = [
    "BLOCKS",
    "AnswerBlock",
    "BlockDelta",
    "BlockStart",
    "BlockStop",
    "Document",
    "End",
    "ErrorBody",
    "ErrorEvent",
    "Image",
    "InputJsonDelta",
    "Message",
    "MessageDelta",
    "MessageParam",
    "MessageStart",
    "MessageStop",
    "MessagesRequest",
    "OutputFormat",
    "Ping",
    "SearchResult",
    "SignatureDelta",
    "StopReason",
    "TextBlock",
    "TextDelta",
    "ThinkingBlock",
    "ThinkingDelta",
    "TokenCount",
    "Tool",
    "ToolReference",
    "ToolResult",
    "ToolUse",
    "Usage",
]


# -- what is asked --------------------------------------------------------------------------------


class TextBlock(Struct, frozen=True, tag="text"):
    text: str


class ThinkingBlock(Struct, frozen=True, tag="thinking"):
    thinking: str
    signature: str = ""


class ToolUse(Struct, frozen=True, kw_only=True, tag="tool_use"):
    id: str
    name: str
    input: dict[str, Any]

    def __post_init__(self) -> None:
        check_depth(self.input, "input")


class ToolResult(Struct, frozen=True, kw_only=True, tag="tool_result"):
    tool_use_id: str
    content: str | list[Raw] | None = None
    is_error: bool | None = None


class Image(Struct, frozen=True, tag="image"):
    """None of our models sees it, so nobody looks where it is."""


class _Source(Struct, frozen=True, kw_only=True):
    type: str
    data: str | None = None
    content: str | list[Raw] | None = None


class Document(Struct, frozen=True, kw_only=True, tag="document"):
    source: _Source


class SearchResult(Struct, frozen=True, kw_only=True, tag="search_result"):
    """What a client has searched by itself."""

    title: str
    source: str
    content: list[TextBlock]


class ToolReference(Struct, frozen=True, tag="tool_reference"):
    """Says in a tool's result that a tool which was deferred may be called from now on."""

    tool_name: str


BLOCKS: tuple[type[Struct], ...] = (
    TextBlock,
    ThinkingBlock,
    ToolUse,
    ToolResult,
    Image,
    Document,
    SearchResult,
    ToolReference,
)
"""Those that are read; others are passed over."""


class MessageParam(Struct, frozen=True):
    role: Literal["user", "assistant", "system"]
    content: str | list[Raw]


class Tool(Struct, frozen=True, kw_only=True):
    """One that the client runs and describes. Tools of the maker's server have no schema."""

    name: str | None = None
    description: str | None = None
    input_schema: dict[str, Any] | None = None
    strict: bool | None = None
    defer_loading: bool | None = None
    """Not to be shown to the model before it was found by a search for tools."""

    def __post_init__(self) -> None:
        if self.input_schema:
            check_schema(self.input_schema, "input_schema")


class _ToolChoice(Struct, frozen=True, kw_only=True):
    type: str
    name: str | None = None
    disable_parallel_tool_use: bool | None = None


class _Thinking(Struct, frozen=True, kw_only=True):
    type: str
    budget_tokens: int | None = None
    display: str | None = None


class OutputFormat(Struct, frozen=True, kw_only=True):
    type: str
    schema: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        if self.schema:
            check_schema(self.schema, "schema")


class _OutputConfig(Struct, frozen=True, kw_only=True):
    effort: str | None = None
    format: OutputFormat | None = None


class MessagesRequest(Struct, frozen=True, kw_only=True):
    """Also that of ``count_tokens``, which has no ``max_tokens``."""

    model: str | None = None
    messages: list[MessageParam]
    system: str | list[Raw] | None = None
    max_tokens: Count | None = None
    stream: bool | None = None
    temperature: Temperature | None = None
    top_p: Probability | None = None
    stop_sequences: Stops | None = None
    tools: list[Tool] | None = None
    tool_choice: _ToolChoice | None = None
    thinking: _Thinking | None = None
    output_config: _OutputConfig | None = None
    output_format: OutputFormat | None = None
    """As it was called before it moved into ``output_config``."""


# -- what is answered -----------------------------------------------------------------------------

StopReason = Literal["end_turn", "max_tokens", "tool_use"]
AnswerBlock = TextBlock | ThinkingBlock | ToolUse


class Usage(Struct, frozen=True, kw_only=True):
    """``input_tokens`` are those that were computed; what the cache had is counted beside them."""

    input_tokens: int = 0
    cache_creation_input_tokens: int = 0
    cache_read_input_tokens: int = 0
    output_tokens: int = 0


class Message(Struct, frozen=True, kw_only=True, tag="message"):
    id: str
    role: Literal["assistant"] = "assistant"
    model: str
    content: list[AnswerBlock] = []
    stop_reason: StopReason | None = None
    stop_sequence: str | None = None
    usage: Usage = field(default_factory=Usage)


class TokenCount(Struct, frozen=True):
    input_tokens: int


class ErrorBody(Struct, frozen=True):
    type: str
    message: str


class ErrorEvent(Struct, frozen=True, kw_only=True, tag="error"):
    """The body of a refusal, and the event that ends a stream which cannot go on."""

    error: ErrorBody
    request_id: str | UnsetType = UNSET


class MessageStart(Struct, frozen=True, tag="message_start"):
    message: Message


class BlockStart(Struct, frozen=True, tag="content_block_start"):
    index: int
    content_block: AnswerBlock


class TextDelta(Struct, frozen=True, tag="text_delta"):
    text: str


class ThinkingDelta(Struct, frozen=True, tag="thinking_delta"):
    thinking: str


class SignatureDelta(Struct, frozen=True, tag="signature_delta"):
    signature: str


class InputJsonDelta(Struct, frozen=True, tag="input_json_delta"):
    partial_json: str


class BlockDelta(Struct, frozen=True, tag="content_block_delta"):
    index: int
    delta: TextDelta | ThinkingDelta | SignatureDelta | InputJsonDelta


class BlockStop(Struct, frozen=True, tag="content_block_stop"):
    index: int


class End(Struct, frozen=True, kw_only=True):
    stop_reason: StopReason
    stop_sequence: str | None = None


class MessageDelta(Struct, frozen=True, tag="message_delta"):
    delta: End
    usage: Usage


class MessageStop(Struct, frozen=True, tag="message_stop"):
    pass


class Ping(Struct, frozen=True, tag="ping"):
    pass

"""What a client may ask for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Raw, Struct, UnsetType, field

from vivace.protocol.bounds import MAX_TOOLS, size_of
from vivace.protocol.items import (
    CustomTool,
    FunctionTool,
    Item,
    NamespaceTool,
    Part,
    Tool,
    check_schema,
)
from vivace.protocol.once import IdempotencyKey, Once

__all__ = [
    "AllowedTools",
    "ClientEvent",
    "CompactBody",
    "CompactRequest",
    "CreateBody",
    "CreateResponse",
    "Fill",
    "Interrupt",
    "JsonObjectFormat",
    "JsonSchemaFormat",
    "Metadata",
    "NamedTool",
    "OtherFile",
    "PlainFormat",
    "Prediction",
    "ReasoningConfig",
    "Resume",
    "Seed",
    "Steer",
    "SteerBody",
    "SteerEvent",
    "SteerWhen",
    "StopText",
    "Stops",
    "TextConfig",
    "TextFormat",
    "ToolChoice",
    "ToolMode",
    "Toolbox",
]

Probability = Annotated[float, Meta(ge=0, le=1)]
Temperature = Annotated[float, Meta(ge=0, le=2)]
Penalty = Annotated[float, Meta(ge=-2, le=2)]
Count = Annotated[int, Meta(ge=1, le=2**63 - 1)]
Seed = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
"""Range of a seed that engines and links to engine nodes can take."""
StopText = Annotated[str, Meta(max_length=256)]
Stops = Annotated[list[StopText], Meta(max_length=64)]
"""Engines look for each of them at every token, so they are few and short."""
Metadata = Annotated[
    dict[Annotated[str, Meta(max_length=64)], Annotated[str, Meta(max_length=512)]],
    Meta(max_length=16),
]
"""A client's own notes, echoed in every event that carries the response; bounded as OpenAI's."""


class PlainFormat(Struct, frozen=True, tag="text"):
    pass


class JsonObjectFormat(Struct, frozen=True, tag="json_object"):
    pass


class JsonSchemaFormat(Struct, frozen=True, kw_only=True, tag="json_schema"):
    name: str
    description: str | None = None
    schema: dict[str, Any] | None = None
    strict: bool | None = False

    def __post_init__(self) -> None:
        if self.schema:
            check_schema(self.schema, "schema")


TextFormat = PlainFormat | JsonObjectFormat | JsonSchemaFormat


class TextConfig(Struct, frozen=True):
    format: TextFormat = field(default_factory=PlainFormat)
    verbosity: str | UnsetType | None = UNSET


class ReasoningConfig(Struct, frozen=True):
    effort: str | None = None
    summary: str | None = None


ToolMode = Literal["none", "auto", "required"]


class NamedTool(Struct, frozen=True):
    """One tool by name, as ``tool_choice`` or in a list of allowed ones."""

    type: Literal["function", "custom"]
    name: str


class AllowedTools(Struct, frozen=True, kw_only=True):
    type: Literal["allowed_tools"] = "allowed_tools"
    tools: Annotated[list[NamedTool], Meta(max_length=MAX_TOOLS)]
    mode: ToolMode = "auto"


ToolChoice = ToolMode | NamedTool | AllowedTools


class Prediction(Struct, frozen=True):
    """Text the answer is likely to repeat; shaped as Chat Completions' predicted output."""

    content: str | list[Part]
    type: Literal["content"] = "content"
    leniency: Annotated[float, Meta(ge=0, le=10)] = 0.0
    """Ours: nats by which old code is preferred behind the first change (docs/how/drafts.md)."""


class OtherFile(Struct, frozen=True):
    """A file that is shown to the model beside the one being completed."""

    path: str
    text: str


class Fill(Struct, frozen=True, kw_only=True):
    """Plain text to be continued, or a gap to be filled when there is a suffix."""

    prefix: str
    suffix: str | None = None
    typed: str = ""
    """Written in the gap since it was first asked about. It goes last, wherever the model has its
    suffix: a prompt that only grows at its end is one that the engine has read already."""
    starts_with: Annotated[str, Meta(max_length=512)] = ""
    """The answer begins with this, as far as the engine can be made to."""
    repo: str | None = None
    path: str | None = None
    files: tuple[OtherFile, ...] = ()

    @property
    def is_gap(self) -> bool:
        """Whether text stands behind it, be it none: otherwise it is a prompt as somebody wrote it,
        perhaps with a template's marks in it."""
        return self.suffix is not None


class CacheOptions(Struct, frozen=True):
    prewarm: bool | None = None


class StreamOptions(Struct, frozen=True):
    include_obfuscation: bool | None = None
    include_usage: bool | None = None


class CreateBody(Struct, frozen=True, kw_only=True):
    """The body of a create request, all but the parts that need a second look.

    ``input``, ``tools`` and ``tool_choice`` stay raw here: clients leave out an item's type, and
    newer ones send tools we have never heard of, which a typed union would refuse.
    """

    model: str | None = None
    input: str | list[Raw] | None = None
    instructions: str | None = None
    previous_response_id: str | None = None
    tools: list[Raw] | None = None
    tool_choice: Raw = Raw(b"null")
    parallel_tool_calls: bool | None = None
    max_tool_calls: Count | None = None
    text: TextConfig | None = None
    reasoning: ReasoningConfig | None = None
    temperature: Temperature | None = None
    top_p: Probability | None = None
    presence_penalty: Penalty | None = None
    frequency_penalty: Penalty | None = None
    top_logprobs: Annotated[int, Meta(ge=0, le=20)] | None = None
    max_output_tokens: Count | None = None
    truncation: Literal["auto", "disabled"] | None = None
    store: bool | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    background: bool | None = None
    include: list[str] | None = None
    metadata: Metadata | None = None
    service_tier: str | None = None
    prompt_cache_key: str | None = None
    prompt_cache_options: CacheOptions | None = None
    safety_identifier: str | None = None
    client_metadata: Raw = Raw(b"null")
    # Of OpenAI's own server only; refused rather than ignored.
    conversation: Raw = Raw(b"null")
    prompt: Raw = Raw(b"null")
    # Of the WebSocket only: which lane, and whether to generate or only to warm the cache.
    stream_id: str | None = None
    generate: bool | None = None
    # Ours.
    fill: Fill | None = None
    prediction: Prediction | None = None
    stop: Stops | None = None
    seed: Seed | None = None
    on_disconnect: Literal["stop", "wait"] | None = None
    idempotency_key: IdempotencyKey | None = None


class Toolbox(Struct, frozen=True):
    """The tools of a request: those the model may call, and the whole list as it is echoed."""

    tools: tuple[Tool, ...] = ()
    echo: Raw = Raw(b"[]")

    def flat(self) -> Iterator[tuple[str | None, FunctionTool | CustomTool]]:
        """Every callable tool with the namespace it stands in."""
        for tool in self.tools:
            if isinstance(tool, NamespaceTool):
                for inner in tool.tools:
                    yield tool.name, inner
            else:
                yield None, tool


class CreateResponse(Struct, frozen=True):
    """``response.create``: one turn is asked for. The HTTP body means the same."""

    body: CreateBody
    items: tuple[Item, ...] = ()
    toolbox: Toolbox = field(default_factory=Toolbox)
    tool_choice: ToolChoice = "auto"
    fill: Fill | None = None
    """Set when the request is for a completion of plain text, not for an answer."""
    held: object = None
    """Its memory is counted by this, for as long as the request is remembered."""
    skipped: tuple[str, ...] = ()
    """Types of items that mean nothing here."""
    compacts: bool = False
    """The answer is the conversation so far in short, as an item that starts another."""
    traceparent: str | None = None
    """The trace that it is part of, for those who look for it in logs and engines."""
    places: tuple[int, ...] = ()
    """Where each item stood in what was sent, if some of that mean nothing here."""
    once: Once | None = None
    """By which it is known again when it is sent again."""

    @property
    def size(self) -> int:
        """Bytes of memory that it takes, as far as they are counted."""
        return size_of(self.held)

    @property
    def generates(self) -> bool:
        """False for a warm-up, which fills the cache and answers nothing."""
        options = self.body.prompt_cache_options
        return self.body.generate is not False and not (options and options.prewarm)

    @property
    def stored(self) -> bool:
        return self.body.store is not False

    @property
    def waits(self) -> bool:
        """Whether it goes on for a while when its client is gone, who may come back: one with a key
        is expected to, unless it says otherwise."""
        asked = self.body.on_disconnect
        return asked == "wait" or (asked is None and self.once is not None)


class Interrupt(Struct, frozen=True, kw_only=True):
    """Codex's: ends a turn at the next token and drops the item in the making."""

    response_id: str
    mode: Literal["discard_partial_items"] | None = None


class Resume(Struct, frozen=True, kw_only=True):
    """Ours: a turn goes on here, on this lane, wherever it was told before."""

    response_id: str
    starting_after: Annotated[int, Meta(ge=0)] | None = None
    """The number of the last event that is known; without it, all of them come again."""
    stream_id: str | None = None


SteerWhen = Literal["now", "item_end", "end_thinking"]
"""An extension: at the next token, or when the item in the making is done. ``end_thinking`` says
nothing to the model: its thoughts end, and the answer begins in the same response."""


class SteerEvent(Struct, frozen=True, kw_only=True):
    """Sends an answer another way while it is written, or ends its thinking."""

    previous_response_id: str
    input: Raw = Raw(b"")
    when: SteerWhen = "now"
    """Ours: at the next token, when the item in the making is done, or to end the thinking."""
    idempotency_key: IdempotencyKey | None = None
    """Ours: sent again with the same key, it is applied once."""


class SteerBody(Struct, frozen=True, kw_only=True):
    """The same over HTTP, where the address says whom it is for."""

    input: Raw = Raw(b"")
    when: SteerWhen = "now"
    idempotency_key: IdempotencyKey | None = None


class Steer(SteerEvent, frozen=True, kw_only=True):
    """The same, however it came."""

    held: object = None
    once: Once | None = None
    id: str | None = None
    """Under which it is on record already: it came to another gateway than its response's."""


ClientEvent = CreateResponse | Interrupt | Resume | Steer


class CompactBody(Struct, frozen=True, kw_only=True):
    model: str
    input: str | list[Raw] | None = None
    previous_response_id: str | None = None
    instructions: str | None = None
    prompt_cache_key: str | None = None


class CompactRequest(Struct, frozen=True):
    body: CompactBody
    items: tuple[Item, ...]
    held: object = None
    skipped: tuple[str, ...] = ()

"""What the server says: the response object, and the events that tell of its making."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import UNSET, Raw, Struct, UnsetType, field

from vivace.protocol.items import Item, Part
from vivace.protocol.requests import ReasoningConfig, TextConfig, ToolChoice

__all__ = [
    "CodexEvent",
    "CodexMetadata",
    "CodexRateLimits",
    "CodexWindow",
    "Compacted",
    "ContentPartAdded",
    "ContentPartDone",
    "CustomInputDelta",
    "CustomInputDone",
    "ErrorFrame",
    "ErrorPayload",
    "Event",
    "FunctionArgumentsDelta",
    "FunctionArgumentsDone",
    "IncompleteDetails",
    "InputTokensDetails",
    "InterruptAccepted",
    "OutputItemAdded",
    "OutputItemDone",
    "OutputItemInterrupted",
    "OutputTextDelta",
    "OutputTextDone",
    "OutputTokensDetails",
    "QueuePlace",
    "ReasoningTextDelta",
    "ReasoningTextDone",
    "RequiredOutput",
    "Response",
    "ResponseCompleted",
    "ResponseCreated",
    "ResponseEvent",
    "ResponseFailed",
    "ResponseInProgress",
    "ResponseIncomplete",
    "ResponseProblem",
    "ResponseQueued",
    "ReturnedSteer",
    "Routing",
    "SteerAccepted",
    "SteerEvent",
    "SteerFailed",
    "SteerPending",
    "SteerReceipt",
    "StreamError",
    "Usage",
]


# -- the response object --------------------------------------------------------------------------


class InputTokensDetails(Struct, frozen=True):
    cached_tokens: int = 0


class OutputTokensDetails(Struct, frozen=True):
    """Predicted tokens are counted as Chat Completions counts them."""

    reasoning_tokens: int = 0
    accepted_prediction_tokens: int = 0
    rejected_prediction_tokens: int = 0


class Usage(Struct, frozen=True):
    input_tokens: int
    output_tokens: int
    total_tokens: int
    input_tokens_details: InputTokensDetails = field(default_factory=InputTokensDetails)
    output_tokens_details: OutputTokensDetails = field(default_factory=OutputTokensDetails)


class IncompleteDetails(Struct, frozen=True):
    reason: str


class ResponseProblem(Struct, frozen=True):
    """Why a response failed."""

    code: str
    message: str


class Routing(Struct, frozen=True):
    """Which tier answered for ``auto``, and why."""

    tier: str
    reason: str


class QueuePlace(Struct, frozen=True):
    """Where a turn stands that has to wait: 1 is next."""

    position: int
    estimated_seconds: float


class Response(Struct, frozen=True, kw_only=True):
    """Every field is required on the wire, so none is ever left out but our own."""

    id: str
    object: str = "response"
    created_at: int
    completed_at: int | None = None
    status: str
    incomplete_details: IncompleteDetails | None = None
    model: str
    previous_response_id: str | None = None
    instructions: str | None = None
    output: list[Item] = []
    error: ResponseProblem | None = None
    tools: Raw = Raw(b"[]")
    tool_choice: ToolChoice = "auto"
    truncation: str = "disabled"
    parallel_tool_calls: bool = True
    text: TextConfig = field(default_factory=TextConfig)
    top_p: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    top_logprobs: int = 0
    temperature: float = 1.0
    reasoning: ReasoningConfig | None = None
    usage: Usage | None = None
    max_output_tokens: int | None = None
    max_tool_calls: int | None = None
    store: bool = True
    background: bool = False
    service_tier: str = "default"
    metadata: dict[str, str] = {}
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None
    routing: Routing | UnsetType = UNSET
    """Ours: which tier answered for ``auto``."""
    fill: Literal[True] | UnsetType = UNSET
    """Ours: said of text for a gap, so that who asks an unknown server knows that it understood."""


class Compacted(Struct, frozen=True, kw_only=True):
    """What ``POST /v1/responses/compact`` returns: a window that starts a new chain."""

    id: str
    object: str = "response.compaction"
    created_at: int
    output: list[Item]
    usage: Usage


# -- events of one response -----------------------------------------------------------------------


class ResponseEvent(Struct, frozen=True, kw_only=True):
    """Numbered from 0 without a gap within one response; a named lane's carry its name."""

    sequence_number: int
    stream_id: str | UnsetType = UNSET


class _WithResponse(ResponseEvent, frozen=True, kw_only=True):
    response: Response


class ResponseCreated(_WithResponse, frozen=True, tag="response.created"):
    """The turn is accepted, and has its id."""


class ResponseQueued(_WithResponse, frozen=True, kw_only=True, tag="response.queued"):
    """It waits for an engine; told again when its place in the queue changes."""

    queue: QueuePlace
    """Ours: where it stands, and for how long about."""


class ResponseInProgress(_WithResponse, frozen=True, tag="response.in_progress"):
    """The engine has begun."""


class ResponseCompleted(_WithResponse, frozen=True, tag="response.completed"):
    """The last event of a turn that came to its own end."""


class ResponseIncomplete(_WithResponse, frozen=True, tag="response.incomplete"):
    """The last event of one that was ended: by its length, a steer, an interrupt or a cancel."""


class ResponseFailed(_WithResponse, frozen=True, tag="response.failed"):
    """The last event of one that could not go on; ``response.error`` says why."""


class OutputItemAdded(ResponseEvent, frozen=True, kw_only=True, tag="response.output_item.added"):
    """An item begins: a message, thoughts, or a call of a tool."""

    output_index: int
    item: Item


class OutputItemDone(ResponseEvent, frozen=True, kw_only=True, tag="response.output_item.done"):
    """It is whole."""

    output_index: int
    item: Item


class OutputItemInterrupted(
    ResponseEvent, frozen=True, kw_only=True, tag="response.output_item.interrupted"
):
    """Codex's: the item in the making is dropped, because the turn was interrupted."""

    response_id: str
    item_id: str
    output_index: int


class _OfItem(ResponseEvent, frozen=True, kw_only=True):
    item_id: str
    output_index: int


class _OfPart(_OfItem, frozen=True, kw_only=True):
    content_index: int = 0


class ContentPartAdded(_OfPart, frozen=True, kw_only=True, tag="response.content_part.added"):
    """A part of a message or of thoughts begins."""

    part: Part


class ContentPartDone(_OfPart, frozen=True, kw_only=True, tag="response.content_part.done"):
    """It is whole."""

    part: Part


class OutputTextDelta(_OfPart, frozen=True, kw_only=True, tag="response.output_text.delta"):
    """More of the answer."""

    delta: str
    logprobs: list[Any] = []


class OutputTextDone(_OfPart, frozen=True, kw_only=True, tag="response.output_text.done"):
    """All of it."""

    text: str
    logprobs: list[Any] = []


class ReasoningTextDelta(_OfPart, frozen=True, kw_only=True, tag="response.reasoning_text.delta"):
    """More of the thoughts."""

    delta: str


class ReasoningTextDone(_OfPart, frozen=True, kw_only=True, tag="response.reasoning_text.done"):
    """All of them."""

    text: str


class FunctionArgumentsDelta(
    _OfItem, frozen=True, kw_only=True, tag="response.function_call_arguments.delta"
):
    """More of a function's arguments, which are JSON."""

    delta: str


class FunctionArgumentsDone(
    _OfItem, frozen=True, kw_only=True, tag="response.function_call_arguments.done"
):
    """All of them."""

    name: str
    arguments: str


class CustomInputDelta(
    _OfItem, frozen=True, kw_only=True, tag="response.custom_tool_call_input.delta"
):
    """More of a custom tool's input, which is text."""

    delta: str


class CustomInputDone(
    _OfItem, frozen=True, kw_only=True, tag="response.custom_tool_call_input.done"
):
    """All of it."""

    input: str


# -- receipts and errors, which belong to no response's numbering ----------------------------------


class ErrorPayload(Struct, frozen=True, kw_only=True):
    """What is wrong: the code for programs, the message for people, the field that it is about."""

    type: str
    code: str | None
    message: str
    param: str | None = None
    request_id: str | UnsetType = UNSET
    """Ours: by which the server's log can be searched."""
    tokens: int | UnsetType = UNSET
    """Ours: how long a conversation is that is too long."""
    limit: int | UnsetType = UNSET
    """Ours: and how long one may be."""
    headers: dict[str, str] | UnsetType = UNSET
    """What an HTTP answer would say in its headers, for those who have none."""


class ErrorFrame(Struct, frozen=True, kw_only=True, tag="error"):
    """A request was refused, or the connection is about to be closed."""

    status: int
    error: ErrorPayload
    stream_id: str | UnsetType = UNSET


class StreamError(Struct, frozen=True, kw_only=True, tag="error"):
    """The same among server-sent events: as OpenAI documents it, and with the ``error`` by which
    its SDKs know one."""

    sequence_number: int
    code: str | None
    message: str
    param: str | None
    error: ErrorPayload


class InterruptAccepted(Struct, frozen=True, kw_only=True, tag="response.interrupt.accepted"):
    """Codex's: the receipt of an interrupt; the turn's last events follow."""

    response_id: str


class SteerReceipt(Struct, frozen=True, kw_only=True):
    """The steer's own id, and the response that it was for."""

    id: str
    previous_response_id: str
    when: Literal["end_thinking"] | UnsetType = UNSET
    """Ours: the response goes on, and no successor comes."""


class ReturnedSteer(Struct, frozen=True, kw_only=True):
    """A steer with its words; it has an id if it had been accepted."""

    previous_response_id: str
    input: Raw
    id: str | UnsetType = UNSET
    when: Literal["end_thinking"] | UnsetType = UNSET
    """Ours: if it was to end the thinking."""


class RequiredOutput(Struct, frozen=True, kw_only=True):
    """What a client must send before a turn can follow; it fills in the output."""

    type: Literal["function_call_output", "custom_tool_call_output"]
    call_id: str
    name: str | UnsetType = UNSET


class SteerEvent(Struct, frozen=True, kw_only=True):
    sequence_number: int
    stream_id: str | UnsetType = UNSET


class SteerAccepted(SteerEvent, frozen=True, kw_only=True, tag="response.steer.accepted"):
    """The steer is the server's: it is applied once, or comes back."""

    steer: SteerReceipt


class SteerPending(SteerEvent, frozen=True, kw_only=True, tag="response.steer.pending"):
    """It waits with its response for the outputs of tools that the client runs."""

    steer: SteerReceipt
    reason: Literal["waiting_for_required_input"]
    required_input: list[RequiredOutput]


class SteerFailed(SteerEvent, frozen=True, kw_only=True, tag="response.steer.failed"):
    """It was not applied, and comes back with its words."""

    error: ErrorPayload
    steer: ReturnedSteer


# -- what Codex reads beside a response, where it has no headers to read it in ---------------------


class CodexWindow(Struct, frozen=True, kw_only=True):
    """How much of one limit is used, and when all of it is given back (Unix time)."""

    used_percent: float
    window_minutes: int
    reset_at: int


class CodexRateLimits(Struct, frozen=True, kw_only=True, tag="codex.rate_limits"):
    """Codex's: what is left of the key's limits, in the form that it shows."""

    limit_name: str
    rate_limits: dict[str, CodexWindow]
    """``primary``, and ``secondary`` where there are two."""


class CodexMetadata(Struct, frozen=True, kw_only=True, tag="codex.response.metadata"):
    """Codex's: what it reads from headers where there are some."""

    headers: dict[str, str]


CodexEvent = CodexRateLimits | CodexMetadata
Event = ResponseEvent | ErrorFrame | InterruptAccepted | SteerEvent | CodexEvent

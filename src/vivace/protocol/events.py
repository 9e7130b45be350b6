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
    fill: Literal[True] | UnsetType = UNSET
    """Said of text for a gap: who asks a server it does not know learns that it was understood."""


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
    pass


class ResponseQueued(_WithResponse, frozen=True, kw_only=True, tag="response.queued"):
    queue: QueuePlace


class ResponseInProgress(_WithResponse, frozen=True, tag="response.in_progress"):
    pass


class ResponseCompleted(_WithResponse, frozen=True, tag="response.completed"):
    pass


class ResponseIncomplete(_WithResponse, frozen=True, tag="response.incomplete"):
    pass


class ResponseFailed(_WithResponse, frozen=True, tag="response.failed"):
    pass


class OutputItemAdded(ResponseEvent, frozen=True, kw_only=True, tag="response.output_item.added"):
    output_index: int
    item: Item


class OutputItemDone(ResponseEvent, frozen=True, kw_only=True, tag="response.output_item.done"):
    output_index: int
    item: Item


class OutputItemInterrupted(
    ResponseEvent, frozen=True, kw_only=True, tag="response.output_item.interrupted"
):
    response_id: str
    item_id: str
    output_index: int


class _OfItem(ResponseEvent, frozen=True, kw_only=True):
    item_id: str
    output_index: int


class _OfPart(_OfItem, frozen=True, kw_only=True):
    content_index: int = 0


class ContentPartAdded(_OfPart, frozen=True, kw_only=True, tag="response.content_part.added"):
    part: Part


class ContentPartDone(_OfPart, frozen=True, kw_only=True, tag="response.content_part.done"):
    part: Part


class OutputTextDelta(_OfPart, frozen=True, kw_only=True, tag="response.output_text.delta"):
    delta: str
    logprobs: list[Any] = []


class OutputTextDone(_OfPart, frozen=True, kw_only=True, tag="response.output_text.done"):
    text: str
    logprobs: list[Any] = []


class ReasoningTextDelta(_OfPart, frozen=True, kw_only=True, tag="response.reasoning_text.delta"):
    delta: str


class ReasoningTextDone(_OfPart, frozen=True, kw_only=True, tag="response.reasoning_text.done"):
    text: str


class FunctionArgumentsDelta(
    _OfItem, frozen=True, kw_only=True, tag="response.function_call_arguments.delta"
):
    delta: str


class FunctionArgumentsDone(
    _OfItem, frozen=True, kw_only=True, tag="response.function_call_arguments.done"
):
    name: str
    arguments: str


class CustomInputDelta(
    _OfItem, frozen=True, kw_only=True, tag="response.custom_tool_call_input.delta"
):
    delta: str


class CustomInputDone(
    _OfItem, frozen=True, kw_only=True, tag="response.custom_tool_call_input.done"
):
    input: str


# -- receipts and errors, which belong to no response's numbering ----------------------------------


class ErrorPayload(Struct, frozen=True, kw_only=True):
    type: str
    code: str | None
    message: str
    param: str | None = None
    request_id: str | UnsetType = UNSET
    tokens: int | UnsetType = UNSET
    """How long a conversation is that is too long, and how long one may be."""
    limit: int | UnsetType = UNSET
    headers: dict[str, str] | UnsetType = UNSET
    """What an HTTP answer would say in its headers, for those who have none."""


class ErrorFrame(Struct, frozen=True, kw_only=True, tag="error"):
    status: int
    error: ErrorPayload
    stream_id: str | UnsetType = UNSET


class InterruptAccepted(Struct, frozen=True, kw_only=True, tag="response.interrupt.accepted"):
    response_id: str


class SteerReceipt(Struct, frozen=True, kw_only=True):
    id: str
    previous_response_id: str
    when: Literal["end_thinking"] | UnsetType = UNSET
    """Ours: the response goes on, and no successor comes."""


class ReturnedSteer(Struct, frozen=True, kw_only=True):
    previous_response_id: str
    input: Raw
    id: str | UnsetType = UNSET
    when: Literal["end_thinking"] | UnsetType = UNSET


class RequiredOutput(Struct, frozen=True, kw_only=True):
    """What a client must send before a turn can follow; it fills in the output."""

    type: Literal["function_call_output", "custom_tool_call_output"]
    call_id: str
    name: str | UnsetType = UNSET


class SteerEvent(Struct, frozen=True, kw_only=True):
    sequence_number: int
    stream_id: str | UnsetType = UNSET


class SteerAccepted(SteerEvent, frozen=True, kw_only=True, tag="response.steer.accepted"):
    steer: SteerReceipt


class SteerPending(SteerEvent, frozen=True, kw_only=True, tag="response.steer.pending"):
    steer: SteerReceipt
    reason: Literal["waiting_for_required_input"]
    required_input: list[RequiredOutput]


class SteerFailed(SteerEvent, frozen=True, kw_only=True, tag="response.steer.failed"):
    error: ErrorPayload
    steer: ReturnedSteer


# -- what Codex reads beside a response, where it has no headers to read it in ---------------------


class CodexWindow(Struct, frozen=True, kw_only=True):
    used_percent: float
    window_minutes: int
    reset_at: int


class CodexRateLimits(Struct, frozen=True, kw_only=True, tag="codex.rate_limits"):
    limit_name: str
    rate_limits: dict[str, CodexWindow]
    """``primary``, and ``secondary`` where there are two."""


class CodexMetadata(Struct, frozen=True, kw_only=True, tag="codex.response.metadata"):
    headers: dict[str, str]


CodexEvent = CodexRateLimits | CodexMetadata
Event = ResponseEvent | ErrorFrame | InterruptAccepted | SteerEvent | CodexEvent

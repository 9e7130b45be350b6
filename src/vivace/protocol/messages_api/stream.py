"""A turn's events as those of the Messages API, and a finished turn as its message."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from vivace.protocol.codec import framed
from vivace.protocol.events import (
    FunctionArgumentsDelta,
    OutputItemAdded,
    OutputItemDone,
    OutputItemInterrupted,
    OutputTextDelta,
    ReasoningTextDelta,
    Response,
    ResponseCompleted,
    ResponseCreated,
    ResponseEvent,
    ResponseFailed,
    ResponseIncomplete,
)
from vivace.protocol.events import Usage as ResponseUsage
from vivace.protocol.items import FunctionCall, Item, Reasoning, text_of
from vivace.protocol.items import Message as MessageItem
from vivace.protocol.messages_api.errors import failure
from vivace.protocol.messages_api.thoughts import SHOWN, signature_of
from vivace.protocol.messages_api.types import (
    AnswerBlock,
    BlockDelta,
    BlockStart,
    BlockStop,
    End,
    InputJsonDelta,
    Message,
    MessageDelta,
    MessageStart,
    MessageStop,
    Ping,
    SignatureDelta,
    StopReason,
    TextBlock,
    TextDelta,
    ThinkingBlock,
    ThinkingDelta,
    ToolUse,
    Usage,
)

__all__ = ["PING", "MessageEvents", "message"]

PING = framed(Ping())
"""Goes out while nothing else does, so that nobody takes a long wait for a dead connection."""

_arguments: msgspec.json.Decoder[dict[str, object]] = msgspec.json.Decoder(dict[str, object])


# -- whole ----------------------------------------------------------------------------------------


def message(response: Response, *, omits_thoughts: bool = False) -> Message:
    blocks = (_block(item, omits_thoughts) for item in response.output)
    return Message(
        id=_id(response),
        model=response.model,
        content=[block for block in blocks if block is not None],
        stop_reason=_stop_reason(response),
        usage=_usage(response.usage),
    )


def _id(response: Response) -> str:
    return f"msg_{response.id.removeprefix('resp_')}"


def _block(item: Item, omits_thoughts: bool) -> AnswerBlock | None:
    match item:
        case MessageItem():
            return TextBlock(text_of(item.content))
        case Reasoning():
            thought = text_of(item.content or ())
            if omits_thoughts:
                return ThinkingBlock("", signature_of(thought))
            return ThinkingBlock(thought, SHOWN)
        case FunctionCall():
            return _call(item)
    return None


def _call(item: FunctionCall) -> ToolUse | None:
    """None for a call that was cut off, which nobody could run. One that the model wrote wrong goes
    out without arguments, so that its tool complains to it."""
    try:
        given = _arguments.decode(item.arguments or "{}")
    except (msgspec.DecodeError, RecursionError):
        if item.status == "incomplete":
            return None
        given = {}
    return ToolUse(id=item.call_id, name=item.name, input=given)


def _stop_reason(response: Response) -> StopReason:
    if response.status == "incomplete":
        return "max_tokens"
    calls = any(isinstance(item, FunctionCall) for item in response.output)
    return "tool_use" if calls else "end_turn"


def _usage(usage: ResponseUsage | None, estimate: int = 0) -> Usage:
    if usage is None:
        return Usage(input_tokens=estimate)
    cached = usage.input_tokens_details.cached_tokens
    return Usage(
        input_tokens=usage.input_tokens - cached,
        cache_read_input_tokens=cached,
        output_tokens=usage.output_tokens,
    )


# -- streamed -------------------------------------------------------------------------------------


class MessageEvents:
    """Makes its events of a turn's; one object for one stream."""

    def __init__(self, estimate: int, *, omits_thoughts: bool = False) -> None:
        """``estimate``: about how many tokens there are to read, which is told first and then
        corrected."""
        self._estimate = estimate
        self._omits_thoughts = omits_thoughts
        self._begun = False
        self._index = -1
        self._open = False

    def __call__(self, event: ResponseEvent) -> bytes:
        """Bytes for this event; none when this API has no word for it."""
        match event:
            case OutputTextDelta():
                return self._delta(TextDelta(event.delta))
            case FunctionArgumentsDelta():
                return self._delta(InputJsonDelta(event.delta))
            case ReasoningTextDelta():
                return b"" if self._omits_thoughts else self._delta(ThinkingDelta(event.delta))
            case ResponseCreated():
                return self._start(event.response)
            case OutputItemAdded():
                return self._start_block(event.item)
            case OutputItemDone():
                return self._sign(event.item) + self._stop_block()
            case OutputItemInterrupted():
                return self._stop_block()
            case ResponseCompleted() | ResponseIncomplete():
                return self._end(event.response)
            case ResponseFailed():
                return framed(failure(event.response.error))
        return b""

    def _start(self, response: Response) -> bytes:
        if self._begun:  # a successor, after a steer: to this client it is one answer
            return b""
        self._begun = True
        usage = Usage(input_tokens=self._estimate)
        begun = Message(id=_id(response), model=response.model, usage=usage)
        return framed(MessageStart(begun))

    def _start_block(self, item: Item) -> bytes:
        block: AnswerBlock
        match item:
            case MessageItem():
                block = TextBlock("")
            case Reasoning():
                block = ThinkingBlock("")
            case FunctionCall():
                block = ToolUse(id=item.call_id, name=item.name, input={})
            case _:
                return b""
        self._index += 1
        self._open = True
        return framed(BlockStart(self._index, block))

    def _delta(self, delta: TextDelta | ThinkingDelta | SignatureDelta | InputJsonDelta) -> bytes:
        return framed(BlockDelta(self._index, delta))

    def _sign(self, item: Item) -> bytes:
        if not isinstance(item, Reasoning):
            return b""
        omitted = signature_of(text_of(item.content or ())) if self._omits_thoughts else SHOWN
        return self._delta(SignatureDelta(omitted))

    def _stop_block(self) -> bytes:
        if not self._open:
            return b""
        self._open = False
        return framed(BlockStop(self._index))

    def _end(self, response: Response) -> bytes:
        if response.incomplete_details and response.incomplete_details.reason == "steered":
            return b""  # its successor goes on
        end = End(stop_reason=_stop_reason(response))
        told: tuple[Struct, ...] = (
            MessageDelta(end, _usage(response.usage, self._estimate)),
            MessageStop(),
        )
        return b"".join(framed(each) for each in told)

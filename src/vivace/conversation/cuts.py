"""Where the text of an ended turn was cut into deltas, so that its stream can be told again.

The final response has the text of a turn; its cuts have what the response does not: how long each
delta was (a byte, mostly), what was said of the queue, and the item that was dropped at the end.
Both together give a log (``entries_of``) whose events are those of the turn. It is not the log as
it was: what made no difference to the events is not in it, nor are token ids.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
from msgspec import Struct

from vivace.conversation import compaction
from vivace.conversation.deltas import (
    CallOpened,
    CallText,
    Delta,
    Finished,
    ReasoningDelta,
    TextDelta,
)
from vivace.conversation.log import Begun, Entry, Failed, Placed, Said, Stopped, ThinkingEnded
from vivace.conversation.response import tokens_of
from vivace.errors import LogError, RequestError
from vivace.protocol.events import Response
from vivace.protocol.items import (
    Compaction,
    CustomToolCall,
    FunctionCall,
    Item,
    Message,
    Reasoning,
    ToolCall,
    text_of,
)

__all__ = ["Cuts", "decode_cuts", "encode_cuts", "entries_of", "unfit"]


class Cuts(Struct, array_like=True):
    """Gathered by a turn as it goes; fields are only ever added, behind the others."""

    places: list[tuple[int, float]] = []
    begun: bool = False
    summary: bool = False
    lengths: list[list[int]] = []
    """Of the deltas of each item, in characters; those of a dropped one are the last."""
    dropped: Item | None = None
    """The item in the making that no response has."""
    jumps: list[int] = []
    """The numbers that were next when the numbers jumped."""


_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Cuts] = msgspec.msgpack.Decoder(Cuts)


def encode_cuts(cuts: Cuts) -> bytes:
    return _encoder.encode(cuts)


def decode_cuts(data: bytes) -> Cuts:
    try:
        return _decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, RequestError) as error:
        raise unfit() from error


def unfit() -> LogError:
    return LogError(
        "The events of this response cannot be told again: what is kept of them is damaged, is of "
        "another response, or a newer version of this server wrote it. Its text is whole; read "
        "it without the stream."
    )


def entries_of(final: Response, cuts: Cuts) -> Iterator[Entry]:
    """Refuses cuts that do not fit the response."""
    at = final.created_at if final.completed_at is None else final.completed_at
    for position, seconds in cuts.places:
        yield Placed(at, position, seconds)
    if cuts.begun:
        yield Begun(at, cuts.summary)
    items = [*final.output, cuts.dropped] if cuts.dropped is not None else final.output
    if len(items) != len(cuts.lengths):
        raise unfit()
    for item, lengths in zip(items, cuts.lengths, strict=True):
        for delta in _deltas(item, lengths):
            yield Said(at, delta)
        if getattr(item, "status", None) == "completed":  # else it was open when the turn ended
            yield ThinkingEnded(at)
    yield _end(final, at)


def _deltas(item: Item, lengths: Sequence[int]) -> Iterator[Delta]:
    match item:
        case Message():
            return (TextDelta(text) for text in _pieces(text_of(item.content), lengths))
        case Reasoning():
            thoughts = text_of(item.content or ())
            return (ReasoningDelta(text) for text in _pieces(thoughts, lengths))
        case FunctionCall() | CustomToolCall():
            return _call(item, lengths)
        case Compaction():
            return iter([TextDelta(_summary(item))])
    raise unfit()


def _call(item: ToolCall, lengths: Sequence[int]) -> Iterator[Delta]:
    custom = isinstance(item, CustomToolCall)
    yield CallOpened(item.name, custom, item.namespace or None, item.call_id)
    text = item.input if isinstance(item, CustomToolCall) else item.arguments
    for piece in _pieces(text, lengths):
        yield CallText(piece)


def _pieces(text: str, lengths: Sequence[int]) -> Iterator[str]:
    if sum(lengths) != len(text) or min(lengths, default=0) < 0:
        raise unfit()
    start = 0
    for length in lengths:
        yield text[start : start + length]
        start += length


def _summary(item: Compaction) -> str:
    try:
        return compaction.unpack(item, "output")
    except RequestError as error:
        raise unfit() from error


def _end(final: Response, at: int) -> Entry:
    reason = final.incomplete_details.reason if final.incomplete_details else None
    match final.status, reason:
        case "completed", _ if final.usage is not None:
            return Said(at, Finished("stop", tokens_of(final.usage)))
        case "incomplete", "max_output_tokens" if final.usage is not None:
            return Said(at, Finished("length", tokens_of(final.usage)))
        case "incomplete", "interrupted":
            return Stopped(at, "interrupt")
        case "incomplete", "steered":
            return Stopped(at, "steer")
        case "incomplete", "disconnected":
            return Stopped(at, "away")
        case "cancelled", _:
            return Stopped(at, "cancel")
        case "failed", _ if final.error is not None:
            return Failed(at, final.error.code, final.error.message)
    raise unfit()

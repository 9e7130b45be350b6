"""Work, cards and failures as they go over a link to an engine node, and as they come out of it.

A conversation's items go beside the rest, because the node may have most of them already
(``link/histories.py``). What an engine noted for itself (``Tally.trace``) stays where it is: what
goes over the link is the name of the run that it is of.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import isfinite

import msgspec
from msgspec import Raw, Struct

from vivace import errors
from vivace.conversation.deltas import MAX_TOKENS, Delta
from vivace.conversation.so_far import SoFar
from vivace.engines.base import Card, Chat, Fill, Sampling, Tally, Thoughts, Work
from vivace.errors import EngineError
from vivace.link.frames import Broke, Run, Tallied
from vivace.protocol.items import Item, Tool
from vivace.protocol.requests import (
    AllowedTools,
    NamedTool,
    Prediction,
    TextFormat,
    Toolbox,
    ToolChoice,
    ToolMode,
)

__all__ = [
    "RemoteTrace",
    "Traces",
    "decode_cards",
    "decode_work",
    "encode_cards",
    "encode_work",
    "failure_of",
    "how_it_broke",
    "tallied",
]


class RemoteTrace(Struct, frozen=True):
    """What an engine on a node noted of a run."""

    incarnation: str
    run: str


class _Chat(Struct, frozen=True, array_like=True):
    instructions: str | None
    tools: tuple[Tool, ...]
    mode: ToolMode | None
    named: NamedTool | None
    allowed: AllowedTools | None
    parallel: bool
    format: TextFormat
    effort: str | None
    prediction: Prediction | None


class _Said(Struct, frozen=True, array_like=True):
    deltas: tuple[Delta, ...]
    tokens: int
    trace: str


class _Thoughts(Struct, frozen=True, array_like=True):
    text: str
    trace: str


class _Work(Struct, frozen=True, array_like=True):
    model: str
    chat: _Chat | None
    fill: Fill | None
    sampling: Sampling
    generate: bool
    parent_id: str | None
    priority: int
    thoughts: _Thoughts | None
    said: _Said | None
    traceparent: str | None


_encoder = msgspec.msgpack.Encoder()
_work: msgspec.msgpack.Decoder[_Work] = msgspec.msgpack.Decoder(_Work)
_cards: msgspec.msgpack.Decoder[tuple[Card, ...]] = msgspec.msgpack.Decoder(tuple[Card, ...])

Traces = Callable[[str], object]
"""What an engine here noted of the run of this name; None if that is forgotten, or has no name."""


def encode_cards(cards: Sequence[Card]) -> bytes:
    return _encoder.encode(cards)


def decode_cards(data: bytes) -> tuple[Card, ...]:
    """Return the models of an engine on a node, one at least; raise ``LinkError`` without."""
    try:
        cards = _cards.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise errors.LinkError(f"A node's models cannot be read: {type(error).__name__}.") from None
    if not cards or any(card.context < 1 for card in cards):
        raise errors.LinkError("A node offers an engine without a model, or one without a context.")
    return cards


# -- work -----------------------------------------------------------------------------------------


def encode_work(work: Work, incarnation: str) -> tuple[Raw, tuple[Item, ...]]:
    """For the node of this incarnation: the work, and the items that go beside it."""
    chat = work.prompt if isinstance(work.prompt, Chat) else None
    thoughts, said = work.thoughts, work.said
    wire = _Work(
        model=work.model,
        chat=_chat(chat) if chat is not None else None,
        fill=work.prompt if isinstance(work.prompt, Fill) else None,
        sampling=work.sampling,
        generate=work.generate,
        parent_id=work.parent_id,
        priority=work.priority,
        thoughts=(
            _Thoughts(thoughts.text, _name(thoughts.trace, incarnation)) if thoughts else None
        ),
        said=_Said(said.deltas, said.tokens, _name(said.trace, incarnation)) if said else None,
        traceparent=work.traceparent,
    )
    return Raw(_encoder.encode(wire)), tuple(chat.items) if chat is not None else ()


def _chat(chat: Chat) -> _Chat:
    choice = chat.tool_choice
    return _Chat(
        chat.instructions,
        chat.toolbox.tools,
        choice if isinstance(choice, str) else None,
        choice if isinstance(choice, NamedTool) else None,
        choice if isinstance(choice, AllowedTools) else None,
        chat.parallel_tool_calls,
        chat.format,
        chat.effort,
        chat.prediction,
    )


def _name(trace: object, incarnation: str) -> str:
    if isinstance(trace, RemoteTrace) and trace.incarnation == incarnation:
        return trace.run
    return ""


def decode_work(run: Run, items: tuple[Item, ...], traces: Traces) -> Work:
    wire = _work.decode(run.work)
    prompt: Chat | Fill | None = wire.fill
    if wire.chat is not None:
        prompt = _read_chat(wire.chat, items)
    if prompt is None:
        raise errors.LinkError("A gateway sent work without a prompt.")
    thoughts, said = wire.thoughts, wire.said
    return Work(
        id=run.turn,
        model=wire.model,
        prompt=prompt,
        sampling=wire.sampling,
        generate=wire.generate,
        parent_id=wire.parent_id,
        priority=wire.priority,
        thoughts=Thoughts(thoughts.text, traces(thoughts.trace)) if thoughts else None,
        said=SoFar(said.deltas, said.tokens, traces(said.trace)) if said else None,
        attempt=run.attempt,
        owner=run.owner,
        conversation=run.conversation,
        traceparent=wire.traceparent,
    )


def _read_chat(chat: _Chat, items: tuple[Item, ...]) -> Chat:
    choice: ToolChoice = chat.mode or chat.named or chat.allowed or "auto"
    return Chat(
        items=items,
        instructions=chat.instructions,
        toolbox=Toolbox(chat.tools),
        tool_choice=choice,
        parallel_tool_calls=chat.parallel,
        format=chat.format,
        effort=chat.effort,
        prediction=chat.prediction,
    )


# -- failures -------------------------------------------------------------------------------------

_MAX_MESSAGE = 2000
_MAX_CODE = 100
_MAX_WAIT_S = 86_400.0

_KINDS: dict[str, type[EngineError]] = {
    kind.__name__: kind
    for kind in (
        errors.EngineError,
        errors.EngineRefused,
        errors.EngineOverflow,
        errors.EngineBusy,
        errors.EngineDied,
        errors.EngineAbsent,
        errors.EngineSilent,
        errors.CannotContinue,
    )
}


def how_it_broke(error: EngineError, tally: Tally) -> Broke:
    kind, code, seconds = type(error).__name__, "", 0.0
    if isinstance(error, errors.EngineFull):  # which not all gateways know
        kind, code, seconds = errors.EngineBusy.__name__, error.code, error.seconds
    return Broke(
        0,
        kind if kind in _KINDS else EngineError.__name__,
        str(error),
        error.retry_after,
        error.blame,
        tallied(tally),
        code,
        seconds,
    )


def tallied(tally: Tally) -> Tallied:
    """Return a tally as it goes over a link. An endpoint may count anything, and a gateway refuses
    the frame with a count that cannot be: that would end the answers of all others, too."""
    counts = (tally.input, tally.cached, tally.output, tally.steps)
    return Tallied(*(min(max(count, 0), MAX_TOKENS) for count in counts))


def failure_of(broke: Broke) -> EngineError:
    """Return the error that a node told of, in the bounds of what a client is told."""
    message, code = broke.message[:_MAX_MESSAGE], broke.code[:_MAX_CODE]
    retry_after = None if broke.retry_after is None else _bounded(broke.retry_after)
    if code:
        seconds = _bounded(broke.seconds)
        return errors.EngineFull(message, code=code, seconds=seconds, retry_after=retry_after)
    kind = _KINDS.get(broke.kind, EngineError)
    return kind(message, retry_after=retry_after, blame=broke.blame)


def _bounded(seconds: float) -> float:
    """Return a time that a client can be told to wait."""
    return min(max(seconds, 0.0), _MAX_WAIT_S) if isfinite(seconds) else _MAX_WAIT_S

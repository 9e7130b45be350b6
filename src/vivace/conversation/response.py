"""The response object: before anything happened, as it is kept, and what it says of the cost."""

from __future__ import annotations

import msgspec
from msgspec import UNSET, Raw, UnsetType
from msgspec.structs import asdict, replace

from vivace.conversation.deltas import Tokens
from vivace.errors import LogError, RequestError
from vivace.protocol.codec import decode_tool_choice
from vivace.protocol.events import (
    InputTokensDetails,
    OutputTokensDetails,
    Response,
    Routing,
    Usage,
)
from vivace.protocol.requests import CreateResponse, TextConfig

__all__ = ["as_created", "open_response", "read_response", "tokens_of", "usage_of"]


def open_response(
    request: CreateResponse,
    response_id: str,
    model: str,
    now: int,
    routing: Routing | UnsetType = UNSET,
) -> Response:
    """The response object before anything happened: what was asked, echoed with the defaults."""
    body = request.body
    return Response(
        id=response_id,
        created_at=now,
        status="queued",
        model=model,
        previous_response_id=body.previous_response_id,
        instructions=body.instructions,
        tools=request.toolbox.echo,
        tool_choice=request.tool_choice,
        truncation=body.truncation or "disabled",
        parallel_tool_calls=body.parallel_tool_calls is not False,
        text=body.text or TextConfig(),
        top_p=1.0 if body.top_p is None else body.top_p,
        presence_penalty=body.presence_penalty or 0.0,
        frequency_penalty=body.frequency_penalty or 0.0,
        top_logprobs=body.top_logprobs or 0,
        temperature=1.0 if body.temperature is None else body.temperature,
        reasoning=body.reasoning,
        max_output_tokens=body.max_output_tokens,
        max_tool_calls=body.max_tool_calls,
        store=request.stored,
        background=bool(body.background),
        metadata=body.metadata or {},
        safety_identifier=body.safety_identifier,
        prompt_cache_key=body.prompt_cache_key,
        routing=routing,
        fill=UNSET if request.fill is None else True,
    )


def as_created(response: Response) -> Response:
    """The same before anything happened, of one that has ended."""
    return replace(
        response,
        status="queued",
        output=[],
        usage=None,
        error=None,
        completed_at=None,
        incomplete_details=None,
    )


class _Kept(Response, frozen=True, kw_only=True):
    tool_choice: Raw  # type: ignore[assignment]


_kept: msgspec.json.Decoder[_Kept] = msgspec.json.Decoder(_Kept)


def read_response(data: bytes) -> Response:
    """One that was kept as it goes over the wire."""
    try:
        kept = _kept.decode(data)
        return Response(**asdict(kept) | {"tool_choice": decode_tool_choice(kept.tool_choice)})
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, RequestError) as error:
        raise LogError(
            "A response that was kept cannot be read: it is damaged, or a newer version of this "
            "server wrote it. Delete it, and send the conversation again."
        ) from error


def usage_of(tokens: Tokens) -> Usage:
    return Usage(
        tokens.input,
        tokens.output,
        tokens.input + tokens.output,
        InputTokensDetails(tokens.cached),
        OutputTokensDetails(tokens.reasoning, tokens.accepted, tokens.rejected),
    )


def tokens_of(usage: Usage) -> Tokens:
    read, written = usage.input_tokens_details, usage.output_tokens_details
    return Tokens(
        usage.input_tokens,
        usage.output_tokens,
        read.cached_tokens,
        written.reasoning_tokens,
        written.accepted_prediction_tokens,
        written.rejected_prediction_tokens,
    )

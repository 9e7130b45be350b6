"""Our errors in the form of the Messages API, whose clients decide by type, status and words."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from vivace.errors import RequestError
from vivace.protocol.codec import encode
from vivace.protocol.events import ErrorFrame, ResponseProblem
from vivace.protocol.messages_api.types import ErrorBody, ErrorEvent

__all__ = ["error_body", "error_event", "failure", "speaks_messages"]

_OVERFLOW = "context_length_exceeded"

_TYPES: Mapping[int, str] = MappingProxyType(
    {
        401: "authentication_error",
        403: "permission_error",
        404: "not_found_error",
        413: "request_too_large",
        429: "rate_limit_error",
        500: "api_error",
        503: "overloaded_error",
    }
)
"""By status; what is not here is the client's to fix."""

_FAILED: Mapping[str, str] = MappingProxyType(
    {
        "rate_limit_exceeded": "overloaded_error",
        "engine_died": "overloaded_error",
        "invalid_prompt": "invalid_request_error",
        _OVERFLOW: "invalid_request_error",
    }
)
"""By the code of an answer that failed after it had begun."""


def speaks_messages(path: str) -> bool:
    """Whether who asks at this path reads these errors and no others."""
    return path == "/v1/messages" or path.startswith("/v1/messages/")


def error_body(error: RequestError, request_id: str) -> bytes:
    told = ErrorBody(_TYPES.get(error.status, "invalid_request_error"), _words(error))
    return encode(ErrorEvent(error=told, request_id=request_id))


def error_event(frame: ErrorFrame) -> ErrorEvent:
    """What ended a stream after it had begun, and was no failure of the answer itself."""
    kind = _TYPES.get(frame.status, "invalid_request_error")
    return ErrorEvent(error=ErrorBody(kind, frame.error.message))


def failure(problem: ResponseProblem | None) -> ErrorEvent:
    if problem is None:
        return ErrorEvent(error=ErrorBody("api_error", "The answer failed."))
    words = _too_long(problem.message) if problem.code == _OVERFLOW else problem.message
    return ErrorEvent(error=ErrorBody(_FAILED.get(problem.code, "api_error"), words))


def _words(error: RequestError) -> str:
    """There is no place for the field's name but the message."""
    if error.code == _OVERFLOW:
        return _too_long(error.message, error.tokens, error.limit)
    if error.param is None or error.param in error.message:
        return error.message
    return f"{error.param}: {error.message}"


def _too_long(message: str, tokens: int | None = None, limit: int | None = None) -> str:
    """Claude Code compacts a conversation when it reads these words, by as much as they say."""
    if tokens is None or limit is None:
        return f"prompt is too long: {message}"
    # The last token of the context is the answer's.
    return f"prompt is too long: {tokens} tokens > {limit - 1} maximum"

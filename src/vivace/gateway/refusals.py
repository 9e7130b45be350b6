"""What a client is told of which the application never hears: whole responses, made once."""

from __future__ import annotations

from functools import cache
from http import HTTPStatus

from vivace.errors import InvalidRequest, RequestError
from vivace.gateway.front import error_body, error_headers

__all__ = [
    "HEADERS",
    "HEAD_BYTES",
    "HEAD_TOO_LARGE",
    "LATE",
    "NO_HANDSHAKE",
    "NO_HTTP",
    "PIECES",
    "PIECE_BYTES",
    "PIPELINED",
    "TOO_MANY_AT_ONCE",
    "TOO_SMALL_CHUNKS",
    "answer",
]

HEAD_BYTES = 65_536
HEADERS = 128
PIPELINED = 64
"""Requests that may be sent on one connection before the first is answered."""
PIECES = 4096
PIECE_BYTES = 64
"""A body in more pieces than that has so many bytes in each, taken together."""


@cache
def answer(error: RequestError) -> bytes:
    """A whole response, for clients that the application never hears of."""
    body = error_body(error, "")
    headers = {
        **error_headers(error),
        "content-length": str(len(body)),
        "connection": "close",
    }
    head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    status = HTTPStatus(error.status)
    return f"HTTP/1.1 {status.value} {status.phrase}\r\n{head}\r\n".encode() + body


def _refusal(status: int, code: str, message: str) -> RequestError:
    error = InvalidRequest(message, code=code)
    error.status = status
    return error


HEAD_TOO_LARGE = _refusal(
    431,
    "headers_too_large",
    f"The request's headers are more than this server takes, which is {HEADERS} of them and "
    f"{HEAD_BYTES} bytes. Send what is long in the body.",
)
LATE = _refusal(
    408,
    "request_timeout",
    "The request did not arrive in time. Send it again, on a new connection.",
)
NO_HTTP = _refusal(400, "invalid_http", "This is not HTTP as this server reads it (HTTP/1.1).")
NO_HANDSHAKE = _refusal(
    400,
    "invalid_handshake",
    "This WebSocket handshake cannot be read: it must be a GET of HTTP/1.1 without a body, in "
    "ASCII, with headers of at most 8192 bytes each, and with nothing unanswered before it.",
)
TOO_MANY_AT_ONCE = _refusal(
    400,
    "too_many_pipelined",
    f"More than {PIPELINED} requests were sent on one connection before the first was answered.",
)
TOO_SMALL_CHUNKS = _refusal(
    400,
    "chunks_too_small",
    f"The body comes in chunks of less than {PIECE_BYTES} bytes. Send larger ones, or no chunks.",
)

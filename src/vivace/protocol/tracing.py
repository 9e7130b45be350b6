"""The trace that a request belongs to, as W3C's Trace Context writes it.

It comes from the client and means nothing here: it goes into the log and on to engines, so that
whoever traces finds the way of a request through all of them. What is not exactly of that form is
as good as none, since it would go into logs and headers of others.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec
from msgspec import Raw, Struct

__all__ = ["in_metadata", "trace_id", "traceparent"]

_FORM = re.compile(r"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")


def traceparent(said: object) -> str | None:
    """What a client said, if it is one."""
    return said if isinstance(said, str) and _FORM.fullmatch(said) else None


def trace_id(parent: str) -> str:
    return parent[3:35]


class _Metadata(Struct):
    ws_request_header_traceparent: Any = None


_metadata: msgspec.json.Decoder[_Metadata] = msgspec.json.Decoder(_Metadata)


def in_metadata(metadata: Raw) -> str | None:
    """Codex says it there, since the frames of a WebSocket have no headers."""
    try:
        return traceparent(_metadata.decode(metadata).ws_request_header_traceparent)
    except (msgspec.MsgspecError, RecursionError):
        return None

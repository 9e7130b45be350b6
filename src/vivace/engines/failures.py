"""What a failure of an endpoint means: whose fault it is, and whether another may be asked.

::

    429                    busy     another may be tried; this one is left alone for a while
    502, 503, 504          down     another may be tried, and it counts against this one
    400, 413, 422 …        refused  the request is at fault, and no other would take it; its words
                                    say whether it is too long, which clients can mend
    401, 404, 408, 500 …   failed   another may be tried; if that succeeds, this one was at fault

A key that the endpoint does not know (401) or a model that it does not have (404) are faults of the
endpoint as it is set up here, never of a client: it sees neither.
"""

from __future__ import annotations

import re

import msgspec
from msgspec import Raw, Struct

from vivace.errors import EngineBusy, EngineError, EngineOverflow, EngineRefused

__all__ = ["failure", "failure_in_stream"]

_BUSY = 1.0
"""Seconds for which a busy endpoint is left alone that does not say how long."""

_DOWN = frozenset({502, 503, 504})
_SET_UP_WRONG = frozenset({401, 402, 403, 404, 405, 407, 408})
_STATUS_OF = {"rate_limit_exceeded": 429, "invalid_prompt": 400, "context_length_exceeded": 400}
"""What the Responses API writes where others have a number."""


_TOO_LONG = re.compile(
    r"context_length_exceeded|exceed_context_size|prompt is too long"
    r"|(exceed|longer than|larger than|maximum)[^.]{0,80}\bcontext (length|size|window)",
    re.IGNORECASE,
)
"""How OpenAI, vLLM, llama.cpp, SGLang and others say it: there is a code for it only at some."""


def failure(status: int, message: str, wait: float | None = None) -> EngineError:
    if status == 429:
        return EngineBusy(message, retry_after=wait or _BUSY)
    if status in _DOWN:
        return EngineError(message, retry_after=wait, blame="always")
    if 400 <= status < 500 and status not in _SET_UP_WRONG:
        return EngineOverflow(message) if _TOO_LONG.search(message) else EngineRefused(message)
    return EngineError(message, retry_after=wait)


class _Said(Struct):
    code: int | str | None = None


_said: msgspec.json.Decoder[_Said] = msgspec.json.Decoder(_Said)


def failure_in_stream(error: Raw) -> EngineError:
    """An error that came where an answer had begun."""
    try:
        code = _said.decode(error).code
    except msgspec.MsgspecError:
        code = None
    status = code if isinstance(code, int) else _STATUS_OF.get(code or "", 500)
    return failure(status, f"The engine failed: {bytes(error).decode(errors='replace')[:300]}")

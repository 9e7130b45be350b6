"""Makes most requests for a turn possible ones: schemathesis knows no model and no response."""

from __future__ import annotations

from typing import Any

import schemathesis

__all__ = ["map_body"]

_UNKNOWABLE = ("model", "previous_response_id", "top_logprobs", "logprobs", "include", "n")
_IN_VAIN = 4
"""One in so many stays as it was made."""


def map_body(context: Any, body: Any) -> Any:
    if not isinstance(body, dict) or len(repr(body)) % _IN_VAIN == 0:
        return body
    kept = {name: value for name, value in body.items() if name not in _UNKNOWABLE}
    if "input" in kept and kept["input"] in (None, "", []):
        kept["input"] = "hi"
    return kept


schemathesis.hook(map_body)

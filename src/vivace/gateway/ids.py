"""Fresh ids and the time: the two things the core is given rather than takes."""

from __future__ import annotations

import secrets
import time

__all__ = ["new_id", "now"]


def new_id(prefix: str) -> str:
    """Those of responses begin with the milliseconds since 1970, so that a store can part them by
    time."""
    if prefix == "resp":
        return f"resp_{time.time_ns() // 1_000_000:012x}{secrets.token_hex(10)}"
    return f"{prefix}_{secrets.token_hex(16)}"


def now() -> int:
    return int(time.time())

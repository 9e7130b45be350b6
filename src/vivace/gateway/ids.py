"""Fresh ids and the time: the two things the core is given rather than takes."""

from __future__ import annotations

import secrets
import time

__all__ = ["new_id", "now"]


def new_id(prefix: str) -> str:
    return f"{prefix}_{secrets.token_hex(16)}"


def now() -> int:
    return int(time.time())

"""Wait for a condition, with a limit that only a hang reaches."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

PATIENCE_S = 60.0
"""How long a test waits for what takes milliseconds on an idle machine."""


def eventually(
    holds: Callable[[], bool], seconds: float = PATIENCE_S, explain: Callable[[], str] = str
) -> None:
    """Poll until ``holds()`` is true; after ``seconds`` fail with ``explain()``."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"not so after {seconds} seconds {explain()}"
        time.sleep(0.01)


async def eventually_async(holds: Callable[[], bool], seconds: float = PATIENCE_S) -> None:
    """Poll until ``holds()`` is true while the event loop runs; after ``seconds`` fail."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"not so after {seconds} seconds"
        await asyncio.sleep(0.005)

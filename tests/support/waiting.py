"""Waiting for what happens on another thread, with an end."""

from __future__ import annotations

import time
from collections.abc import Callable


def eventually(holds: Callable[[], bool], seconds: float = 5) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"did not come true in {seconds} seconds"
        time.sleep(0.01)

"""Waiting for what happens on another thread, with an end."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest


def eventually(holds: Callable[[], bool], seconds: float = 5) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"did not come true in {seconds} seconds"
        time.sleep(0.01)


in_time = pytest.mark.flaky(reruns=2, reruns_delay=1)
"""For a test with a limit of time. A machine that is taken away for a moment only ever adds to it,
so one time of three within the limit is enough."""

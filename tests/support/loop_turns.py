"""An event loop that counts the work done in each of its turns, where a clock would judge the
machine as well."""

from __future__ import annotations

import asyncio
import sys
from types import FrameType


class CountingLoop(asyncio.SelectorEventLoop):
    """Counts the functions called on the loop's own thread, those written in C included.

    All other streams of a server stand still during a turn. Work in other threads is not counted.
    """

    def __init__(self) -> None:
        super().__init__()
        self.most_calls = 0
        """Calls in the turn that had the most, since this was set."""
        self._calls = 0

    def run_forever(self) -> None:
        before = sys.getprofile()
        sys.setprofile(self._count)
        try:
            super().run_forever()
        finally:
            sys.setprofile(before)

    def _run_once(self) -> None:
        self._calls = 0
        super()._run_once()  # type: ignore[misc]
        self.most_calls = max(self.most_calls, self._calls)

    def _count(self, frame: FrameType, event: str, argument: object) -> None:
        if event in ("call", "c_call"):
            self._calls += 1

"""Garbage is collected while nobody types.

Python looks for cycles that nothing refers to whenever enough was made, and walks through all that
the program holds for it: with a file of 10,000 lines open that takes 40 to 90 ms, in the middle of
a key. Here that walk waits for a pause. What is young is still looked through at once, which takes
no time.
"""

from __future__ import annotations

import asyncio
import gc
from asyncio import TimerHandle

__all__ = ["Garbage"]

_PAUSE_S = 1.5
"""Nobody has typed for so long."""
_DUE = 10
"""Looks through what is younger, after which Python would look through everything."""
_LONGEST_WAIT = 1_000
"""As many, after which it does: somebody has been typing without a pause."""


class Garbage:
    def __init__(self) -> None:
        self._wait: TimerHandle | None = None

    def wait_for_pauses(self) -> None:
        young, middle, _ = gc.get_threshold()
        gc.set_threshold(young, middle, _LONGEST_WAIT)

    def typed(self) -> None:
        """Somebody types now."""
        if self._wait is not None:
            self._wait.cancel()
        self._wait = asyncio.get_running_loop().call_later(_PAUSE_S, self._collect)

    def _collect(self) -> None:
        self._wait = None
        if gc.get_count()[2] >= _DUE:
            gc.collect()

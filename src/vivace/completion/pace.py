"""How long to wait after a key before anything is asked.

Not at all where the engine answers faster than the person types. Where it does not, a part of what
an answer takes: so most requests that the next key would make useless are never sent.
"""

from __future__ import annotations

__all__ = ["Pace"]

_SLOWLY = 0.2
_PART = 0.35
_LONGEST = 0.4
_PAUSE = 1.5
"""Seconds; what is longer between two keys says nothing of how fast somebody types."""


class Pace:
    def __init__(self) -> None:
        self._answer = 0.0
        self._key = 0.2
        self._last: float | None = None

    def typed(self, now: float) -> None:
        if self._last is not None and 0 < now - self._last < _PAUSE:
            self._key += _SLOWLY * (now - self._last - self._key)
        self._last = now

    def answered(self, seconds: float) -> None:
        self._answer += (_SLOWLY if self._answer else 1.0) * (seconds - self._answer)

    def delay(self) -> float:
        """Seconds to wait for another key."""
        if self._answer <= self._key:
            return 0.0
        return min(_LONGEST, _PART * self._answer, 1.5 * self._key)

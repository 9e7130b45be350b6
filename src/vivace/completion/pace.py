"""How long to wait after a key before anything is asked.

Not at all where the engine answers faster than the person types. Where it does not, a part of what
an answer takes: so most requests that the next key would make useless are never sent. Who wants
their machine to rest has it asked only when they pause, and nothing done that they did not ask for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

__all__ = ["PATIENCE", "Pace", "Timing"]

PATIENCE = 0.5
"""Seconds after a key; then the lines that are there are shown without those still to come."""

Timing = Literal["auto", "always", "pauses"]
"""By measured speed, and on battery power as the last; at every key; or only when nobody types."""

_SLOWLY = 0.2
_PART = 0.35
_LONGEST = 0.4
_PAUSE = 0.5
"""Seconds without a key that are a pause."""
_READING = 1.0
"""Seconds that a suggestion is looked at."""
_AWAY = 1.5
"""Seconds; what is longer between two keys says nothing of how fast somebody types."""


class Pace:
    def __init__(
        self, timing: Timing = "auto", on_battery: Callable[[], bool] = lambda: False
    ) -> None:
        self._timing = timing
        self._on_battery = on_battery
        self._answer = 0.0
        self._key = 0.2
        self._last: float | None = None

    @property
    def works_ahead(self) -> bool:
        """Whether the engine may work before a key asks it to."""
        return not self._rests

    @property
    def _rests(self) -> bool:
        return self._timing == "pauses" or (self._timing == "auto" and self._on_battery())

    @property
    def follows(self) -> bool:
        """Whether what follows a suggestion can be there by the time that it was read."""
        return self.works_ahead and 0 < self._answer <= _READING

    def typed(self, now: float) -> None:
        if self._last is not None and 0 < now - self._last < _AWAY:
            self._key += _SLOWLY * (now - self._last - self._key)
        self._last = now

    def answered(self, seconds: float) -> None:
        self._answer += (_SLOWLY if self._answer else 1.0) * (seconds - self._answer)

    def delay(self, wanted: float, now: float) -> float:
        """Seconds to wait for another key, by when an answer was first wanted; 0 or less: go on."""
        if self._rests:
            return (self._last if self._last is not None else wanted) + _PAUSE - now
        if self._timing == "always" or self._answer <= self._key:
            return 0.0
        return wanted + min(_LONGEST, _PART * self._answer, 1.5 * self._key) - now

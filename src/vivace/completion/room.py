"""How much of a file to show a model, by how fast its engine was seen to read.

Whoever comes to a new place waits until what stands around it has been read. More of the file makes
better suggestions, and later ones: so it is as much as the engine reads in about two seconds.
"""

from __future__ import annotations

__all__ = ["LEAST", "MOST", "Room"]

LEAST = 2_000
"""Characters, about 500 tokens; with less, suggestions are guesses."""
MOST = 6_000
_BEGIN = 3_000
_WAIT = 2.0
"""Seconds that the text around a new place may take."""
_STEP = 1_000
"""A little faster or slower is no reason to read everything anew."""
_TELLING = 1_000
"""Characters; how long fewer take says more of the way to the engine."""
_SLOWLY = 0.3


class Room:
    def __init__(self, characters: int | None = None) -> None:
        """``characters``: as many, whatever is measured."""
        self.characters = _BEGIN if characters is None else characters
        self._fixed = characters is not None
        self._speed = 0.0

    def read(self, characters: int, seconds: float) -> None:
        """So much that was new to it took the engine so long."""
        if self._fixed or characters < _TELLING or seconds <= 0:
            return
        speed = characters / seconds
        self._speed += (_SLOWLY if self._speed else 1.0) * (speed - self._speed)
        fitting = min(MOST, max(LEAST, self._speed * _WAIT))
        if abs(fitting - self.characters) >= _STEP or fitting in (LEAST, MOST):
            self.characters = int(fitting // _STEP) * _STEP

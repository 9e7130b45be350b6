"""A node that takes no more work: how far it is with that."""

from __future__ import annotations

from vivace.link.frames import Stage

__all__ = ["Draining"]


class Draining:
    def __init__(self, seconds: float) -> None:
        """``seconds`` for which what has begun may stay, if nobody says otherwise."""
        self._seconds = seconds
        self._moves_at: float | None = None
        self._for_good = False

    @property
    def why(self) -> str:
        """Why it takes none; empty if it does."""
        if self._for_good:
            return "shutting down"
        return "draining" if self._moves_at is not None else ""

    def stage(self, now: float) -> Stage:
        if self._moves_at is None:
            return 0
        return 1 if now < self._moves_at else 2

    def begin(self, seconds: float | None, now: float) -> None:
        """Asked again, it is as asked last."""
        if not self._for_good:
            self._moves_at = now + (self._seconds if seconds is None else seconds)

    def undo(self) -> None:
        """It takes work again, unless its process is about to end."""
        if not self._for_good:
            self._moves_at = None

    def for_good(self, seconds: float, now: float) -> None:
        """Its process ends: what it was asked before allows no longer than this."""
        until = now + seconds
        self._moves_at = until if self._moves_at is None else min(self._moves_at, until)
        self._for_good = True

"""Frames that are too large to go at once: cut into pieces, between which others may go.

A stop that is said while a megabyte is on its way must not wait for it.
"""

from __future__ import annotations

from collections.abc import Iterator

from vivace.errors import LinkError
from vivace.link.frames import Piece, encode

__all__ = ["PIECE", "Joiner", "cut"]

PIECE = 64_000
"""Bytes: half a millisecond of a link of a gigabit."""
_LARGEST = 128_000_000
"""Bytes of one frame: more than any request may have."""
_AT_ONCE = 16
"""Frames whose pieces may come in between each other; we send two."""


def cut(number: int, frame: bytes) -> Iterator[bytes]:
    """Frames of one piece each."""
    for start in range(0, len(frame), PIECE):
        end = start + PIECE
        yield encode([Piece(number, end < len(frame), frame[start:end])])


class Joiner:
    """Puts them together again; pieces of several frames may come in between each other."""

    def __init__(self, largest: int = _LARGEST) -> None:
        self._largest = largest
        self._open: dict[int, bytearray] = {}
        self._bytes = 0

    def take(self, piece: Piece) -> bytes | None:
        """The frame, when it is whole."""
        joined = self._open.setdefault(piece.number, bytearray())
        joined += piece.data
        self._bytes += len(piece.data)
        if self._bytes > self._largest or len(self._open) > _AT_ONCE:
            raise LinkError(
                f"More than {_AT_ONCE} large frames, or {self._largest:,} bytes, are on their way."
            )
        if piece.more:
            return None
        del self._open[piece.number]
        self._bytes -= len(joined)
        return bytes(joined)

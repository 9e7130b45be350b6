"""Frames: several small messages in one, or one that is too large in pieces, with others between.

A stop that is said while a megabyte is on its way must not wait for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from msgspec.msgpack import Encoder

from vivace.errors import LinkError
from vivace.link.frames import MAX_MESSAGES, Piece, ToGateway, ToNode, encode

__all__ = [
    "MAX_JOINED",
    "MAX_JOINED_TO_GATEWAY",
    "PIECE",
    "ByteBudget",
    "Joiner",
    "cut",
    "frames_of",
]

PIECE = 64_000
"""Bytes: half a millisecond of a link of a gigabit."""
MAX_JOINED = 128_000_000
"""Bytes of messages whose pieces are on their way: more than any request may have."""
MAX_JOINED_TO_GATEWAY = 40_000_000
"""Bytes of such messages from a node. The largest are the log of a turn that is taken over, and
what an engine sends at once."""
_AT_ONCE = 16
"""Messages whose pieces may come in between each other; we send two."""

_HEAD = 3
"""Bytes before the messages of a frame, at most."""
_encoder = Encoder()


def frames_of(messages: Sequence[ToNode] | Sequence[ToGateway]) -> Iterator[bytes]:
    """Yield frames of at most ``PIECE`` bytes with these messages in their order, and by itself
    each message that is larger. Nothing is encoded before it is asked for."""
    held: list[bytes] = []
    size = 0
    for message in messages:
        data = _encoder.encode(message)
        if held and (size + len(data) > PIECE - _HEAD or len(held) == MAX_MESSAGES):
            yield _frame(held)
            held, size = [], 0
        held.append(data)
        size += len(data)
    if held:
        yield _frame(held)


def _frame(messages: Sequence[bytes]) -> bytes:
    """Return an array of MessagePack of these."""
    count = len(messages)
    head = bytes([0x90 | count]) if count < 16 else b"\xdc" + count.to_bytes(2, "big")
    return b"".join((head, *messages))


def cut(number: int, frame: bytes) -> Iterator[bytes]:
    """Frames of one piece each."""
    for start in range(0, len(frame), PIECE):
        end = start + PIECE
        yield encode([Piece(number, end < len(frame), frame[start:end])])


class ByteBudget:
    """Bytes of unfinished messages that several links may hold together."""

    def __init__(self, size: int) -> None:
        self._left = size
        self._joiners: set[Joiner] = set()

    def take(self, joiner: Joiner, size: int) -> None:
        """Count bytes of a link, or give them back by a negative size.

        If there is no room, the link that holds most is ended, which may be this one: then this
        raises ``LinkError``.
        """
        while size > self._left:
            most = max(self._joiners, key=lambda each: each.held, default=joiner)
            if most is joiner or not most.held:
                raise LinkError("Too many bytes of large messages are on their way.")
            most.close()
            most.evict()
        self._left -= size
        if joiner.held + size:
            self._joiners.add(joiner)
        else:
            self._joiners.discard(joiner)


class Joiner:
    """Puts them together again; pieces of several messages may come in between each other."""

    def __init__(
        self,
        largest: int = MAX_JOINED,
        budget: ByteBudget | None = None,
        evict: Callable[[], None] = lambda: None,
    ) -> None:
        """``largest``: bytes that may be here of messages that are not whole. ``budget``: the same
        for all links; where that is used up, ``evict`` ends the link that holds most."""
        self.evict = evict
        self.held = 0
        """Bytes of messages that are not whole."""
        self._largest = largest
        self._budget = budget or ByteBudget(largest)
        self._open: dict[int, bytearray] = {}

    def take(self, piece: Piece) -> bytes | None:
        """The message, when it is whole, as a frame."""
        size = len(piece.data)
        known = piece.number in self._open
        if self.held + size > self._largest or (not known and len(self._open) == _AT_ONCE):
            raise LinkError(
                f"More than {_AT_ONCE} large messages, or {self._largest:,} bytes of them, are on "
                "their way."
            )
        self._count(size)
        joined = self._open.setdefault(piece.number, bytearray())
        joined += piece.data
        if piece.more:
            return None
        del self._open[piece.number]
        self._count(-len(joined))
        return bytes(joined)

    def close(self) -> None:
        """Forget what is not whole."""
        self._open.clear()
        self._count(-self.held)

    def _count(self, size: int) -> None:
        self._budget.take(self, size)
        self.held += size

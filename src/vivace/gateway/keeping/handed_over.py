"""What a gateway leaves on record of a turn that it hands over, or that was taken from it: all that
was said of it.

It holds for who takes the turn next, and for nobody after: who says more of it would have to write
that down, too. So it has the epoch of who wrote it.
"""

from __future__ import annotations

import msgspec
from msgspec import Struct

from vivace.conversation.log import Entry, Failed, Stopped, pack, unpack
from vivace.conversation.response import read_response
from vivace.errors import LogError
from vivace.protocol.codec import encode
from vivace.protocol.events import Response
from vivace.store.base import TurnRecord

__all__ = ["handed_over", "to_hand_over", "without_end"]


class _HandedOver(Struct, array_like=True):
    epoch: int
    created: bytes
    log: bytes


_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[_HandedOver] = msgspec.msgpack.Decoder(_HandedOver)


def to_hand_over(epoch: int, created: Response, log: bytes) -> bytes:
    """``created``: the response as it was; ``log``: packed."""
    return _encoder.encode(_HandedOver(epoch, encode(created), log))


def without_end(log: bytes) -> bytes:
    """Of a turn that was taken away: how it was ended here for that reason concerns nobody."""
    entries = unpack(log)
    while entries and isinstance(entries[-1], Stopped | Failed):
        entries.pop()
    return pack(entries)


def handed_over(record: TurnRecord) -> tuple[Response, list[Entry]] | None:
    """None if nobody handed it to who holds it now, or it cannot be read."""
    try:
        left = _decoder.decode(record.said or b"")
        if left.epoch + 1 != record.epoch:
            return None
        return read_response(left.created), unpack(left.log)
    except (LogError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None

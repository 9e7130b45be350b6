"""The log of a turn: everything that happens to it, in order.

The events of a turn follow from the response object as it was created and from its log
(``Turn.apply``): from nothing else, so that they come out the same wherever the log is read, byte
for byte. An entry takes little more room than its text: it is an array in MessagePack, and a log is
such arrays one behind the other, each behind its length. A reader skips fields that it does not
know at the end of an entry, so fields are only ever added, behind the others; kinds of entries that
it does not know it refuses, because the events behind them would be others.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import msgspec
from msgspec import Struct

from vivace.conversation.deltas import Delta, Finished
from vivace.errors import LogError

__all__ = [
    "Begun",
    "Entry",
    "Failed",
    "Jumped",
    "Placed",
    "Said",
    "SteerAtItemEnd",
    "Stopped",
    "ThinkingEnded",
    "decode",
    "encode",
    "is_last",
    "pack",
    "unpack",
]


class _Entry(Struct, frozen=True, gc=False, array_like=True):
    at: int
    """When, in seconds since 1970, as the events have it."""


class Said(_Entry, frozen=True, tag=0):
    """The engine said something; its last word is ``Finished``."""

    delta: Delta


class Placed(_Entry, frozen=True, tag=1):
    """It has to wait, and stands here in the queue."""

    position: int
    seconds: float


class Begun(_Entry, frozen=True, tag=2):
    """An engine began to work on it; another may do so again."""

    summary: bool = False
    """Whether the answer is the conversation in short: one item, which comes whole."""


class ThinkingEnded(_Entry, frozen=True, tag=3):
    """Its thoughts are whole as they are; the answer follows."""


class SteerAtItemEnd(_Entry, frozen=True, tag=4):
    """It ends with the item in the making, if there is one."""

    successor: str = ""
    """The id of what is to follow it."""


class Stopped(_Entry, frozen=True, tag=5):
    """It was ended by who asked for it, or because nobody listens any more."""

    how: Literal["interrupt", "steer", "cancel", "disconnect", "away"]
    """``away``: it waited for its client, who did not come back."""
    successor: str = ""
    """The id of what is to follow it, if a steer stopped it."""


class Failed(_Entry, frozen=True, tag=6):
    """It could not go on, or might not: also a key that was taken back."""

    code: str
    message: str


class Jumped(_Entry, frozen=True, tag=7):
    """What followed was lost, though somebody may have seen it: its numbers are not given again."""


Entry = Said | Placed | Begun | ThinkingEnded | SteerAtItemEnd | Stopped | Failed | Jumped

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Entry] = msgspec.msgpack.Decoder(Entry)

_MORE = 0x80
"""Of a length of more than seven bits, all bytes but the last have this one set."""
_LONGEST = 5
"""Bytes of a length: more would be of nothing that was ever written."""


def is_last(entry: Entry) -> bool:
    """Whether it is the last that an engine says."""
    return isinstance(entry, Said) and isinstance(entry.delta, Finished)


def encode(entry: Entry) -> bytes:
    return _encoder.encode(entry)


def decode(data: bytes | memoryview) -> Entry:
    try:
        return _decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _damaged() from error


def pack(entries: Iterable[Entry]) -> bytes:
    """A log, or a part of one: parts behind each other are a log again."""
    packed = bytearray()
    for entry in entries:
        data = _encoder.encode(entry)
        packed += _length(len(data))
        packed += data
    return bytes(packed)


def unpack(data: bytes) -> list[Entry]:
    """Refuses what is no log, or ends within an entry."""
    entries: list[Entry] = []
    view, start = memoryview(data), 0
    while start < len(view):
        size, start = _read_length(view, start)
        if start + size > len(view):
            raise _damaged()
        entries.append(decode(view[start : start + size]))
        start += size
    return entries


def _length(size: int) -> bytes:
    written = bytearray()
    while size >= _MORE:
        written.append(_MORE | size & (_MORE - 1))
        size >>= 7
    written.append(size)
    return bytes(written)


def _read_length(view: memoryview, start: int) -> tuple[int, int]:
    """A length, and where what it is of begins."""
    size = 0
    for place, byte in enumerate(view[start : start + _LONGEST]):
        size |= (byte & (_MORE - 1)) << (7 * place)
        if byte < _MORE:
            return size, start + place + 1
    raise _damaged()


def _damaged() -> LogError:
    return LogError(
        "The log of this turn cannot be read: it is damaged or cut short, or a newer version of "
        "this server wrote it. Read it with that version, or send the request again."
    )

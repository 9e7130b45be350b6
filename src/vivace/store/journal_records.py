"""How a journal lies on the disk, and what can be read of it after a crash.

::

    segment   head, record …, zeros           numbered files of a size that is reserved for them
    head      magic, start of the machine
    record    length of the body, checksum, kind, number of the turn in this segment, body
                opened   how many of its entries stand in earlier records, and its id
                entry    its place among the turn's entries, and what it is
                ended    the turn's end is on record elsewhere
                lost     the disk took no more of it
"""

from __future__ import annotations

import logging
import struct
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from vivace.store.values import Kept
from vivace.visible import visible

__all__ = [
    "ENDED",
    "ENTRY",
    "HEAD",
    "LOST",
    "OPENED",
    "OVERHEAD",
    "entry_record",
    "head",
    "mark",
    "opening",
    "read_segments",
    "segment_path",
    "segments_in",
]

log = logging.getLogger("vivace.store")

OPENED, ENTRY, ENDED, LOST = 1, 2, 3, 4

_MAGIC = b"vivace journal 1\n"
HEAD = struct.Struct(f"<{len(_MAGIC)}s16s")
_FRAME = struct.Struct("<II")
_TURN = struct.Struct("<BI")
_PLACE = struct.Struct("<I")
_TURN_AND_PLACE = struct.Struct("<BII")
OVERHEAD = _FRAME.size + _TURN.size + _PLACE.size
"""Bytes of a record beside the entry or id that it holds."""
_SUFFIX = ".journal"


# -- records --------------------------------------------------------------------------------------


def head() -> bytes:
    return HEAD.pack(_MAGIC, _machine_start())


def opening(number: int, turn_id: str, place: int) -> bytes:
    return _record(OPENED, number, _PLACE.pack(place) + turn_id.encode())


def entry_record(number: int, place: int, entry: bytes) -> bytes:
    """Written out, for it is what a journal is made of."""
    rest = _TURN_AND_PLACE.pack(ENTRY, number, place) + entry
    return _FRAME.pack(len(entry) + 4, zlib.crc32(rest)) + rest


def mark(kind: int, number: int) -> bytes:
    return _record(kind, number, b"")


def _record(kind: int, number: int, body: bytes) -> bytes:
    rest = _TURN.pack(kind, number) + body
    return _FRAME.pack(len(body), zlib.crc32(rest)) + rest


def _machine_start() -> bytes:
    """Differs from one start of the machine to the next, where that can be known."""
    try:
        text = Path("/proc/sys/kernel/random/boot_id").read_text().strip().replace("-", "")
        return bytes.fromhex(text)[:16].ljust(16, b"\0")
    except (OSError, ValueError):
        return bytes(16)


# -- segments -------------------------------------------------------------------------------------


def segment_path(folder: Path, number: int) -> Path:
    return folder / f"{number:08}{_SUFFIX}"


def segments_in(folder: Path) -> list[tuple[int, Path]]:
    """By their numbers; what else lies there is left alone."""
    found = []
    for path in folder.glob(f"*{_SUFFIX}"):
        if path.stem.isascii() and path.stem.isdecimal() and path.is_file():
            found.append((int(path.stem), path))
        else:
            log.warning("%s is no file of the journal, and is left alone", visible(str(path)))
    return sorted(found)


def read_segments(paths: Iterable[Path]) -> list[Kept]:
    """The turns that had not ended, with all they had said, in the order they were opened."""
    turns: dict[str, Kept] = {}
    this_start = head()
    for path in paths:
        names: dict[int, str] = {}  # each has its own, for several gateways may have written here
        data = path.read_bytes()
        believed = data[: HEAD.size] == this_start
        for kind, number, body in _records(data[HEAD.size :]):
            _take(turns, names, kind, number, body)
        if not believed:  # the machine went down with it, and may have lost the newest of it
            for kept in turns.values():
                kept.whole = False
    return list(turns.values())


def _records(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    """As far as they are whole: behind the last one there are zeros, or what was never sent."""
    at, least = 0, _FRAME.size + _TURN.size
    while at + least <= len(data):
        length, checksum = _FRAME.unpack_from(data, at)
        rest = data[at + _FRAME.size : at + least + length]
        if len(rest) < _TURN.size + length or zlib.crc32(rest) != checksum:
            return
        kind, number = _TURN.unpack_from(rest)
        yield kind, number, rest[_TURN.size :]
        at += least + length


def _take(
    turns: dict[str, Kept], names: dict[int, str], kind: int, number: int, body: bytes
) -> None:
    if kind == OPENED:
        turn_id = names[number] = body[_PLACE.size :].decode(errors="replace")
        if turn_id not in turns:
            turns[turn_id] = Kept(turn_id, [])
        return
    turn_id = names.get(number, "")
    kept = turns.get(turn_id)
    if kept is None:
        return
    if kind == ENDED:
        del turns[turn_id]
    elif kind == LOST:
        kept.whole = False
    elif kind == ENTRY:
        (place,) = _PLACE.unpack_from(body)
        if place < len(kept.entries):  # it was copied here from an earlier segment
            return
        if place == len(kept.entries):
            kept.entries.append(body[_PLACE.size :])
        else:
            kept.whole = False

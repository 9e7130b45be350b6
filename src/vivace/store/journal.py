"""The second copy of what turns in the making have said, on one machine.

A word is written here before it is sent, so a gateway that is killed can be started again and go on
with the sentence. The kernel keeps what was written when the process dies, not when the machine
does: nothing is synced, and what is from before the machine's last start is not believed to be
whole.

A segment goes when no open turn has anything in it. So that one long turn does not hold the disk
for a thousand short ones, open turns are copied into the new segment when most of what is kept is
no open turn's. Each segment's room is reserved when it begins: a disk that fills up meanwhile is
noticed between two segments, and there is room left to say which turns it took no more of.
"""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct, field

from vivace.store.journal_records import (
    ENDED,
    LOST,
    OVERHEAD,
    entry_record,
    head,
    mark,
    opening,
    read_segments,
    segment_path,
    segments_in,
)
from vivace.store.values import Kept

__all__ = ["FileJournal"]

log = logging.getLogger("vivace.store")

_SEGMENT = 8 * 1024 * 1024
_MARGIN = 64 * 1024
"""Of a segment, for saying what it has no room for."""


class _Turn(Struct):
    """One in the making."""

    number: int
    entries: int = 0
    size: int = 0
    segments: set[int] = field(default_factory=set)
    lost: bool = False


class _Segment(Struct):
    number: int
    file: int
    room: int
    size: int


class FileJournal:
    """Of one gateway; its folder is for no other."""

    def __init__(self, folder: Path, *, segment: int = _SEGMENT) -> None:
        self._folder = folder
        self._room = segment
        self._turns: dict[str, _Turn] = {}
        self._opened = 0
        self._now: _Segment | None = None
        self._sizes: dict[int, int] = {}
        self._told = False
        self._stale = self._due = 0
        """Up to which segment words were deleted, and up to which they must go the next time."""
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        earlier = segments_in(folder)
        self._earlier = [path for _, path in earlier]
        self._last = earlier[-1][0] if earlier else 0

    # -- what an earlier gateway left -------------------------------------------------------------

    def left(self) -> list[Kept]:
        """The turns that were open when the last gateway died here."""
        return read_segments(self._earlier)

    def forget_left(self) -> None:
        """They have been dealt with, and what is needed of them is written again."""
        for path in self._earlier:
            path.unlink(missing_ok=True)
        self._earlier = []

    # -- what happens -----------------------------------------------------------------------------

    def append(self, turn_id: str, entry: bytes) -> bool:
        """Write it down. False when the disk does not take it: the turn goes on all the same, but
        nothing more of it is written, and nobody can go on with it after a crash."""
        turn = self._turns.get(turn_id)
        if turn is None:
            turn = self._turns[turn_id] = _Turn(self._number())
        if turn.lost:
            return False
        try:
            if not self._add(turn, entry):
                self._write(turn, turn_id, [entry])
        except OSError as error:
            self._lose(turn, turn_id, error)
            return False
        self._told = False
        return True

    def ended(self, turn_id: str) -> None:
        """Its end is on record elsewhere; nothing of it is needed here."""
        turn = self._turns.pop(turn_id, None)
        if turn is None or not turn.segments:
            return
        self._note(ENDED, turn, turn_id)
        self._drop_unneeded()

    def deleted(self) -> None:
        """A turn was deleted that may have words here."""
        self._stale = self._last

    def wipe(self) -> None:
        """To be called again and again: the second time, nothing is left of what was deleted.

        The first time a new segment begins, and most turns end before the second; only those that
        hold an old one by then are written anew, which takes the time of all others.
        """
        for turn in self._turns.values():
            if turn.lost:  # nobody can go on with it from what is there
                turn.segments = set()
        with suppress(OSError):  # no room: it is tried again
            if any(each <= self._due for each in self._sizes):
                self._begin_with(self._written())
            elif any(each <= self._stale for each in self._sizes):
                if any(turn.segments for turn in self._turns.values()):
                    self._begin(0)
                elif self._now is not None:
                    os.close(self._now.file)
                    self._now = None
                self._drop_unneeded()
                self._due = self._stale

    def close(self) -> None:
        """What is open stays on the disk."""
        if self._now is not None:
            os.close(self._now.file)
            self._now = None
        self._drop_unneeded()

    @property
    def size(self) -> int:
        """Bytes of the disk that it takes."""
        return sum(self._sizes.values())

    # -- writing ----------------------------------------------------------------------------------

    def _number(self) -> int:
        self._opened += 1
        return self._opened

    def _add(self, turn: _Turn, entry: bytes) -> bool:
        """The quick way, of nearly every entry: the turn is open in a segment that has room."""
        now = self._now
        if now is None or now.number not in turn.segments:
            return False
        data = entry_record(turn.number, turn.entries, entry)
        size = len(data)
        if now.size + size > now.room - _MARGIN:
            return False
        _put(now, data)
        turn.entries += 1
        turn.size += size
        return True

    def _write(self, turn: _Turn, turn_id: str, entries: Sequence[bytes]) -> None:
        size = sum(map(len, entries)) + OVERHEAD * (len(entries) + 1) + len(turn_id)
        segment = self._with_room(size)
        records = [
            entry_record(turn.number, place, entry)
            for place, entry in enumerate(entries, turn.entries)
        ]
        if segment.number not in turn.segments:
            records.insert(0, opening(turn.number, turn_id, turn.entries))
        data = b"".join(records)
        _put(segment, data)
        turn.segments.add(segment.number)
        turn.entries += len(entries)
        turn.size += len(data)

    def _lose(self, turn: _Turn, turn_id: str, error: OSError) -> None:
        turn.lost = True
        if turn.segments:
            self._note(LOST, turn, turn_id)
        if not self._told:
            full = error.errno in (errno.ENOSPC, errno.EDQUOT)
            log.warning(
                "what turns in the making say cannot be written to %s (%s): they go on, but would "
                "be lost midway if this server died. %s",
                self._folder,
                error.strerror,
                "Make room on its disk." if full else "Look at its permissions and its disk.",
            )
        self._told = True

    def _note(self, kind: int, turn: _Turn, turn_id: str) -> None:
        """In the room that is reserved for it; a journal that cannot say it would lie, and goes."""
        data = opening(turn.number, turn_id, turn.entries) + mark(kind, turn.number)
        try:
            if self._now is None or self._now.size + len(data) > self._now.room:
                self._begin(0)
            assert self._now is not None
            _put(self._now, data)
        except OSError:
            for number in list(self._sizes):
                self._remove(number)
            for each in self._turns.values():
                each.lost, each.segments = True, set()

    # -- segments ---------------------------------------------------------------------------------

    def _with_room(self, needed: int) -> _Segment:
        now = self._now
        if now is not None and now.size + needed <= now.room - _MARGIN:
            return now
        held = sum(turn.size for turn in self._turns.values() if not turn.lost)
        copied = self._written() if self.size > 2 * (self._room + held) else []
        return self._begin_with(copied, needed)

    def _begin_with(self, copied: Sequence[Kept], needed: int = 0) -> _Segment:
        begun = self._begin(needed + sum(self._turns[each.id].size + _MARGIN for each in copied))
        for each in copied:
            self._copy(self._turns[each.id], each)
        self._drop_unneeded()
        return begun

    def _written(self) -> list[Kept]:
        """The open turns, as they stand on the disk."""
        found = read_segments(segment_path(self._folder, each) for each in sorted(self._sizes))
        return [each for each in found if each.whole and each.id in self._turns]

    def _copy(self, turn: _Turn, kept: Kept) -> None:
        turn.number, turn.segments, turn.entries, turn.size = self._number(), set(), 0, 0
        try:
            self._write(turn, kept.id, kept.entries)
        except OSError:
            turn.lost = True
            raise

    def _begin(self, needed: int) -> _Segment:
        room = max(self._room, needed + 2 * _MARGIN)
        number = self._last + 1
        while (path := segment_path(self._folder, number)).exists():  # somebody else's
            number += 1
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        begun = _Segment(number, file, room, 0)
        try:
            _reserve(file, room)
            _put(begun, head())
        except OSError:
            os.close(file)
            path.unlink(missing_ok=True)
            raise
        if self._now is not None:
            os.close(self._now.file)
        self._now, self._last = begun, number
        self._sizes[number] = room
        return begun

    def _drop_unneeded(self) -> None:
        needed = set[int]().union(*(turn.segments for turn in self._turns.values()))
        if self._now is not None:
            needed.add(self._now.number)
        for number in [each for each in self._sizes if each not in needed]:
            self._remove(number)

    def _remove(self, number: int) -> None:
        if self._now is not None and self._now.number == number:
            os.close(self._now.file)
            self._now = None
        segment_path(self._folder, number).unlink(missing_ok=True)
        del self._sizes[number]


def _reserve(file: int, room: int) -> None:
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file, 0, room)


def _put(segment: _Segment, data: bytes) -> None:
    """All of it, or nothing that counts: the next one is written over what was cut short."""
    try:
        done = os.write(segment.file, data)
        while done < len(data):
            done += os.write(segment.file, data[done:])
    except OSError:
        os.lseek(segment.file, segment.size, os.SEEK_SET)
        raise
    segment.size += len(data)

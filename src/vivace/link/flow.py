"""Flow control of a stream: a gateway grants entries and bytes, a node sends no more than that.

::

    gateway                                     node
    Run (credit, free_bytes) ─────────────────► Limit: how far the stream may be sent
    Inbox: what came and was not taken ◄─────── Log
    Heard (credit, free_bytes) ───────────────► Limit, further

An entry may be sent while the stream has both entries and bytes left, so the last one may be larger
than the bytes that were left: what an engine says at once is never cut. ``MAX_ENTRY_BYTES`` bounds
that. The gateway keeps the same account, and ends the link of a node that exceeds its grant: such a
node would fill the gateway's memory at the speed of the network.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterable
from math import inf

from vivace.conversation.deltas import ID_BYTES, TextDelta, content_bytes
from vivace.conversation.log import Entry, Said, encode
from vivace.errors import LinkError
from vivace.link.frames import WINDOW, WINDOW_BYTES

__all__ = ["MAX_ENTRY_BYTES", "MAX_RUN_BYTES", "EntryLog", "Inbox", "Limit", "weight"]

MAX_ENTRY_BYTES = 4_000_000
"""Largest entry, by ``weight``. An engine that sends more at once has failed."""
MAX_RUN_BYTES = 40_000_000
"""Largest sum of the entries of a run, about half a million tokens. An engine that sends more
does not end by itself."""
_ENTRY_BYTES = 64


def weight(entry: Entry) -> int:
    """Return about how many bytes of memory an entry takes; both ends of a link count by this."""
    if isinstance(entry, Said):
        delta = entry.delta
        if type(delta) is TextDelta:  # nearly all are; this is done twice for each token
            return _ENTRY_BYTES + len(delta.text) + ID_BYTES * len(delta.ids)
        return _ENTRY_BYTES + content_bytes(delta)
    return _ENTRY_BYTES + len(encode(entry))


class EntryLog:
    """The entries of a run, with how many bytes lie before each."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.bytes = 0
        self._ends = array("Q")

    def __len__(self) -> int:
        return len(self.entries)

    def append(self, entry: Entry) -> int:
        """Return the bytes of the entry, or 0 if it is more than fits and was not added."""
        size = weight(entry)
        if size > MAX_ENTRY_BYTES or self.bytes > MAX_RUN_BYTES:
            return 0
        self.bytes += size
        self.entries.append(entry)
        self._ends.append(self.bytes)
        return size

    def before(self, number: int) -> int:
        """Return how many bytes the entries before this number have."""
        if number >= len(self.entries):
            return self.bytes
        return self._ends[number - 1] if number else 0

    def within(self, start: int, size: int) -> int:
        """Return the number behind as many entries from ``start`` on as have at most ``size``
        bytes together, which is one entry at least."""
        return max(start + 1, bisect_right(self._ends, self.before(start) + size))

    def begins_below(self, size: float) -> int:
        """Return the number behind the last entry that has fewer than ``size`` bytes before it."""
        if size > self.bytes:
            return len(self.entries)
        return bisect_left(self._ends, size) + 1 if size > 0 else 0


class Limit:
    """How far a node may send a stream."""

    __slots__ = ("bytes", "entries")

    def __init__(self, log: EntryLog, start: int, credit: int, free_bytes: int | None) -> None:
        """``credit`` entries and ``free_bytes`` from number ``start`` on."""
        self.entries = start + credit
        self.bytes = inf if free_bytes is None else log.before(start) + free_bytes

    def raise_to(self, log: EntryLog, heard: int, credit: int, free_bytes: int | None) -> bool:
        """Note that the gateway has the entries before ``heard`` and takes those before ``credit``.

        Return whether that is more than before. A limit is never lowered: what was granted may have
        been sent.
        """
        more = credit > self.entries
        if more:
            self.entries = credit
        if free_bytes is not None and (size := log.before(heard) + free_bytes) > self.bytes:
            self.bytes, more = size, True
        return more

    def of(self, log: EntryLog) -> int:
        """Return the number of the first entry that may not be sent."""
        count = log.begins_below(self.bytes)
        return min(self.entries, count)

    def allows_more(self, log: EntryLog) -> bool:
        """Return whether the entry that follows the log could be sent."""
        return len(log.entries) < self.entries and log.bytes < self.bytes


class Inbox:
    """Entries of a stream that the gateway has received and its reader has not taken."""

    def __init__(self, window: int = WINDOW, window_bytes: int = WINDOW_BYTES) -> None:
        self._window, self._window_bytes = window, window_bytes
        self.entries: deque[Entry] = deque()
        self._weights: deque[int] = deque()
        self.heard = self.taken = 0
        self._heard_bytes = self._taken_bytes = 0
        self._credit = window
        self._credit_bytes = window_bytes

    def put(self, entries: Iterable[Entry]) -> None:
        """Raise ``LinkError`` if they are more than was granted."""
        for entry in entries:
            if self.heard >= self._credit or self._heard_bytes >= self._credit_bytes:
                raise LinkError(
                    "The node sent more of an answer than this gateway has room for, against the "
                    "rules of the link. Look at what runs at its address."
                )
            size = weight(entry)
            if size > MAX_ENTRY_BYTES:
                raise LinkError(
                    f"The node sent an entry of {size:,} bytes; one may have {MAX_ENTRY_BYTES:,}."
                )
            self.entries.append(entry)
            self._weights.append(size)
            self.heard += 1
            self._heard_bytes += size

    def take(self) -> Entry:
        """Return the next entry."""
        self.taken += 1
        self._taken_bytes += self._weights.popleft()
        return self.entries.popleft()

    @property
    def should_grant(self) -> bool:
        """Return whether half of the window was taken and not granted anew."""
        return (
            self.taken + self._window - self._credit >= self._window // 2
            or self._taken_bytes + self._window_bytes - self._credit_bytes
            >= self._window_bytes // 2
        )

    def grant(self) -> tuple[int, int]:
        """Grant all the room there is. Return the number of the first entry that may not come yet,
        and how many bytes may come from now on."""
        self._credit = self.taken + self._window
        self._credit_bytes = self._taken_bytes + self._window_bytes
        return self._credit, max(0, self._credit_bytes - self._heard_bytes)

"""The event log of this process: what turns said that somebody may come back to, in its memory.

A record has the log of a turn, not its events: these are made by whoever reads it, for each reader
anew, so a turn that nobody reads again pays for an append.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence

from msgspec.structs import replace

from vivace.conversation.log import Entry, Said, pack
from vivace.conversation.states import TERMINAL_EVENT
from vivace.conversation.turn import Turn
from vivace.gateway.recent import Recent
from vivace.protocol.codec import encode
from vivace.protocol.events import Response, ResponseEvent
from vivace.scheduling.memory import Held, Memory

__all__ = ["LocalEventLog", "LogReader", "LogRecord"]

_ENTRY = 160
"""Bytes that an entry takes in memory beside its text."""
_EMPTY = 2048
_COUNTED = 64
"""Entries whose memory is counted together."""
_BATCH = 64
"""Entries that are read at once, in less time than a token takes."""
_TERMINAL = tuple({*TERMINAL_EVENT.values()})


class LogRecord:
    """The log of one response, and how far it was said."""

    def __init__(
        self, created: Response, held: Held, ended: Callable[[LogRecord], None] = lambda _: None
    ) -> None:
        """``held`` counts its memory, until nobody holds this; ``ended`` is called at its end."""
        self.created = created
        self.entries: list[Entry] = []
        self.last_said = -1
        self.final: Response | None = None
        """How it ended, where that is told otherwise than its log has it."""
        self.over = False
        self.steered = False
        self.lost = False
        self._held = held
        self._when_ended = ended
        self._readers = 0
        self._unread_since = time.monotonic()
        self._changed = asyncio.Event()
        self._folding = asyncio.Lock()
        self._text = self._weighed = 0
        """Characters of the first so many entries."""
        self._echo = len(created.instructions or "") + len(bytes(created.tools))
        held.resize(held.size + _EMPTY + self._echo)

    @classmethod
    def whole(cls, created: Response, final: Response, held: Held) -> LogRecord:
        """Return the record of a turn that has ended and is replayed from the store; its log
        follows by ``extend``, and ``held`` counts that already."""
        record = cls(created, held)
        record.final, record.over, record.last_said = final, True, _ALL
        details = final.incomplete_details
        record.steered = details is not None and details.reason == "steered"
        return record

    def extend(self, entries: Sequence[Entry]) -> None:
        """Add entries to the log of a turn that has ended."""
        self.entries += entries
        self._weigh()

    # -- its turn ---------------------------------------------------------------------------------

    def enter(self, entry: Entry) -> None:
        self.entries.append(entry)
        if not len(self.entries) % _COUNTED:
            self._count(len(self.entries) - _COUNTED)

    def packed(self) -> bytes:
        return pack(self.entries)

    def said(self, number: int) -> None:
        """All events up to this number were handed out: who reads this may know of them."""
        if number > self.last_said:
            self.last_said = number
            if self._readers:
                self._changed.set()

    async def keep(self, response: Response) -> None:
        self.final = response
        self._held.resize(self._held.size + len(encode(response)))

    async def end(self, *, steered: bool, lost: bool = False) -> None:
        self.over, self.steered, self.lost = True, steered, lost
        self._count(len(self.entries) // _COUNTED * _COUNTED)
        self._changed.set()
        self._when_ended(self)

    def _count(self, start: int) -> None:
        size = sum(_ENTRY + _length(entry) for entry in self.entries[start:])
        self._held.resize(self._held.size + size)

    # -- its readers ------------------------------------------------------------------------------

    async def unstored(self) -> Response | None:
        return self.final

    @property
    def settled(self) -> bool:
        return self.over and self.created.store and self.final is None

    @property
    def weight(self) -> int:
        self._weigh()
        return self._echo + self._text

    def _weigh(self) -> None:
        new = self.entries[self._weighed :]
        self._text += sum(map(_length, new))
        self._weighed += len(new)

    @property
    def unread_since(self) -> float | None:
        return None if self._readers else self._unread_since

    def reader(self, after: int, lane: str | None = None) -> LogReader:
        return LogReader(self, after, lane)

    async def after(
        self, number: int, lane: str | None = None
    ) -> AsyncGenerator[list[ResponseEvent], None]:
        reader = self.reader(number, lane)
        self._readers += 1
        try:
            while True:
                while (events := await self._folded(reader)) is not None:
                    if events:
                        yield events
                if self.over:
                    return
                self._changed.clear()
                await self._changed.wait()
        finally:
            self._readers -= 1
            self._unread_since = time.monotonic()

    async def _folded(self, reader: LogReader) -> list[ResponseEvent] | None:
        """Return the events that are ready, and let the event loop run after each batch, however
        many clients read a long log."""
        async with self._folding:
            events = reader.ready()
            if events is not None:
                await asyncio.sleep(0)
            return events


def _length(entry: Entry) -> int:
    return len(getattr(entry.delta, "text", "")) if isinstance(entry, Said) else 0


class LogReader:
    """Folds a record for one who reads it, on the lane that this one has for it."""

    def __init__(self, record: LogRecord, after: int, lane: str | None) -> None:
        self._record = record
        self._after = after
        self._turn = Turn(record.created, lane)
        self._place = 0
        self._unsaid: list[ResponseEvent] = []

    def ready(self) -> list[ResponseEvent] | None:
        """Some of what follows and was said, which may be none of it yet; None if there is no more
        for now."""
        start, events = self._place, list[ResponseEvent]()
        while self._place - start < _BATCH and (self._unsaid or self._fold()):
            events += self._said()
            if self._unsaid:
                break
        return events if events or (self._place > start and not self._unsaid) else None

    def _fold(self) -> bool:
        entries = self._record.entries
        if self._place == len(entries):
            return False
        self._unsaid += self._turn.apply(entries[self._place])
        self._place += 1
        return True

    def _said(self) -> Iterator[ResponseEvent]:
        while self._unsaid and self._unsaid[0].sequence_number <= self._record.last_said:
            event = self._unsaid.pop(0)
            if event.sequence_number > self._after:
                yield self._as_told(event)

    def _as_told(self, event: ResponseEvent) -> ResponseEvent:
        """A response that could not be stored says so only at its end."""
        final = self._record.final
        if final is not None and isinstance(event, _TERMINAL):
            return replace(event, response=final)
        return event


_ALL = 2**62


class LocalEventLog:
    """Records of running responses, and of as many ended ones as there is room for."""

    def __init__(self, memory: Memory, passing_seconds: float = 15.0) -> None:
        """``passing_seconds``: how long one is kept of a turn that is not stored."""
        self._memory = memory
        self._passing_seconds = passing_seconds
        self._running: dict[tuple[str, str], LogRecord] = {}
        self._ended: Recent[LogRecord] = Recent(memory, "records")

    async def open(self, response: Response, owner: str) -> LogRecord:
        place = owner, response.id

        def ended(record: LogRecord) -> None:
            del self._running[place]
            self._ended.put(*place, record)
            if not response.store:
                loop = asyncio.get_running_loop()
                loop.call_later(self._passing_seconds, self._ended.drop, *place)

        record = LogRecord(response, self._memory.note(owner, "records", 0), ended)
        self._running[place] = record
        return record

    async def find(self, response_id: str, owner: str) -> LogRecord | None:
        running = self._running.get((owner, response_id))
        return running or self._ended.get(owner, response_id)

    async def delete(self, response_id: str, owner: str) -> bool:
        return self._ended.drop(owner, response_id)

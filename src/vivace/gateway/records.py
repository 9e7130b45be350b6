"""The event log of this process: what responses said that run in the background, in its memory."""

from __future__ import annotations

import asyncio
import zlib
from bisect import bisect_right
from collections.abc import Callable, Sequence

from vivace.gateway.meter import Outlet
from vivace.gateway.ports import Record
from vivace.gateway.recent import Recent
from vivace.protocol.codec import encode, framed
from vivace.protocol.events import Event, Response, ResponseEvent
from vivace.scheduling.memory import Held, Memory

__all__ = ["LocalEventLog", "PackedRecord", "Recording"]

_BLOCK = 16 * 1024
"""Bytes of events that are packed together: enough for a twentieth of their size to remain, and
packed in less time than a token takes."""
_OVERHEAD = 512
_EMPTY = 2048
_TOO_LARGE = 64 * 1024
"""What would take longer stays as it is."""


class PackedRecord:
    """The events of one response in little memory.

    Events differ in a number and a word, so all but the newest are kept in packed blocks.
    """

    def __init__(self, held: Held, ended: Callable[[PackedRecord], None] = lambda _: None) -> None:
        """``held`` counts its memory, until nobody holds this; ``ended`` is called at its end."""
        self._held = held
        self._when_ended = ended
        self._ended = False
        self._unstored: Response | None = None
        self._firsts: list[int] = []
        self._blocks: list[bytes] = []
        self._newest: list[bytes] = []
        self._newest_size = 0
        self._next = 0
        self._changed = asyncio.Event()

    async def add(self, events: Sequence[ResponseEvent]) -> None:
        for event in events:
            if event.sequence_number < self._next:
                continue  # its sending was cut short, and is tried again
            data = framed(event)
            self._newest.append(data)
            self._newest_size += len(data)
            self._next += 1
            if self._newest_size >= _BLOCK:
                self._pack()
        self._changed.set()

    async def keep(self, response: Response) -> None:
        self._unstored = response
        self._held.resize(self._held.size + len(encode(response)))

    async def unstored(self) -> Response | None:
        return self._unstored

    async def end(self) -> None:
        self._ended = True
        self._pack()
        self._changed.set()
        self._when_ended(self)

    def _pack(self) -> None:
        if not self._newest:
            return
        self._firsts.append(self._next - len(self._newest))
        data = b"".join(self._newest)
        self._blocks.append(data if len(data) > _TOO_LARGE else zlib.compress(data, 1))
        self._newest.clear()
        self._newest_size = 0
        self._held.resize(self._held.size + len(self._blocks[-1]) + _OVERHEAD)

    async def after(self, number: int) -> tuple[bytes, int]:
        while number + 1 >= self._next:
            if self._ended:
                return b"", number
            self._changed.clear()
            await self._changed.wait()
        packed = self._next - len(self._newest)
        if number + 1 >= packed:
            return b"".join(self._newest[number + 1 - packed :]), self._next - 1
        block = bisect_right(self._firsts, number + 1) - 1
        first, data = self._firsts[block], self._blocks[block]
        if data.startswith(b"\x78"):  # zlib's first byte; an event starts with its name
            data = zlib.decompress(data)
        for _ in range(number + 1 - first):
            data = data[data.index(b"\n\n") + 2 :]
        following = [*self._firsts[block + 1 :], packed][0]
        return data, following - 1


class Recording:
    """Puts events on record before they go to a client, who may leave at any time."""

    def __init__(self, record: Record, outlet: Outlet) -> None:
        self._record = record
        self._outlet = outlet

    async def send(self, events: list[Event]) -> None:
        await self._record.add([event for event in events if isinstance(event, ResponseEvent)])
        await self._outlet.send(events)


class LocalEventLog:
    """Records of running responses, and of as many ended ones as there is room for."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._running: dict[tuple[str, str], PackedRecord] = {}
        self._ended: Recent[PackedRecord] = Recent(memory, "records")

    async def open(self, response_id: str, owner: str) -> PackedRecord:
        held = self._memory.note(owner, "records", _EMPTY)
        place = owner, response_id

        def ended(record: PackedRecord) -> None:
            del self._running[place]
            self._ended.put(*place, record)

        record = self._running[place] = PackedRecord(held, ended)
        return record

    async def find(self, response_id: str, owner: str) -> PackedRecord | None:
        running = self._running.get((owner, response_id))
        return running or self._ended.get(owner, response_id)

    async def delete(self, response_id: str, owner: str) -> bool:
        return self._ended.drop(owner, response_id)

"""What a response said that runs in the background, for whoever comes to read it."""

from __future__ import annotations

import asyncio
import zlib
from bisect import bisect_right

from vivace.gateway.meter import Outlet
from vivace.protocol.codec import encode, framed
from vivace.protocol.events import Event, Response, ResponseEvent
from vivace.scheduling.memory import Held

__all__ = ["Record", "Recording"]

_BLOCK = 16 * 1024
"""Bytes of events that are packed together: enough for a twentieth of their size to remain, and
packed in less time than a token takes."""
_OVERHEAD = 512
_TOO_LARGE = 64 * 1024
"""What would take longer stays as it is."""


class Record:
    """The events of one response, numbered from 0 without a gap, in little memory.

    Events differ in a number and a word, so all but the newest are kept in packed blocks.
    """

    def __init__(self, held: Held) -> None:
        """``held`` counts its memory."""
        self._held = held
        self.ended = False
        self.unstored: Response | None = None
        self._firsts: list[int] = []
        self._blocks: list[bytes] = []
        self._newest: list[bytes] = []
        self._newest_size = 0
        self._next = 0
        self._changed = asyncio.Event()

    def add(self, event: ResponseEvent) -> None:
        if event.sequence_number < self._next:
            return  # its sending was cut short, and is tried again
        data = framed(event)
        self._newest.append(data)
        self._newest_size += len(data)
        self._next += 1
        if self._newest_size >= _BLOCK:
            self._pack()
        self._changed.set()

    def keep(self, response: Response) -> None:
        """Its end could not be stored, so it is to be had from here."""
        self.unstored = response
        self._held.resize(self._held.size + len(encode(response)))

    def end(self) -> None:
        self.ended = True
        self._pack()
        self._changed.set()

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
        """Some events later than ``number`` as they go over the wire, and the number of the last.

        Waits for one; none come when there are no more.
        """
        while number + 1 >= self._next:
            if self.ended:
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
        for event in events:
            if isinstance(event, ResponseEvent):
                self._record.add(event)
        await self._outlet.send(events)

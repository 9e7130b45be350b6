"""Reading what is stored, at the expense of the key that asks for it and of nobody else.

A request of a hundred bytes can ask for megabytes of a turn. Such requests are not counted against
rate limits, because a client that polls a background response would use up what its answers need.
Instead each key has a few slots: its reads beyond those wait for each other, and one of many bytes
keeps its slot for longer than it takes.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from weakref import WeakValueDictionary

from vivace.protocol.json_arrays import PART_BYTES
from vivace.scheduling.memory import Held, Kind, Memory

__all__ = ["MAX_READS_PER_KEY", "SLOT_BYTES_PER_S", "Reads", "Slot"]

MAX_READS_PER_KEY = 4
"""Reads of one key at once: enough for some hundred polls a second where the store takes 10 ms."""
SLOT_BYTES_PER_S = 16_000_000
"""For which one of them keeps its slot: a response of 100 KB for 6 ms."""


class Slot:
    """Place for one of the reads that a key may have at once."""

    def __init__(self, memory: Memory, owner: str) -> None:
        self._memory = memory
        self._owner = owner
        self.size = 0
        """Bytes that were read, or are to be."""
        self._decoded = 0
        """Bytes since others had the event loop."""

    def take(self, kind: Kind, size: int) -> Held:
        """Count the memory of what is about to be read, until nobody has what is returned.

        Raises ``RequestError`` where there is no room for it.
        """
        held = self._memory.take(self._owner, kind, size)
        self.size += size
        return held

    async def rest(self, decoded: int = PART_BYTES) -> None:
        """Let others have the event loop, when as much was decoded as one part of an array has."""
        self._decoded += decoded
        if self._decoded >= PART_BYTES:
            self._decoded = 0
            await asyncio.sleep(0)


class Reads:
    """The slots of all keys."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._free: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()
        """Kept by the reads that have a slot, or wait for one."""

    @asynccontextmanager
    async def slot(self, owner: str) -> AsyncGenerator[Slot, None]:
        """Wait for a slot of this key, oldest first, and have it within the block.

        The block may not wait for another slot: all of them could be held by such blocks.
        """
        free = self._free.get(owner)
        if free is None:
            self._free[owner] = free = asyncio.Semaphore(MAX_READS_PER_KEY)
        await free.acquire()
        slot = Slot(self._memory, owner)
        try:
            yield slot
        finally:
            asyncio.get_running_loop().call_later(slot.size / SLOT_BYTES_PER_S, free.release)

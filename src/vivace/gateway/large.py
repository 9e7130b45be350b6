"""Large requests: their work runs in a thread beside the event loop, in turn between keys.

On the loop it would hold up the streams of all other clients, and with them the heartbeats of this
gateway, for as long as it takes: others would take its turns over. Small requests, which are nearly
all, never come near the thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar, TypeVarTuple
from weakref import WeakValueDictionary

from vivace.protocol.bounds import check_values, footprint
from vivace.protocol.codec import as_text
from vivace.scheduling.memory import Held, Memory
from vivace.threads import giving_way

__all__ = ["LARGE_BYTES", "LargeWork", "RequestReader"]

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

LARGE_BYTES = 500_000
"""Memory of what counts as large, as ``footprint`` has it: that of some 4,000 JSON values, which
are decoded in 5 to 20 ms."""


class LargeWork:
    """Thread that works on large requests, in turn between keys."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "vivace-large")
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        """Locks by owner: an owner has at most one piece of work in the thread's queue."""

    async def run(self, owner: str, size: int, work: Callable[[*Ts], T], *args: *Ts) -> T:
        """Return what ``work`` does, which is done here and now unless ``size``, in bytes of
        memory, is large."""
        if size <= LARGE_BYTES:
            return work(*args)
        turn = self._turns.get(owner)
        if turn is None:
            turn = self._turns[owner] = asyncio.Lock()
        async with turn:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._thread, giving_way, work, *args)


class RequestReader:
    """Decodes what clients send, as far as there is memory for it."""

    def __init__(self, memory: Memory, large: LargeWork) -> None:
        self._memory = memory
        self._large = large

    async def read(self, owner: str, data: bytes | str, decode: Callable[[str, Held], T]) -> T:
        """Return what ``decode`` makes of the text; the second that it gets counts the memory.

        Raises ``RequestError`` if there is no room for it, or if it cannot be read.
        """
        if len(data) <= LARGE_BYTES:
            text, size = _measured(data)
        else:
            waiting = self._memory.take(owner, "requests", len(data))
            text, size = await self._large.run(owner, len(data), _measured, data)
            del waiting
        held = self._memory.take(owner, "requests", size)
        if size <= LARGE_BYTES:
            return decode(text, held)
        return await self._large.run(owner, size, _checked, decode, text, held)


def _measured(data: bytes | str) -> tuple[str, int]:
    text = as_text(data)
    return text, footprint(text)


def _checked(decode: Callable[[str, Held], T], text: str, held: Held) -> T:
    check_values(text)
    return decode(text, held)

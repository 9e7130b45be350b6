"""The stream of one run on an engine node, as its reader on the gateway takes it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import Protocol

from vivace.conversation.deltas import Delta, Finished
from vivace.conversation.log import Begun, Entry, Placed, Said
from vivace.engines.base import Tally, Tell, Work
from vivace.engines.remote_work import RemoteTrace, failure_of
from vivace.errors import EngineBusy, EngineDied, EngineError, HeldElsewhere
from vivace.link.frames import Found
from vivace.link.gateway_end import Gone, Stream

__all__ = ["Reading", "StreamOwner"]

_LOOK_ELSEWHERE = 0.05
"""Seconds after which one that waits looks whether it would begin elsewhere."""
_MAX_PLACES = 10_000
"""How often a turn is told where it stands in a queue: an event each time, which its log keeps."""


class StreamOwner(Protocol):
    """The engine node that a stream is of."""

    name: str
    incarnation: str

    def took(self, stream: Stream) -> None:
        """Note that the reader of a stream has taken something."""

    def closed(self, stream: Stream) -> None:
        """Note that a stream is not read any more."""


class Reading:
    """Stream of the entries that an engine node adds to its log of one run."""

    def __init__(self, node: StreamOwner, stream: Stream, wake: asyncio.Event) -> None:
        self._node = node
        self._stream = stream
        self._wake = wake
        self._told = -1
        """Number of the last event that the holder has sent, for a stream that only tails."""

    def tells(self, work: Work) -> None:
        """Have the node tell gateways that tail the turn which events were sent here."""
        if work.on_record is not None:
            self._stream.last_told = work.on_record.last_told

    async def found(self) -> Found | None:
        """Return what the node has of a turn that another gateway began; None if it has nothing."""
        stream = self._stream
        while stream.found is None and stream.gone is None:
            self._wake.clear()
            await self._wake.wait()
        return stream.found

    @property
    def ready(self) -> bool:
        """Whether something was heard that was not taken yet."""
        return bool(self._stream.entries)

    @property
    def over(self) -> bool:
        """Whether nothing more comes than was heard."""
        return self._stream.finished or self._stream.gone is not None

    async def entry(self, tally: Tally | None = None) -> Entry:
        """The next; what the engine has taken so far is noted in ``tally``."""
        stream = self._stream
        while not stream.entries:
            if stream.gone is not None:
                self._note(tally)
                raise self._why(stream.gone)
            self._wake.clear()
            await self._wake.wait()
        self._note(tally)
        entry = stream.take()
        self._node.took(stream)
        return entry

    async def along(self) -> tuple[list[Entry], int] | None:
        """Return the new entries, and the number of the last event that the turn's holder has
        sent; None when no more comes."""
        stream = self._stream
        while not stream.entries and stream.told <= self._told:
            if self.over:
                return None
            self._wake.clear()
            await self._wake.wait()
        entries = [stream.take() for _ in range(len(stream.entries))]
        self._told = stream.told
        self._node.took(stream)
        return entries, stream.told

    async def begun(self, tell: Tell, leaves: Callable[[], bool]) -> None:
        """Returns when an engine has begun with it."""
        waits, places = False, 0
        while True:
            try:
                async with asyncio.timeout(_LOOK_ELSEWHERE if waits else None):
                    entry = await self.entry()
            except TimeoutError:
                if leaves():
                    raise EngineBusy("Another engine has room for it.") from None
                continue
            if isinstance(entry, Begun):
                return
            if isinstance(entry, Placed):
                waits, places = True, places + 1
                if places <= _MAX_PLACES:
                    await tell(entry.position, entry.seconds)

    async def deltas(self, tally: Tally) -> AsyncGenerator[Delta, None]:
        """Yield the deltas of the run; closing this ends the stream, and the turn can go on."""
        tally.trace = RemoteTrace(self._node.incarnation, self._stream.run.run)
        try:
            while True:
                entry = await self.entry(tally)
                if isinstance(entry, Said):
                    yield entry.delta
                    if isinstance(entry.delta, Finished):
                        return
        finally:
            self.close()

    def close(self) -> None:
        self._node.closed(self._stream)

    def _note(self, tally: Tally | None) -> None:
        if tally is not None:
            told = self._stream.tally
            tally.input, tally.cached = told.input, told.cached
            tally.output, tally.steps = told.output, told.steps

    def _why(self, gone: Gone) -> EngineError:
        if gone.why is not None:
            return failure_of(gone.why)
        if gone.fenced:
            return HeldElsewhere("Another gateway holds the turn.")
        return EngineDied(f"Engine node {self._node.name} is gone.")

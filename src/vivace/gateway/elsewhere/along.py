"""Turns that another gateway holds, told here while they are written: the engine nodes that work on
them have their logs, and know how far their holders have told them.

However many read one turn here, it is read from its node once.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing, suppress

import msgspec

from vivace.conversation.log import Entry, is_last
from vivace.conversation.response import read_response
from vivace.errors import EngineError, LogError
from vivace.gateway.ports import EngineLogs, LogAlong
from vivace.gateway.resuming.records import LogRecord
from vivace.protocol.events import Response
from vivace.scheduling.memory import Memory

__all__ = ["ReadingAlong"]

_UNREADABLE = (EngineError, LogError, msgspec.DecodeError, UnicodeDecodeError)


class _Followed:
    """A turn that is read from its node."""

    def __init__(self) -> None:
        self.readers = 0
        self.record: asyncio.Future[LogRecord | None] = asyncio.get_running_loop().create_future()
        self.task: asyncio.Task[None] | None = None


class ReadingAlong:
    def __init__(self, nodes: EngineLogs, memory: Memory) -> None:
        self._nodes = nodes
        self._memory = memory
        self._followed: dict[str, _Followed] = {}

    @asynccontextmanager
    async def reading(
        self, turn_id: str, owner: str, created: Callable[[], Response]
    ) -> AsyncIterator[LogRecord | None]:
        """What is told of it, as far as it can be heard of here: its end is on record, and never in
        there. None if no engine node works on it. ``created`` reads the response as its record has
        it."""
        followed = self._followed.get(turn_id)
        if followed is None:
            followed = self._followed[turn_id] = _Followed()
            follows = self._follow(turn_id, owner, created, followed)
            followed.task = asyncio.create_task(follows)
        followed.readers += 1
        try:
            yield await asyncio.shield(followed.record)
        finally:
            followed.readers -= 1
            if not followed.readers and self._followed.get(turn_id) is followed:
                self.ended(turn_id)

    def ended(self, turn_id: str) -> None:
        """It is on record that it has, or it is held here: nobody need wait for its node."""
        followed = self._followed.pop(turn_id, None)
        if followed is not None and followed.task is not None:
            followed.task.cancel()
            if not followed.record.done():  # it may not even have begun
                followed.record.set_result(None)

    async def _follow(
        self, turn_id: str, owner: str, created: Callable[[], Response], followed: _Followed
    ) -> None:
        record: LogRecord | None = None
        try:
            with suppress(*_UNREADABLE):  # who waits for the record hears all of it
                log = await self._nodes.along(turn_id)
                if log is not None:
                    with closing(log):
                        made = read_response(log.created) if log.created else created()
                        record = LogRecord(made, self._memory.note(owner, "records", 0))
                        _enter(record, log.before)
                        followed.record.set_result(record)
                        await _feed(record, log)
        finally:
            if self._followed.get(turn_id) is followed:
                del self._followed[turn_id]
            if not followed.record.done():
                followed.record.set_result(None)
            if record is not None:
                await record.end(steered=False)


async def _feed(record: LogRecord, log: LogAlong) -> None:
    while (new := await log.more()) is not None:
        entries, told = new
        _enter(record, entries)
        record.said(told)


def _enter(record: LogRecord, entries: list[Entry]) -> None:
    for entry in entries:
        if not is_last(entry):
            record.enter(entry)

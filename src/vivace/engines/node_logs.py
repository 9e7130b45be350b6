"""What engine nodes have of a turn that another gateway holds. Nobody knows which of them works on
it, so all are asked: the newest attempt counts.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Iterable, Sequence
from functools import partial
from typing import Protocol, TypeVar

from vivace.conversation.log import Entry, unpack
from vivace.engines.remote import Node
from vivace.engines.remote_stream import Reading
from vivace.errors import EngineAbsent, LogError
from vivace.link.frames import Found

__all__ = ["LogAlong", "has_log", "newest", "read_along"]

_PATIENCE = 2.0
"""Seconds in which a node that works has long answered."""


class _Log(Protocol):
    attempt: int

    def close(self) -> None: ...


L = TypeVar("L", bound=_Log)


async def newest(asked: Iterable[Awaitable[L | None]], attempt: float) -> L | None:
    """Of these logs the one of the newest attempt; that of this one or a later one is enough. The
    others are left."""
    tasks = [asyncio.ensure_future(each) for each in asked]
    found: L | None = None
    taken: L | None = None
    try:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE):
                for answer in asyncio.as_completed(tasks):
                    other = await answer
                    if found is None or (other is not None and other.attempt > found.attempt):
                        found = other
                    if found is not None and found.attempt >= attempt:
                        break
        taken = found
    finally:  # nothing is waited for, so that who is cancelled leaves nothing open
        for each in tasks:
            each.cancel()
            each.add_done_callback(partial(_leave, taken))
    return taken


def _leave(taken: L | None, task: asyncio.Future[L | None]) -> None:
    if task.cancelled() or task.exception() is not None:
        return
    log = task.result()
    if log is not None and log is not taken:
        log.close()


class LogAlong:
    """The log of a turn while another gateway holds it."""

    def __init__(self, reading: Reading, found: Found) -> None:
        """Refuses what cannot be read."""
        self.attempt = found.attempt
        self.created = found.created
        self.before: list[Entry] = unpack(found.before)
        self._reading = reading

    async def more(self) -> tuple[list[Entry], int] | None:
        return await self._reading.along()

    def close(self) -> None:
        """Nobody reads it any more."""
        self._reading.close()


async def read_along(nodes: Sequence[Node], turn: str) -> LogAlong | None:
    """What is said of a turn that another gateway holds; None if no node works on it. Nothing
    changes by it."""
    return await newest(_asked(nodes, turn), float("inf"))


async def has_log(nodes: Sequence[Node], turn: str, attempt: int) -> bool:
    """Whether a node has the log of this attempt, or of a later one. Nothing changes by it."""
    found = await newest(_asked(nodes, turn), attempt)
    if found is None:
        return False
    found.close()
    return found.attempt >= attempt


def _asked(nodes: Sequence[Node], turn: str) -> list[Awaitable[LogAlong | None]]:
    return [_found(each, turn) for each in nodes if each.linked.is_set()]


async def _found(node: Node, turn: str) -> LogAlong | None:
    try:
        reading = node.attach(turn, 0, holds=False)
    except EngineAbsent:
        return None
    with contextlib.ExitStack() as unwanted:
        unwanted.callback(reading.close)
        found = await reading.found()
        if found is None:
            return None
        try:
            log = LogAlong(reading, found)
        except LogError:
            return None
        unwanted.pop_all()
        return log

"""Turns that another gateway began, taken over from the engine nodes that work on them.

A node has the whole log of each run. Who has taken a turn on record asks all nodes for it, because
nobody knows which of them has it: the newest attempt counts. An older one than is on record tells
less than clients may have seen, so it is as good as none. From then on the node says everything to
who holds the turn now, and nothing more to who held it before.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence

from vivace.conversation.deltas import Finished
from vivace.conversation.log import Begun, Entry, Jumped, Said, unpack
from vivace.engines.base import Continues, Generates, Tell, Work
from vivace.engines.remote import Node, Reading, RemoteEngine, Slot
from vivace.errors import EngineAbsent, EngineError, LogError
from vivace.link.frames import Found

__all__ = ["TakenLog", "has_log", "take_over"]

_PATIENCE = 2.0
"""Seconds in which a node that works has long answered."""
_COPIED_WITHIN = 10.0
"""Seconds: a log of ten thousand entries takes less than one."""
_LOOK = 0.02
"""Seconds between two looks whether a node can be reached."""


class TakenLog:
    """The log of a turn, and the engine that goes on with it."""

    def __init__(self, engine: RemoteEngine, reading: Reading, found: Found) -> None:
        """Refuses what cannot be read."""
        self.name = engine.name
        self.continues: Continues = engine.continues
        self.attempt = found.attempt
        self.created = found.created
        self.tokens = found.spent
        self.entries: list[Entry] = unpack(found.before)
        self.said_before = _said(self.entries)
        """How many of its deltas were said before this engine had it."""
        self.goes_on = True
        """Whether the engine had not ended when all was copied."""
        self._engine = engine
        self._reading = reading
        self._count = found.entries
        self._begun = False

    async def copy(self) -> None:
        """All that was said. Raises ``EngineError`` if the node is gone before."""
        reading, copied = self._reading, list[Entry]()
        while len(copied) < self._count or reading.ready:
            copied.append(await reading.entry())
        self.entries += copied
        self._begun = any(isinstance(each, Begun) for each in copied)
        self.goes_on = not reading.over

    @contextlib.asynccontextmanager
    async def slot(
        self, work: Work, tell: Tell, leaves: Callable[[], bool]
    ) -> AsyncIterator[Generates]:
        """What the engine says from here on."""
        with contextlib.closing(self._reading) as reading:
            if not self._begun:
                await reading.begun(tell, leaves)
            yield Slot(self._engine, reading)

    def close(self) -> None:
        """Nobody wants more of it."""
        self._reading.close()


def _said(entries: Sequence[Entry]) -> int:
    count = 0
    for entry in entries:
        if isinstance(entry, Jumped):
            count = 0
        elif isinstance(entry, Said) and not isinstance(entry.delta, Finished):
            count += 1
    return count


async def take_over(nodes: Sequence[Node], turn: str, epoch: int, attempt: int) -> TakenLog | None:
    """The log of a turn that this gateway has taken on record, with this epoch, at this attempt or
    a later one. None if no node has it: then what was said is lost."""
    asked = [asyncio.create_task(_ask(node, turn, epoch)) for node in nodes if node.may_answer]
    found: TakenLog | None = None
    try:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE):
                for answer in asyncio.as_completed(asked):
                    found = _newer(found, await answer)
                    if found is not None and found.attempt >= attempt:
                        break
    finally:
        await _leave(asked, found)
    if found is None:
        return None
    try:
        if found.attempt >= attempt:
            async with asyncio.timeout(_COPIED_WITHIN):
                await found.copy()
            return found
    except (EngineError, TimeoutError):
        pass
    found.close()
    return None


async def has_log(nodes: Sequence[Node], turn: str, attempt: int) -> bool:
    """Whether a node has the log of this attempt, or of a later one. Nothing changes by it."""
    asked = [asyncio.create_task(_attempt(each, turn)) for each in nodes if each.linked.is_set()]
    try:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE):
                for answer in asyncio.as_completed(asked):
                    if await answer >= attempt:
                        return True
    finally:
        for each in asked:
            each.cancel()
        await asyncio.gather(*asked, return_exceptions=True)
    return False


async def _attempt(node: Node, turn: str) -> int:
    """The newest that the node has a log of; 0 if it has none."""
    try:
        with contextlib.closing(node.attach(turn, 0, holds=False)) as reading:
            found = await reading.found()
    except EngineAbsent:
        return 0
    return found.attempt if found is not None else 0


def _newer(one: TakenLog | None, other: TakenLog | None) -> TakenLog | None:
    return other if one is None or (other is not None and other.attempt > one.attempt) else one


async def _leave(asked: Sequence[asyncio.Task[TakenLog | None]], but: TakenLog | None) -> None:
    """What else nodes have of the turn, nobody wants: it is of an earlier attempt."""
    for each in asked:
        each.cancel()
    for other in await asyncio.gather(*asked, return_exceptions=True):
        if isinstance(other, TakenLog) and other is not but:
            other.close()


async def _ask(node: Node, turn: str, epoch: int) -> TakenLog | None:
    while not node.linked.is_set():
        if not node.may_answer:
            return None
        await asyncio.sleep(_LOOK)
    try:
        reading = node.attach(turn, epoch)
    except EngineAbsent:
        return None
    with contextlib.ExitStack() as unwanted:
        unwanted.callback(reading.close)
        found = await reading.found()
        engine = next((each for each in node.engines if each.offer.name == _name(found)), None)
        if found is None or engine is None:
            return None
        try:
            taken = TakenLog(engine, reading, found)
        except LogError:
            return None
        unwanted.pop_all()
        return taken


def _name(found: Found | None) -> str | None:
    return found.engine if found is not None else None

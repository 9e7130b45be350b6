"""Turns that another gateway began, taken over from the engine nodes that work on them.

A node has the whole log of each run. Who has taken a turn on record asks all nodes for it. An older
attempt than is on record tells less than clients may have seen, so it is as good as none. From then
on the node says everything to who holds the turn now, and nothing more to who held it before.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence

from vivace.conversation.deltas import Finished
from vivace.conversation.log import Begun, Entry, Jumped, Said, unpack
from vivace.engines.base import Continues, Generates, Tell, Work
from vivace.engines.node_logs import newest
from vivace.engines.remote import Node, RemoteEngine, Slot
from vivace.engines.remote_stream import Reading
from vivace.errors import EngineAbsent, EngineError, LogError
from vivace.link.frames import Found

__all__ = ["TakenLog", "take_over"]

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
        self._reading.tells(work)
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
    asked = [_ask(node, turn, epoch) for node in nodes if node.may_answer]
    found = await newest(asked, attempt)
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

"""Turns that this gateway gives up on purpose, for others that share the store to go on with.

All that was said of them goes on record. Then this gateway counts as gone, so that the others take
them at their next look, or when their client asks there: nobody waits until it would count as dead.
It says nothing meanwhile, and afterwards only of what nobody took.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Protocol

from msgspec import Struct

from vivace.errors import StoreError
from vivace.gateway.keeping.handed_over import to_hand_over
from vivace.gateway.keeping.kept import Keeper
from vivace.gateway.keeping.recovery import Recovery
from vivace.gateway.ports import Record
from vivace.gateway.runner import Runner
from vivace.store.base import REMEMBERED_S, GatewayTable

__all__ = ["HandingOver"]

log = logging.getLogger("vivace.turns")

_PATIENCE = 5.0
"""Seconds that others get to take them; they look every heartbeat."""
_LOOK = 0.05
_AGAIN = 0.2
_TO_BEGIN = 2.0
"""Seconds that what follows an ended turn has to begin."""


class _Engines(Protocol):
    def let_go(self, turns: frozenset[str]) -> None:
        """Another gateway goes on with these, also where an engine works on them: that is not to
        stop at once when nobody here reads it any more."""


class _Turn(Struct, frozen=True):
    epoch: int
    attempt: int
    said: Callable[[], bytes]


class HandingOver:
    def __init__(
        self,
        runner: Runner,
        keeper: Keeper,
        recovery: Recovery,
        table: GatewayTable,
        engines: _Engines,
    ) -> None:
        self._runner = runner
        self._keeper = keeper
        self._recovery = recovery
        self._table = table
        self._engines = engines

    @property
    def has_any(self) -> bool:
        return bool(self._turns())

    async def hand_over(self) -> bool:
        """Whether others have all of them. Raises ``StoreError`` before anything is given up."""
        await self.followers_begun()
        turns = self._turns()
        if not turns or not await self.is_possible():
            return not turns
        log.info("handing over %d turns", len(turns))
        left = frozenset(turns)
        self._give_up(left)
        try:
            async with self._keeper.presence.away():
                left = await self._given_up()
                if left:
                    await self._take_back(left)
        finally:
            with contextlib.suppress(StoreError):  # the next heartbeat does it
                await self._keeper.presence.beat()
            self._give_up(frozenset(turns) - left)
        return not left

    def _give_up(self, turns: frozenset[str]) -> None:
        """Their runs here end when they are found to be taken, which may be a little later."""
        self._runner.ending.given_up = turns
        self._engines.let_go(turns)

    async def is_possible(self) -> bool:
        """Whether somebody is there who would take them."""
        dead_after = self._keeper.presence.dead_after
        return any(
            each.id != self._keeper.holder and each.drain is None and each.lives(dead_after)
            for each in await self._table.all(REMEMBERED_S)
        )

    async def followers_begun(self) -> None:
        """Wait for what follows steered turns that have ended: it is on record, and nobody could
        tell that nothing was said of it yet."""
        until = time.monotonic() + _TO_BEGIN
        while True:
            if not self._keeper.on_record or time.monotonic() > until:
                return
            await asyncio.sleep(_LOOK)

    def _turns(self) -> dict[str, _Turn]:
        """Those that are on record. Of one at its end only that may be missing there."""
        return dict(self._running()) | dict(self._waiting())

    def _running(self) -> Iterator[tuple[str, _Turn]]:
        for run in self._runner.running:
            kept, record = run.kept, run.record
            if kept is not None and record is not None and kept.is_there:
                yield run.id, _Turn(kept.epoch, kept.number, partial(_told, kept.epoch, record))

    def _waiting(self) -> Iterator[tuple[str, _Turn]]:
        for waiting in self._recovery.waiting:
            record = waiting.adopted.record
            said = partial(_told, record.epoch, waiting.record)
            yield waiting.id, _Turn(record.epoch, record.attempt, said)

    async def _given_up(self) -> frozenset[str]:
        """Returns those that nobody has taken."""
        store, holder = self._keeper.store, self._keeper.holder
        try:
            await self.followers_begun()
            for run in self._runner.running:
                if run.kept is not None:
                    await run.kept.begun()  # or its record would come when it is too late
            for name, turn in self._turns().items():  # nothing is added to what they said any more
                await store.attempt(name, turn.epoch, turn.attempt, "", turn.said())
            await self._table.leave(holder)
            until = time.monotonic() + _PATIENCE
            while True:
                await self._keeper.presence.look()
                held = frozenset(await store.held(holder))
                if not held or time.monotonic() > until:
                    return held
                await asyncio.sleep(_LOOK)
        except StoreError as error:
            log.warning("turns cannot be handed over now: %s", error)
            return frozenset(self._turns())

    async def _take_back(self, left: frozenset[str]) -> None:
        """Nobody takes them. What stands on record of them will not be all that was said, and until
        that is gone nothing may be said of them: so this does not give up."""
        while True:
            try:
                dead_after = self._keeper.presence.dead_after
                await self._keeper.store.beat(
                    self._keeper.holder, dead_after
                )  # they are ours again
                await self._keeper.presence.look()
                for name, turn in self._turns().items():
                    if name in left:
                        await self._keeper.store.attempt(name, turn.epoch, turn.attempt, "", b"")
                return
            except StoreError:  # its trouble is known, and told elsewhere
                await asyncio.sleep(_AGAIN)


def _told(epoch: int, record: Record) -> bytes:
    return to_hand_over(epoch, record.created, record.packed())

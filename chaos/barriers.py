"""A gateway that dies at the very moment when something goes on record, or never hears that it
did: for each such point, before and after."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Literal

from chaos.points import Armed
from chaos.processes import GATEWAY
from chaos.stage import BOTH, SQLITE, Fault, Hit, Stage, busy
from vivace.store import statements

__all__ = ["BARRIERS", "LOST_ANSWERS", "DieAt", "LoseAnswer"]

When = Literal["before", "after"]


class DieAt:
    group = "barriers"
    engines = False

    def __init__(
        self, point: str, when: When, stores: Sequence[str] = BOTH, *, restarted: bool = False
    ) -> None:
        """``restarted``: on the way back from an earlier death."""
        self.name = f"die-{when}-{point}{'-again' if restarted and point in _AGAIN else ''}"
        self.stores = stores
        self._armed = Armed(point, when)
        self._restarted = restarted

    def fits(self, stage: Stage) -> bool:
        return bool(busy(stage))

    async def inject(self, stage: Stage) -> Hit:
        gateway = stage.gateway
        at = time.monotonic()
        if self._restarted:
            await self._die_first(stage)
            gateway.arm(self._armed)
            gateway.launch()
        else:
            most = 200 if self._armed.point == "journal" else 2
            gateway.arm(
                Armed(self._armed.point, self._armed.when, skip=stage.dice.randint(0, most))
            )
        met = await gateway.died()
        return Hit(GATEWAY, at if self._restarted else met.at)

    async def _die_first(self, stage: Stage) -> None:
        if self._armed.point == "end" and stage.store == SQLITE:
            # Only then is there an end to be put on record: of a turn that had come to it.
            stage.gateway.arm(Armed("end", "before"))
            await stage.gateway.died()
        else:
            await stage.gateway.kill()

    async def heal(self, stage: Stage) -> None:
        await stage.gateway.start()


class LoseAnswer:
    """The write is done, and its gateway is told that it failed, or is told nothing."""

    group = "answers"
    engines = False

    def __init__(self, point: str, stores: Sequence[str], sql: str = "") -> None:
        """``sql`` is what PostgreSQL is asked."""
        self.name = f"lose-answer-{point}"
        self.stores = stores
        self._point = point
        self._sql = sql

    def fits(self, stage: Stage) -> bool:
        return bool(busy(stage))

    async def inject(self, stage: Stage) -> Hit:
        gateway, at = stage.gateway, None
        restarted = self._point in _RESTARTED
        if restarted:
            at = time.monotonic()
            await gateway.kill()
        if stage.store == SQLITE:
            gateway.arm(Armed(self._point, "after", "lose"))
        else:
            stage.database.lose(self._sql, hang=stage.dice.random() < 0.5)
        if restarted:
            await gateway.start()
        lost = gateway.met if stage.store == SQLITE else lambda: stage.database.lost_at
        async with asyncio.timeout(gateway.patience):
            while (found := lost()) is None:
                await asyncio.sleep(0.01)
        return Hit(GATEWAY, at or (found if isinstance(found, float) else found.at))

    async def heal(self, stage: Stage) -> None:
        """Nothing stays broken but what somebody believes."""


_AGAIN = ("end", "journal")
"""Points that a gateway comes to both before it dies and on its way back."""
_RESTARTED = ("take", "park", "wake", "attempt")
_WHENS: tuple[When, ...] = ("before", "after")

BARRIERS: list[Fault] = [
    fault
    for when in _WHENS
    for fault in (
        DieAt("accept", when),
        DieAt("steer", when),
        DieAt("end", when),
        DieAt("end-steered", when),
        DieAt("delete", when),
        DieAt("journal", when, [SQLITE]),
        DieAt("journal-end", when, [SQLITE]),
        DieAt("take", when, restarted=True),
        DieAt("attempt", when, restarted=True),
        DieAt("end", when, restarted=True),
        DieAt("park", when, [SQLITE], restarted=True),
        DieAt("wake", when, [SQLITE], restarted=True),
        DieAt("journal", when, [SQLITE], restarted=True),
        DieAt("journal-forget", when, [SQLITE], restarted=True),
    )
]
LOST_ANSWERS: list[Fault] = [
    LoseAnswer("accept", BOTH, statements.ACCEPT),
    LoseAnswer("steer", BOTH, statements.ORDER),
    LoseAnswer("end", BOTH, statements.END),
    LoseAnswer("end-steered", [SQLITE]),
    LoseAnswer("delete", BOTH, statements.DELETE),
    LoseAnswer("take", BOTH, statements.TAKE),
    LoseAnswer("attempt", BOTH, statements.ATTEMPT),
    LoseAnswer("park", [SQLITE]),
    LoseAnswer("wake", [SQLITE]),
]

"""A PostgreSQL that is killed, or stands still, under a gateway at work."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from chaos.stage import POSTGRES, Fault, Hit, Stage, busy

__all__ = ["STORE_FAULTS"]


class KillPostgres:
    """``kill -9`` of all its processes; it is away for a moment or for seconds."""

    name, group = "kill-postgres", "store"
    stores: Sequence[str] = (POSTGRES,)
    engines = False

    def fits(self, stage: Stage) -> bool:
        return bool(busy(stage))

    async def inject(self, stage: Stage) -> Hit:
        hit = Hit(POSTGRES)
        await stage.database.kill()
        await asyncio.sleep(stage.dice.choice([0, 0, 1, 3, 7]))
        return hit

    async def heal(self, stage: Stage) -> None:
        await stage.database.start()


class FreezePostgres:
    """All its processes stop, and go on after seconds: less or more than a gateway waits."""

    name, group = "freeze-postgres", "store"
    stores: Sequence[str] = (POSTGRES,)
    engines = False

    def fits(self, stage: Stage) -> bool:
        return bool(busy(stage))

    async def inject(self, stage: Stage) -> Hit:
        hit = Hit(POSTGRES)
        stage.database.freeze()
        await asyncio.sleep(stage.dice.choice([0.5, 1.5, 3, 7]))
        return hit

    async def heal(self, stage: Stage) -> None:
        stage.database.thaw()


STORE_FAULTS: list[Fault] = [KillPostgres(), FreezePostgres()]

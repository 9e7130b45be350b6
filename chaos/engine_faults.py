"""An engine's process that is killed or stands still while it writes answers."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Sequence

import psutil

from chaos.stage import BOTH, Hit, Stage, busy

__all__ = ["FreezeEngine", "KillEngine"]


class KillEngine:
    """``kill -9`` of one of two; the gateway starts it again."""

    name, group = "kill-engine", "engine"
    stores: Sequence[str] = BOTH
    engines = True

    def fits(self, stage: Stage) -> bool:
        return bool(busy(stage)) and bool(stage.gateway.working_engines())

    async def inject(self, stage: Stage) -> Hit:
        victim = stage.dice.choice(stage.gateway.working_engines())
        hit = Hit(f"engine p{victim.pid}")
        victim.kill()
        return hit

    async def heal(self, stage: Stage) -> None:
        await stage.gateway.ready()


class FreezeEngine:
    """SIGSTOP for less or more than it may be silent."""

    name, group = "freeze-engine", "engine"
    stores: Sequence[str] = BOTH
    engines = True

    def __init__(self) -> None:
        self._victim: psutil.Process | None = None

    def fits(self, stage: Stage) -> bool:
        return bool(busy(stage)) and bool(stage.gateway.working_engines())

    async def inject(self, stage: Stage) -> Hit:
        self._victim = stage.dice.choice(stage.gateway.working_engines())
        hit = Hit(f"engine p{self._victim.pid}")
        self._victim.send_signal(signal.SIGSTOP)
        await asyncio.sleep(stage.dice.choice([0.5, 3, 5]))
        return hit

    async def heal(self, stage: Stage) -> None:
        assert self._victim is not None
        self._victim.send_signal(signal.SIGCONT)
        await stage.gateway.ready()

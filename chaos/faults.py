"""All that is done to a gateway, its clients, its store and its engines. Here are those of the
gateway as a whole and of clients."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from chaos.barriers import BARRIERS, LOST_ANSWERS
from chaos.engine_faults import FreezeEngine, KillEngine
from chaos.processes import GATEWAY
from chaos.stage import BOTH, Fault, Hit, Stage, busy
from chaos.store_faults import STORE_FAULTS

__all__ = ["FAULTS", "GROUPS", "chosen"]


class KillGateway:
    """``kill -9``, and a start right after."""

    name, group = "kill-gateway", "gateway"
    stores: Sequence[str] = BOTH
    engines = False

    def fits(self, stage: Stage) -> bool:
        return bool(busy(stage))

    async def inject(self, stage: Stage) -> Hit:
        hit = Hit(GATEWAY)
        await stage.gateway.kill()
        return hit

    async def heal(self, stage: Stage) -> None:
        await stage.gateway.start()


class FreezeGateway:
    """SIGSTOP for a few seconds: nothing is lost, and everybody waits."""

    name, group = "freeze-gateway", "gateway"
    stores: Sequence[str] = BOTH
    engines = False

    def fits(self, stage: Stage) -> bool:
        return bool(busy(stage))

    async def inject(self, stage: Stage) -> Hit:
        hit = Hit(GATEWAY)
        stage.gateway.freeze()
        await asyncio.sleep(stage.dice.uniform(0.5, 3))
        return hit

    async def heal(self, stage: Stage) -> None:
        stage.gateway.thaw()


class CutClient:
    """The connection of one that reads an answer is gone, without a word; it comes back."""

    name, group = "cut-client", "client"
    stores: Sequence[str] = BOTH
    engines = False
    back = 1

    def fits(self, stage: Stage) -> bool:
        return bool(busy(stage))

    async def inject(self, stage: Stage) -> Hit:
        client = stage.dice.choice(busy(stage))
        hit = Hit(client.name)
        client.cut(self.back)
        return hit

    async def heal(self, stage: Stage) -> None:
        """Whoever was cut off comes back by itself."""


class CutClientTwice(CutClient):
    """It comes back on two connections at once, and only one of them can have the rest."""

    name = "cut-client-twice"
    back = 2


_ALL: list[Fault] = [
    KillGateway(),
    FreezeGateway(),
    *BARRIERS,
    KillEngine(),
    FreezeEngine(),
    *STORE_FAULTS,
    *LOST_ANSWERS,
    CutClient(),
    CutClientTwice(),
]
FAULTS = {fault.name: fault for fault in _ALL}
GROUPS = tuple(dict.fromkeys(fault.group for fault in FAULTS.values()))


def chosen(names: Sequence[str]) -> list[Fault]:
    """Those of these names, and those of groups of these names; raises ``KeyError``."""
    found: list[Fault] = []
    for name in names:
        if name in GROUPS:
            found += [fault for fault in FAULTS.values() if fault.group == name]
        else:
            found.append(FAULTS[name])
    return found

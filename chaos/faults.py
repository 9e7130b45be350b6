"""What is done to a gateway and its clients: each fault has a name, knows what it fits, begins and
is healed. Healing returns when the process serves again."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import Protocol

from chaos.processes import GATEWAY, Gateway

__all__ = ["FAULTS", "Cuttable", "Fault", "Stage"]


class Cuttable(Protocol):
    """A client that has an answer under way, and can lose its connection."""

    name: str
    """Of the stream that it has now."""

    @property
    def busy(self) -> bool: ...

    def cut(self, back: int = 1) -> None:
        """It will come back so many times at once."""


class Stage:
    """All that a fault may touch."""

    def __init__(self, gateway: Gateway, clients: Sequence[Cuttable], dice: random.Random) -> None:
        self.gateway = gateway
        self.clients = clients
        self.dice = dice


class Fault(Protocol):
    name: str

    def fits(self, stage: Stage) -> bool:
        """Whether there is something now that it would hit."""

    async def inject(self, stage: Stage) -> str:
        """Returns what it hit: a process, or a stream."""

    async def heal(self, stage: Stage) -> None: ...


def _busy(stage: Stage) -> list[Cuttable]:
    return [client for client in stage.clients if client.busy]


class KillGateway:
    """``kill -9``, and a start right after."""

    name = "kill-gateway"

    def fits(self, stage: Stage) -> bool:
        return bool(_busy(stage))

    async def inject(self, stage: Stage) -> str:
        await stage.gateway.kill()
        return GATEWAY

    async def heal(self, stage: Stage) -> None:
        await stage.gateway.start()


class FreezeGateway:
    """SIGSTOP for a few seconds: nothing is lost, and everybody waits."""

    name = "freeze-gateway"

    def fits(self, stage: Stage) -> bool:
        return bool(_busy(stage))

    async def inject(self, stage: Stage) -> str:
        stage.gateway.freeze()
        await asyncio.sleep(stage.dice.uniform(0.5, 3))
        return GATEWAY

    async def heal(self, stage: Stage) -> None:
        stage.gateway.thaw()


class CutClient:
    """The connection of one that reads an answer is gone, without a word; it comes back."""

    name = "cut-client"
    back = 1

    def fits(self, stage: Stage) -> bool:
        return bool(_busy(stage))

    async def inject(self, stage: Stage) -> str:
        client = stage.dice.choice(_busy(stage))
        name = client.name
        client.cut(self.back)
        return name

    async def heal(self, stage: Stage) -> None:
        """Whoever was cut off comes back by itself."""


class CutClientTwice(CutClient):
    """It comes back on two connections at once, and only one of them can have the rest."""

    name = "cut-client-twice"
    back = 2


FAULTS: dict[str, Fault] = {
    fault.name: fault for fault in (KillGateway(), FreezeGateway(), CutClient(), CutClientTwice())
}

"""PostgreSQL and Valkey, which are killed, stand still, fail over, lose answers and forget."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from chaos.fleet.cell import At
from chaos.fleet.gateway_faults import GATEWAY_FAULTS, at_gateway, chosen_from
from chaos.fleet.node_faults import NODE_FAULTS
from chaos.fleet.stage import Aim, FleetFault, Scene
from chaos.history import Loses
from vivace.store import statements

__all__ = ["FAULTS"]

_WORKING_ON = 20.0
"""Seconds in which some gateway has asked for what is to be lost."""


class _Service:
    """Every turn that an engine works on needs it."""

    loses: Loses = ""
    engines = clocks = False
    target = "postgres"

    def aim(self, scene: Scene, turns: Sequence[At]) -> Aim | None:
        return chosen_from(scene, turns, lambda turn: (self.target if turn.node else "", ""))


class KillPostgres(_Service):
    """``kill -9`` of all its processes; it is away for a moment, or for longer than gateways are
    sure of their turns."""

    name, row = "kill-postgres", 10

    async def inject(self, scene: Scene, aim: Aim) -> None:
        await scene.cell.services.pair.kill(scene.cell.note)
        await scene.pause(0, 0.3, 1, 3)

    async def heal(self, scene: Scene, aim: Aim) -> None:
        await scene.cell.services.pair.start(scene.cell.note)


class FreezePostgres(_Service):
    """All its processes stop for two seconds."""

    name, row = "freeze-postgres", 11

    async def inject(self, scene: Scene, aim: Aim) -> None:
        scene.cell.services.pair.freeze()
        await asyncio.sleep(2 * scene.times.slower)

    async def heal(self, scene: Scene, aim: Aim) -> None:
        scene.cell.services.pair.thaw()


class FailOver(_Service):
    """``kill -9`` of the one that takes writes; its standby takes them from then on."""

    name, row = "fail-over-postgres", 12

    async def inject(self, scene: Scene, aim: Aim) -> None:
        await scene.cell.services.pair.kill(scene.cell.note)
        await scene.pause(0, 1)

    async def heal(self, scene: Scene, aim: Aim) -> None:
        await scene.cell.services.pair.fail_over(scene.cell.note)


class LoseAnswer(_Service):
    """A commit is done, and its gateway never hears of it."""

    name, row = "lose-answer", 13
    target = ""

    def aim(self, scene: Scene, turns: Sequence[At]) -> Aim | None:
        return chosen_from(scene, turns, at_gateway)

    async def inject(self, scene: Scene, aim: Aim) -> None:
        way = scene.cell.ways[aim.target, "primary"]
        asked = (statements.ACCEPT, statements.END, statements.ORDER, statements.DELETE)
        before, way.of = way.lost, scene.dice.choice(asked).encode()
        if scene.dice.random() < 0.5:
            way.lose = 1
        else:
            way.hang = 1
        async with asyncio.timeout(_WORKING_ON):
            while way.lost == before:
                await asyncio.sleep(0.01)

    async def heal(self, scene: Scene, aim: Aim) -> None:
        """Nothing stays broken but what somebody believes."""
        way = scene.cell.ways[aim.target, "primary"]
        way.lose = way.hang = 0


class _Valkey(_Service):
    loses: Loses = "limits"
    target = "valkey"


class KillValkey(_Valkey):
    """``kill -9``; it comes back, and has forgotten everything."""

    name, row = "kill-valkey", 14

    async def inject(self, scene: Scene, aim: Aim) -> None:
        await asyncio.to_thread(scene.cell.services.valkey.kill)
        await scene.pause(0, 0.5, 2)

    async def heal(self, scene: Scene, aim: Aim) -> None:
        await asyncio.to_thread(scene.cell.services.valkey.start)


class StallValkey(_Valkey):
    """It stands still for 300 ms: longer than a request waits for it."""

    name, row = "stall-valkey", 14

    async def inject(self, scene: Scene, aim: Aim) -> None:
        scene.cell.services.valkey.freeze()
        await asyncio.sleep(0.3)

    async def heal(self, scene: Scene, aim: Aim) -> None:
        scene.cell.services.valkey.thaw()


_ALL: list[FleetFault] = [
    *GATEWAY_FAULTS,
    *NODE_FAULTS,
    KillPostgres(),
    FreezePostgres(),
    FailOver(),
    LoseAnswer(),
    KillValkey(),
    StallValkey(),
]
FAULTS = {fault.name: fault for fault in sorted(_ALL, key=lambda fault: fault.row)}
"""All that is done to a fleet."""

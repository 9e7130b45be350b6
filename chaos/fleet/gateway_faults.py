"""Gateways that are killed, frozen, stopped, cut off or told the wrong time; and clients that are
cut off from them."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Sequence

from tests.support.proxy import Way

from chaos.fleet.cell import At
from chaos.fleet.stage import Aim, FleetFault, Missed, Scene
from chaos.history import Loses
from chaos.stage import Cuttable

__all__ = ["GATEWAY_FAULTS", "chosen_from"]


def chosen_from(
    scene: Scene, turns: Sequence[At], where: Callable[[At], tuple[str, str]]
) -> Aim | None:
    """One of the places that have turns, with those; ``where`` says which a turn is at, and no
    turn that it gives no name is at any."""
    places: dict[tuple[str, str], list[str]] = defaultdict(list)
    for turn in turns:
        place = where(turn)
        if place[0]:
            places[place].append(turn.id)
    if not places:
        return None
    target, also = scene.dice.choice(sorted(places))
    return Aim(target, tuple(places[target, also]), also)


def at_gateway(turn: At) -> tuple[str, str]:
    """With an engine at work: what it says is on its way there."""
    return (turn.gateway if turn.node else "", "")


def at_both(turn: At) -> tuple[str, str]:
    return (turn.gateway, turn.node) if turn.gateway and turn.node else ("", "")


class _Gateway:
    """What is done to one of them."""

    loses: Loses = "gateway"
    engines = clocks = False

    def aim(self, scene: Scene, turns: Sequence[At]) -> Aim | None:
        return chosen_from(scene, turns, at_gateway)

    async def heal(self, scene: Scene, aim: Aim) -> None:
        gateway = scene.gateway(aim.target)
        if not gateway.runs:
            await gateway.start()


class KillGateway(_Gateway):
    """``kill -9``; it is started again after others had the time to take its turns, or before."""

    name, row = "kill-gateway", 1

    async def inject(self, scene: Scene, aim: Aim) -> None:
        await scene.gateway(aim.target).kill()
        await asyncio.sleep(scene.dice.choice([0, 1, 3]) * scene.times.dead_after)


class FreezeGateway(_Gateway):
    """SIGSTOP for longer than others wait for it: it wakes as a ghost."""

    name, row = "freeze-gateway", 2

    async def inject(self, scene: Scene, aim: Aim) -> None:
        scene.gateway(aim.target).freeze()
        await until_taken(scene, aim)
        await scene.pause(0, 1)

    async def heal(self, scene: Scene, aim: Aim) -> None:
        scene.gateway(aim.target).thaw()


class StopGateway(_Gateway):
    """SIGTERM: what runs may end, nothing new begins."""

    name, row = "stop-gateway", 3

    async def inject(self, scene: Scene, aim: Aim) -> None:
        await scene.gateway(aim.target).end(scene.times.drain + 10)


class CutFromStore(_Gateway):
    """From PostgreSQL, for longer than others wait for it; clients and nodes still reach it."""

    name, row = "cut-from-store", 4

    async def inject(self, scene: Scene, aim: Aim) -> None:
        silently = scene.dice.random() < 0.5
        for name in ("primary", "standby"):
            way = scene.cell.ways[aim.target, name]
            if silently:
                way.hold()
            else:
                way.cut()
        await until_taken(scene, aim)
        await scene.pause(0, 1)

    async def heal(self, scene: Scene, aim: Aim) -> None:
        for name in ("primary", "standby"):
            scene.cell.ways[aim.target, name].heal()


async def until_taken(scene: Scene, aim: Aim) -> None:
    """Until others have a turn of it that had not ended; raises ``Missed``."""
    until = time.monotonic() + 15 * scene.times.dead_after
    left = set(aim.turns)
    while time.monotonic() < until:
        await asyncio.sleep(0.05)
        rows = {
            row["id"]: row
            for table in await scene.cell.tables()
            if table.name == "turns"
            for row in table.rows
        }
        if any(rows[name]["epoch"] > 1 for name in left if name in rows):
            return
    raise Missed(f"nobody took the turns of {aim.target}")


_WAYS: list[tuple[Way, ...]] = [(), ("there",), ("back",)]


class CutFromValkey(_Gateway):
    """So that it counts alone; others still count together."""

    name, row = "cut-from-valkey", 5
    loses: Loses = "limits"

    async def inject(self, scene: Scene, aim: Aim) -> None:
        way = scene.cell.ways[aim.target, "valkey"]
        if scene.dice.random() < 0.5:
            way.hold(*scene.dice.choice(_WAYS))
        else:
            way.cut()
        await scene.pause(0.5, 2)

    async def heal(self, scene: Scene, aim: Aim) -> None:
        scene.cell.ways[aim.target, "valkey"].heal()


class KillGatewayAndNode(_Gateway):
    """Both that have a turn: nobody else knows what it said."""

    name, row = "kill-gateway-and-node", 16
    loses: Loses = "both"

    def aim(self, scene: Scene, turns: Sequence[At]) -> Aim | None:
        return chosen_from(scene, turns, at_both)

    async def inject(self, scene: Scene, aim: Aim) -> None:
        victims = (scene.gateway(aim.target), scene.node(aim.also))
        await asyncio.gather(*(each.kill() for each in victims))
        await asyncio.sleep(scene.dice.choice([0, 2]) * scene.times.dead_after)

    async def heal(self, scene: Scene, aim: Aim) -> None:
        victims = (scene.node(aim.also), scene.gateway(aim.target))
        await asyncio.gather(*(each.start() for each in victims if not each.runs))


class SetClock(_Gateway):
    """An hour before or behind the others, while it works."""

    name, row = "set-clock", 16
    loses: Loses = ""
    clocks = True

    async def inject(self, scene: Scene, aim: Aim) -> None:
        scene.cell.clocks[aim.target].set(scene.dice.choice([3600, -3600]))
        await scene.pause(1, 3)

    async def heal(self, scene: Scene, aim: Aim) -> None:
        scene.cell.clocks[aim.target].set(0)


# -- clients --------------------------------------------------------------------------------------


class CutClient:
    """The connection of one that reads an answer is gone; it comes back at another gateway."""

    name, row = "cut-client", 15
    loses: Loses = ""
    engines = clocks = False
    back = 1

    def aim(self, scene: Scene, turns: Sequence[At]) -> Aim | None:
        open_ = {turn.id for turn in turns if turn.node}
        found = [(each, reads) for each in scene.clients if (reads := _reads(each)) in open_]
        if not found:
            return None
        client, reads = scene.dice.choice(found)
        assert reads is not None
        return Aim(client.name, (reads,))

    async def inject(self, scene: Scene, aim: Aim) -> None:
        for client in scene.clients:
            if client.name == aim.target:
                client.cut(self.back)
        await asyncio.sleep(0.2)

    async def heal(self, scene: Scene, aim: Aim) -> None:
        """Whoever was cut off comes back by itself."""


def _reads(client: Cuttable) -> str | None:
    """The answer that it has under way on a stream."""
    return client.reads if client.busy else None


class CutClientTwice(CutClient):
    """It comes back on two connections at once, at two gateways."""

    name = "cut-client-twice"
    back = 2


GATEWAY_FAULTS: list[FleetFault] = [
    KillGateway(),
    FreezeGateway(),
    StopGateway(),
    CutFromStore(),
    CutFromValkey(),
    CutClient(),
    CutClientTwice(),
    KillGatewayAndNode(),
    SetClock(),
]

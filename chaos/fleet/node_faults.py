"""Engine nodes that are killed or frozen, cut off from a gateway, or lose their engine."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from chaos.fleet.cell import At
from chaos.fleet.gateway_faults import at_both, chosen_from
from chaos.fleet.stage import Aim, FleetFault, Missed, Scene
from chaos.history import Loses, Worked

__all__ = ["NODE_FAULTS"]

_LEFT_AFTER = 8.0
"""Seconds in which turns have gone elsewhere whose node is silent."""


def _at_node(turn: At) -> tuple[str, str]:
    return (turn.node, "")


class _Node:
    loses: Loses = "node"
    engines = clocks = False

    def aim(self, scene: Scene, turns: Sequence[At]) -> Aim | None:
        return chosen_from(scene, turns, _at_node)

    async def heal(self, scene: Scene, aim: Aim) -> None:
        node = scene.node(aim.target)
        if not node.runs:
            await node.start()


class KillNode(_Node):
    """``kill -9``: the other one goes on with its turns."""

    name, row = "kill-node", 7

    async def inject(self, scene: Scene, aim: Aim) -> None:
        await scene.node(aim.target).kill()
        await scene.pause(0, 0.5, 2)


class FreezeNode(_Node):
    """SIGSTOP until its turns have gone elsewhere; then it wakes, and says what it had to say."""

    name, row = "freeze-node", 8

    async def inject(self, scene: Scene, aim: Aim) -> None:
        scene.node(aim.target).freeze()
        await _until_left(scene, aim)
        await scene.pause(0, 1)

    async def heal(self, scene: Scene, aim: Aim) -> None:
        scene.node(aim.target).thaw()


async def _until_left(scene: Scene, aim: Aim) -> None:
    """Until another engine goes on with one of these turns; raises ``Missed``."""
    others = [each for each in scene.cell.nodes if each.name != aim.target]
    until = time.monotonic() + _LEFT_AFTER * scene.times.slower
    while time.monotonic() < until:
        await asyncio.sleep(0.05)
        for entry in (entry for node in others for entry in node.witnessed()):
            if isinstance(entry, Worked) and entry.attempt > 1 and entry.response in aim.turns:
                return
    raise Missed(f"no turn of {aim.target} went on elsewhere")


class CutLink(_Node):
    """Between a gateway and a node that both live: for less or more than a turn waits for its
    node, and with or without a word to either."""

    name, row = "cut-link", 6

    def aim(self, scene: Scene, turns: Sequence[At]) -> Aim | None:
        return chosen_from(scene, turns, at_both)

    async def inject(self, scene: Scene, aim: Aim) -> None:
        way = scene.cell.ways[aim.target, aim.also]
        if scene.dice.random() < 0.5:
            way.cut()
        else:
            way.hold()
        await scene.pause(0.2, 0.6, 1.2, 2.5, 4)

    async def heal(self, scene: Scene, aim: Aim) -> None:
        scene.cell.ways[aim.target, aim.also].heal()


class BreakLink(CutLink):
    """And there again at once: they talk on where they were."""

    name = "break-link"
    loses: Loses = ""

    async def inject(self, scene: Scene, aim: Aim) -> None:
        way = scene.cell.ways[aim.target, aim.also]
        way.cut()
        way.heal()
        await scene.pause(0.1, 0.6)


class CutLinkOneWay(CutLink):
    """What one of them says does not arrive; what the other says does."""

    name = "cut-link-one-way"

    async def inject(self, scene: Scene, aim: Aim) -> None:
        scene.cell.ways[aim.target, aim.also].hold(scene.dice.choice(["there", "back"]))
        await scene.pause(0.5, 1.2, 2.5, 4)


class DelayLink(CutLink):
    """Everything takes longer between them, and nothing is lost."""

    name = "delay-link"
    loses: Loses = ""

    async def inject(self, scene: Scene, aim: Aim) -> None:
        scene.cell.ways[aim.target, aim.also].delay = scene.dice.choice([0.05, 0.2, 0.4])
        await scene.pause(1, 3)


class KillEngine(_Node):
    """``kill -9`` of the engine's own process; its node lives, and starts it again."""

    name, row = "kill-engine", 9
    engines = True

    def aim(self, scene: Scene, turns: Sequence[At]) -> Aim | None:
        writing = {node.name for node in scene.cell.nodes if node.working_engines()}
        return chosen_from(scene, [each for each in turns if each.node in writing], _at_node)

    async def inject(self, scene: Scene, aim: Aim) -> None:
        working = scene.node(aim.target).working_engines()
        if not working:
            raise Missed(f"the engine of {aim.target} had just ended its work")
        working[0].kill()
        await asyncio.sleep(0.3)


NODE_FAULTS: list[FleetFault] = [
    BreakLink(),
    CutLink(),
    CutLinkOneWay(),
    DelayLink(),
    KillNode(),
    FreezeNode(),
    KillEngine(),
]

"""What a fault of a fleet is, and all that it may touch."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from chaos.fleet.cell import At, Cell
from chaos.history import Loses
from chaos.processes import Gateway, Node
from chaos.stage import Cuttable

__all__ = ["Aim", "FleetFault", "Missed", "Scene"]


class Missed(Exception):
    """It did not meet what it was to hit."""


class Scene:
    def __init__(self, cell: Cell, clients: Sequence[Cuttable], dice: random.Random) -> None:
        self.cell = cell
        self.times = cell.times
        self.clients = clients
        self.dice = dice

    async def pause(self, *seconds: float) -> None:
        """One of these, or if there are two of them anything between them."""
        least, *_, most = seconds
        chosen = self.dice.uniform(least, most) if len(seconds) == 2 else self.dice.choice(seconds)
        await asyncio.sleep(chosen * self.times.slower)

    def gateway(self, name: str) -> Gateway:
        return next(each for each in self.cell.gateways if each.name == name)

    def node(self, name: str) -> Node:
        return next(each for each in self.cell.nodes if each.name == name)


class Aim(Struct, frozen=True):
    """What it strikes, and the turns there that are in the state that it is to hit."""

    target: str
    turns: tuple[str, ...]
    also: str = ""
    """What it strikes together with the target, or the other end of a way."""


class FleetFault(Protocol):
    name: str
    row: int
    """Which of the faults that a fleet must survive it is; some come in several ways."""
    loses: Loses
    """What the turns lose that it hits."""
    engines: bool
    """Whether engines have to be processes of their own."""
    clocks: bool
    """Whether gateways need clocks that can be set."""

    def aim(self, scene: Scene, turns: Sequence[At]) -> Aim | None:
        """None while nothing is in the state that it is to hit; ``turns`` are the open ones."""

    async def inject(self, scene: Scene, aim: Aim) -> None:
        """Raises ``Missed``, or ``TimeoutError``, when what it waits for did not happen."""

    async def heal(self, scene: Scene, aim: Aim) -> None:
        """Whatever ``inject`` came to. Returns when what it struck serves again."""

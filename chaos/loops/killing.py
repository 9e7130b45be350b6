"""Kills the gateway of an open turn, at every fifth turn of a loop, and starts it again."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import Mapping

import httpx

from chaos.fleet.cell import Cell
from chaos.loops.client import Gate
from chaos.loops.counting import Asked, asked_of
from chaos.loops.script import TURNS, WORDS
from chaos.processes import Gateway
from chaos.rounds import figures

__all__ = ["EVERY", "KILLS", "Killer"]

EVERY = 5
_FIRST = 3
"""The turn that is hit first: what cannot be hit in time is made up for at the next turn, and the
last has none."""
KILLS = len(range(_FIRST, TURNS + 1, EVERY))
_RUNNING = "vivace_turns_running"


class Killer:
    def __init__(
        self, cell: Cell, headers: Mapping[str, str], gate: Gate, dice: random.Random
    ) -> None:
        self.kills = 0
        self._cell = cell
        self._headers = dict(headers)
        self._gate = gate
        self._dice = dice
        self._begun = time.monotonic()

    def asked(self) -> Asked:
        """What engines were asked since this began."""
        told = (entry for node in self._cell.nodes for entry in node.witnessed())
        return asked_of(told, self._begun)

    async def run(self) -> None:
        """Until all are done that a loop has, or this is cancelled."""
        for due in range(_FIRST, TURNS + 1, EVERY):
            gateway = await self._aimed(due)
            self._gate.shut()
            try:
                await gateway.kill()
                self.kills += 1
                await asyncio.sleep(self._dice.choice([0, 0.5, 1]) * self._cell.times.dead_after)
                await self.heal()
            finally:
                self._gate.open()

    async def heal(self) -> None:
        """Start what does not live; returns when all of the fleet serves."""
        await asyncio.gather(*(each.start() for each in self._cell.gateways if not each.runs))
        await self._cell.serves()

    async def _aimed(self, due: int) -> Gateway:
        """Wait for this turn, and somewhere in the midst of its answer find who has it."""
        share = self._dice.uniform(0.1, 0.6)
        while True:
            asked = self.asked()
            if asked.turns >= due and asked.since is not None:
                left = asked.since + share * WORDS / self._cell.times.rate - time.monotonic()
                await asyncio.sleep(max(0.0, left))
                if (gateway := await self._holder()) is not None:
                    return gateway
            await asyncio.sleep(0.02)

    async def _holder(self) -> Gateway | None:
        """The one that has a turn. Those of Codex are on no record, so that each is asked."""
        async with httpx.AsyncClient(headers=self._headers, timeout=5) as http:
            for gateway in self._cell.gateways:
                http.base_url = gateway.url
                with contextlib.suppress(httpx.TransportError):  # then it is asked again
                    if any((await figures(http, frozenset({_RUNNING}))).values()):
                        return gateway
        return None

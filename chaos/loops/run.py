"""Loops of one client after the other through one fleet, and what became of each."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.support.http import bearer

from chaos.fleet.cell import OWNERS, Cell
from chaos.fleet.services import Services
from chaos.fleet.times import Times
from chaos.history import Recorder, save
from chaos.loops.client import Client, Ended
from chaos.loops.codex import CodexLoop
from chaos.loops.killing import Killer
from chaos.loops.script import TURNS, script
from chaos.loops.sdk import SdkLoop
from chaos.loops.table import Outcome

__all__ = ["CLIENTS", "loops"]

_OWNER = OWNERS[0]
_LONGEST = 600.0
"""Seconds that a loop may take."""

CLIENTS = {
    "sdk": "OpenAI SDK",
    "sdk-stream": "OpenAI SDK, streamed",
    "codex": "Codex CLI, WebSocket",
    "codex-http": "Codex CLI, HTTP",
}
"""What they are called in tables."""


class _Whole:
    """Who plays which loop, and what all of them share."""

    def __init__(self, cell: Cell, folder: Path, seed: str, *, keys: bool) -> None:
        self._cell = cell
        self._folder = folder
        self._seed = seed
        self._keys = keys

    async def loop(self, number: int, kind: str) -> Outcome:
        client = self._client(number, kind)
        dice = random.Random(f"{self._seed}/{number}")
        killer = Killer(self._cell, bearer(_OWNER), client.gate, dice)
        begun = time.monotonic()
        ended = await _beside(client, killer)
        seconds = time.monotonic() - begun
        await self._calm()
        asked = killer.asked()
        return Outcome(
            client=CLIENTS[kind],
            keyed=self._keys and isinstance(client, SdkLoop),
            turns=asked.turns,
            kills=killer.kills,
            twice=asked.twice,
            # What did not reach an engine is not seen then.
            retries=max(0, asked.begun - TURNS) if ended.retries is None else ended.retries,
            why=ended.why,
            seconds=seconds,
        )

    def _client(self, number: int, kind: str) -> Client:
        place = self._folder / f"loop-{number}"
        place.mkdir()
        given = place, self._cell.doors["haproxy"], _OWNER, f"{self._seed}-{number}"
        if kind.startswith("codex"):
            return CodexLoop(*given, websocket=kind == "codex")
        return SdkLoop(*given, stream=kind == "sdk-stream", keys=self._keys)

    async def _calm(self) -> None:
        """Until nothing is left of the loop, and others had the time to take over what a gateway
        left behind: something that is run twice may well be run late."""
        await asyncio.sleep(1.5 * self._cell.times.dead_after)
        await self._cell.figures(bearer(_OWNER))


async def _beside(client: Client, killer: Killer) -> Ended:
    """The loop, while gateways die; what was killed last lives again when this returns."""
    killing = asyncio.create_task(killer.run())
    try:
        async with asyncio.timeout(_LONGEST):
            ended = await client.run()
    except TimeoutError:
        ended = Ended(None, f"it was not done after {_LONGEST:.0f} s")
    killing.cancel()
    [became] = await asyncio.gather(killing, return_exceptions=True)
    if isinstance(became, Exception):
        raise became
    await killer.heal()
    return ended


async def loops(
    folder: Path,
    seed: str,
    services: Services,
    plan: Sequence[str],
    *,
    times: Times,
    keys: bool = True,
    told: Callable[[Outcome], None] = lambda _: None,
) -> list[Outcome]:
    """``plan``: a client for each loop. Without ``keys`` the SDK sends none. The files of all stay
    in ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    outcomes: list[Outcome] = []
    with contextlib.closing(Recorder(folder / "history.jsonl")) as note:
        async with Cell(folder, note, services, times, script=script()) as cell:
            whole = _Whole(cell, folder, seed, keys=keys)
            for number, kind in enumerate(plan):
                outcomes.append(await whole.loop(number, kind))
                told(outcomes[-1])
            save(folder / "work.jsonl", cell.testimony())
    return outcomes

"""One run of a fleet from its seed: clients at every door, a fault among them, and the verdict."""

from __future__ import annotations

import asyncio
import random
import time
from pathlib import Path

from tests.support.http import bearer

from chaos.clients import Caller
from chaos.doors import Doors
from chaos.fleet.cell import LIMITS, OWNERS, Cell
from chaos.fleet.services import Services
from chaos.fleet.stage import Aim, FleetFault, Missed, Scene
from chaos.fleet.times import Times
from chaos.history import Calm, Note, Recorder, Stalled, Started, Struck, created_in
from chaos.run import IN_FLIGHT, Run, judged
from chaos.sessions import Background, Poll, Session, Talk
from chaos.tables import open_turns

__all__ = ["fleet"]

_KINDS: list[type[Session]] = [*[Talk] * 8, *[Background] * 4, *[Poll] * 3]
_NARROW = 0.3
"""Of all requests, those for the model that few may have."""
_WARM = 30.0
"""Seconds in which enough answers must be under way, in the state that is to be hit."""
_LOOK, _STALL = 0.05, 0.4
_QUIET = 10.0
"""Seconds in which every turn has its end, when nothing is broken any more and nobody is waited
for."""


async def fleet(
    folder: Path,
    seed: str,
    fault: FleetFault | None,
    services: Services,
    *,
    times: Times | None = None,
    defect: str | None = None,
) -> Run:
    """Its files stay in ``folder`` with the record."""

    async def play(note: Recorder) -> None:
        await _play(folder, seed, fault, note, services, times or Times(), defect)

    name = fault.name if fault else "none"
    return await judged(folder, seed, name, "fleet", play, least=IN_FLIGHT)


async def _play(
    folder: Path,
    seed: str,
    fault: FleetFault | None,
    note: Recorder,
    services: Services,
    times: Times,
    defect: str | None,
) -> None:
    note(Started(time.monotonic(), LIMITS, gateways=2, wall=time.time()))
    dice = random.Random(seed)
    engines, clocks = (fault.engines, fault.clocks) if fault else (False, False)
    cell = Cell(folder, note, services, times, engines=engines, clocks=clocks, defect=defect)
    async with cell:
        watching = asyncio.create_task(_watch(note, _STALL * times.slower))
        sessions = _sessions(note, cell, seed)
        stop = asyncio.Event()
        tasks = [asyncio.create_task(session.run(stop)) for session in sessions]
        try:
            await _strike(Scene(cell, sessions, dice), fault, note)
            await asyncio.sleep(dice.uniform(0.2, 1))
        finally:
            stop.set()
            await asyncio.gather(*tasks)
        await _look(note, cell)
        watching.cancel()


async def _watch(note: Note, longest: float) -> None:
    """Whether this machine has time for us: who is not woken for so long would be taken for dead by
    others, too."""
    while True:
        before = time.monotonic()
        await asyncio.sleep(_LOOK)
        late = time.monotonic() - before - _LOOK
        if late > longest:
            note(Stalled(before, time.monotonic()))


def _sessions(note: Note, cell: Cell, seed: str) -> list[Session]:
    sessions = []
    for number, kind in enumerate(_KINDS):
        owner = OWNERS[number % len(OWNERS)]
        given = {"who": f"{owner}{number}", "seed": f"{seed}/{number}", "narrow": _NARROW}
        doors = Doors(cell.doors, first=number)
        sessions.append(kind(note, doors, owner, bearer(owner), keys=True, **given))  # type: ignore[arg-type]
    return sessions


async def _strike(scene: Scene, fault: FleetFault | None, note: Note) -> None:
    """When enough answers are under way and some are in the state that is to be hit, at some time
    after that, so that it meets each of them somewhere else."""
    await _under_way(scene)
    await asyncio.sleep(scene.dice.uniform(0, 1))
    if fault is None:
        return
    aim = await _aimed(scene, fault)
    begin, healed = time.monotonic(), None
    try:
        await fault.inject(scene, aim)
    finally:
        try:
            await fault.heal(scene, aim)
            await scene.cell.serves()
            await asyncio.sleep(2 * scene.times.dead_after)
            healed = time.monotonic()
        finally:
            note(Struck(begin, healed, fault.name, aim.target, aim.turns, fault.loses))


async def _under_way(scene: Scene) -> None:
    until = time.monotonic() + _WARM
    while sum(client.busy for client in scene.clients) < IN_FLIGHT and time.monotonic() < until:
        await asyncio.sleep(0.02)


async def _aimed(scene: Scene, fault: FleetFault) -> Aim:
    until = time.monotonic() + _WARM
    while time.monotonic() < until:
        turns = await scene.cell.open_turns()
        heard = sum(bool(turn.node) for turn in turns)
        aim = fault.aim(scene, turns) if heard >= IN_FLIGHT else None
        if aim is not None:
            return aim
        await asyncio.sleep(0.02)
    raise Missed("nothing came into the state that it was to hit")


async def _look(note: Recorder, cell: Cell) -> None:
    """What is left when all is calm: figures, every response at every gateway, what engines did,
    logs and tables."""
    times = cell.times
    waited = times.dead_after + times.orphan + times.resume
    until = time.monotonic() + waited + _QUIET * times.slower
    while open_turns(await cell.tables()) and time.monotonic() < until:
        await asyncio.sleep(0.25)
    figures = await cell.figures(bearer(OWNERS[0]))
    note(Calm(time.monotonic(), figures, cell.living))
    created = created_in(note.history)
    looks = (
        _look_at(note, name, url, owner, created)
        for name, url in cell.gateway_urls.items()
        for owner in OWNERS
    )
    await asyncio.gather(*looks)
    for entry in [*cell.testimony(), *await cell.tables()]:
        note(entry)


async def _look_at(note: Note, gateway: str, url: str, owner: str, created: dict[str, str]) -> None:
    async with Caller(note, Doors({gateway: url}), owner, bearer(owner)) as caller:
        for name, whose in created.items():
            await caller.call("GET", f"/v1/responses/{name}")
            if owner == whose:
                path = f"/v1/responses/{name}/input_items?limit=100&order=asc"
                await caller.call("GET", path)

"""One run from its seed: clients at work, a fault among them, calm, and the verdict."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace
from tests.support.http import bearer
from tests.support.postgres import Postgres

from chaos.clients import Caller
from chaos.databases import Database
from chaos.history import Calm, Note, Recorder, Started, Struck, Table, created_in
from chaos.processes import Gateway
from chaos.rounds import calm
from chaos.sessions import SCRIPT, Background, Session, Talk
from chaos.stage import POSTGRES, SQLITE, Fault, Stage
from chaos.tables import dump_sqlite, open_turns
from chaos.verdict import Verdict, Word, judge, keep, worst

__all__ = ["IN_FLIGHT", "Run", "judged", "one_node"]

_OWNERS = ("alice", "bob")
_TALKERS, _READERS = 8, 5
IN_FLIGHT = 8
"""Turns that must be open when something strikes."""
_RATE = 60
"""Tokens a second: answers last for seconds, so that a fault meets many."""
_WARM = 20.0
"""Seconds in which enough answers must be under way."""
_RESUME, _ORPHAN = 6, 4
"""Seconds for which a turn waits for its client, after a restart and after a broken connection."""
_QUIET = 4 + _RESUME + _ORPHAN + 10
"""Seconds in which every turn has its end, when nothing is broken any more: a gateway counts as
gone after the first four."""


class Run(Struct, frozen=True):
    seed: str
    fault: str
    store: str
    verdict: Verdict
    turns: int
    seconds: float
    history: Path

    @property
    def hit(self) -> int:
        """How many turns were open when the fault struck."""
        return len({name for names in self.verdict.hit.values() for name in names})


async def one_node(
    folder: Path,
    seed: str,
    fault: Fault | None,
    postgres: Postgres | None = None,
    *,
    keys: bool = False,
    defect: str | None = None,
) -> Run:
    """A gateway of its own, on SQLite unless it is given a server, whose files stay in ``folder``
    with the record."""

    async def play(note: Recorder) -> None:
        await _play(folder, seed, fault, note, postgres, keys=keys, defect=defect)

    name, store = fault.name if fault else "none", SQLITE if postgres is None else POSTGRES
    # What strikes a process must have met many turns; what strikes a client meets its own.
    least = 0 if fault is None or fault.group == "client" else IN_FLIGHT
    return await judged(folder, seed, name, store, play, least=least)


async def judged(
    folder: Path,
    seed: str,
    fault: str,
    store: str,
    play: Callable[[Recorder], Awaitable[None]],
    *,
    least: int,
) -> Run:
    """What is played, on record, and the verdict. A run that fails by itself proves nothing, and
    says why; nor does one whose fault met less than so many turns."""
    begin = time.monotonic()
    folder.mkdir(parents=True)
    recorder = Recorder(folder / "history.jsonl")
    doubts: list[str] = []
    try:
        await play(recorder)
    except Exception as error:  # noqa: BLE001 - what was seen until then may be broken all the same
        doubts.append(f"the run itself failed: {error!r}")
    finally:
        recorder.close()
    verdict = judge(recorder.history)
    doubts += [
        f"{name} met only {met} open turns" for name, met in verdict.open.items() if met < least
    ]
    if doubts:
        word = worst([verdict.word, Word.UNKNOWN])
        verdict = replace(verdict, word=word, doubts=[*doubts, *verdict.doubts])
    path = keep(folder, recorder.history, verdict)
    turns = len(created_in(recorder.history))
    return Run(seed, fault, store, verdict, turns, time.monotonic() - begin, path)


async def _play(
    folder: Path,
    seed: str,
    fault: Fault | None,
    note: Recorder,
    postgres: Postgres | None,
    *,
    keys: bool,
    defect: str | None,
) -> None:
    note(Started(time.monotonic(), wall=time.time()))
    dice = random.Random(seed)
    async with AsyncExitStack() as stack:
        database = None
        if postgres is not None:
            database = await stack.enter_async_context(Database(postgres, note))
        tables = _configured(database, processes=fault is not None and fault.engines)
        gateway = Gateway(
            folder,
            note,
            SCRIPT,
            owners=_OWNERS,
            rate=_RATE,
            engine={"slots": 16},
            tables=tables,
            defect=defect,
        )
        stack.push_async_callback(gateway.kill)
        await gateway.start()
        sessions = _sessions(note, gateway.url, seed, keys=keys)
        stop = asyncio.Event()
        tasks = [asyncio.create_task(session.run(stop)) for session in sessions]
        stage = Stage(gateway, sessions, dice, database)
        try:
            await _strike(stage, sessions, fault, note)
            await asyncio.sleep(dice.uniform(0.2, 1))
        finally:
            stop.set()
            await asyncio.gather(*tasks)
        await _look(note, gateway, database)


def _configured(database: Database | None, *, processes: bool) -> dict[str, Any]:
    """``processes``: two engines, each a process of its own."""
    store: dict[str, Any] = {"resume_seconds": _RESUME}
    tier: dict[str, Any] = {"name": "local-model", "engines": ["scripted"]}
    tables: dict[str, Any] = {"limits": {"orphan_seconds": _ORPHAN}, "store": store}
    if database is not None:
        store["url"] = database.url
    if processes:
        common = {"kind": "llamacpp", "model": "marks", "path": "none.gguf", "slots": 16}
        tier["engines"] = ["one", "two"]
        tables["engines"] = [
            {"name": name, "silence_seconds": 1, **common} for name in tier["engines"]
        ]
    return tables | {"tiers": [tier]}


def _sessions(note: Note, url: str, seed: str, *, keys: bool) -> list[Session]:
    kinds: list[type[Session]] = [*[Talk] * _TALKERS, *[Background] * _READERS]
    sessions = []
    for number, kind in enumerate(kinds):
        owner = _OWNERS[number % len(_OWNERS)]
        who, own_seed = f"{owner}{number}", f"{seed}/{number}"
        sessions.append(kind(note, url, owner, bearer(owner), who=who, seed=own_seed, keys=keys))
    return sessions


async def _strike(
    stage: Stage, sessions: Sequence[Session], fault: Fault | None, note: Recorder
) -> None:
    """When enough answers are under way, and some time after, so that it meets each of them
    somewhere else."""
    until = time.monotonic() + _WARM
    while sum(session.busy for session in sessions) < IN_FLIGHT and time.monotonic() < until:
        await asyncio.sleep(0.01)
    await asyncio.sleep(stage.dice.uniform(0, 1.5))
    if fault is None:
        return
    while not fault.fits(stage) and time.monotonic() < until:
        await asyncio.sleep(0.01)
    hit, healed = await fault.inject(stage), None
    try:
        await fault.heal(stage)
        healed = time.monotonic()
    finally:
        note(Struck(hit.at, healed, fault.name, hit.target))


async def _look(note: Recorder, gateway: Gateway, database: Database | None) -> None:
    """What is left when all is calm: figures, every response, engines, logs and tables."""
    until = time.monotonic() + _QUIET
    while open_turns(await _tables(gateway, database)) and time.monotonic() < until:
        await asyncio.sleep(0.25)
    headers = {owner: bearer(owner) for owner in _OWNERS}
    figures = await calm(gateway.url, headers[_OWNERS[0]])
    note(Calm(time.monotonic(), figures, (gateway.incarnation,)))
    for owner in _OWNERS:
        async with Caller(note, gateway.url, owner, headers[owner]) as caller:
            for name, whose in created_in(note.history).items():
                await caller.call("GET", f"/v1/responses/{name}")
                if owner == whose:
                    path = f"/v1/responses/{name}/input_items?limit=100&order=asc"
                    await caller.call("GET", path)
    for entry in [*gateway.testimony(), *await _tables(gateway, database)]:
        note(entry)


async def _tables(gateway: Gateway, database: Database | None) -> list[Table]:
    if database is not None:
        return await database.dump()
    return await asyncio.to_thread(dump_sqlite, gateway.folder / "vivace.db")

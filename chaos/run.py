"""One run from its seed: clients at work, a fault among them, calm, and the verdict."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace
from tests.support.http import bearer

from chaos.clients import Caller
from chaos.faults import Fault, Stage
from chaos.history import Calm, Entry, Joined, Note, Recorder, Saw, Started, Struck
from chaos.processes import Gateway
from chaos.rounds import calm
from chaos.sessions import SCRIPT, Background, Session, Talk
from chaos.tables import dump_sqlite
from chaos.verdict import Verdict, Word, judge, keep, worst

__all__ = ["Run", "one_node"]

_OWNERS = ("alice", "bob")
_TALKERS, _READERS = 6, 4
_IN_FLIGHT = 8
_RATE = 60
"""Tokens a second: answers last for seconds, so that a fault meets many."""
_WARM = 20.0
"""Seconds in which enough answers must be under way."""


class Run(Struct, frozen=True):
    seed: str
    fault: str
    verdict: Verdict
    turns: int
    seconds: float
    history: Path


async def one_node(folder: Path, seed: str, fault: Fault | None, *, keys: bool = False) -> Run:
    """A gateway of its own on SQLite, whose files stay in ``folder`` with the record. A run that
    fails by itself proves nothing, and says why."""
    begin = time.monotonic()
    folder.mkdir(parents=True)
    recorder = Recorder(folder / "history.jsonl")
    doubts: list[str] = []
    try:
        await _play(folder, seed, fault, recorder, keys=keys)
    except Exception as error:  # noqa: BLE001 - what was seen until then may be broken all the same
        doubts.append(f"the run itself failed: {error!r}")
    finally:
        recorder.close()
    verdict = judge(recorder.history)
    if doubts:
        word = worst([verdict.word, Word.UNKNOWN])
        verdict = replace(verdict, word=word, doubts=[*doubts, *verdict.doubts])
    path = keep(folder, recorder.history, verdict)
    turns = len(_created(recorder.history))
    name = fault.name if fault else "none"
    return Run(seed, name, verdict, turns, time.monotonic() - begin, path)


async def _play(
    folder: Path, seed: str, fault: Fault | None, note: Recorder, *, keys: bool
) -> None:
    note(Started(time.monotonic()))
    dice = random.Random(seed)
    gateway = Gateway(
        folder,
        note,
        SCRIPT,
        owners=_OWNERS,
        rate=_RATE,
        engine={"slots": 16},
        tables={"tiers": [{"name": "local-model", "engines": ["scripted"]}]},
    )
    await gateway.start()
    try:
        sessions = _sessions(note, gateway.url, seed, keys=keys)
        stop = asyncio.Event()
        tasks = [asyncio.create_task(session.run(stop)) for session in sessions]
        stage = Stage(gateway, sessions, dice)
        await _strike(stage, sessions, fault, note)
        await asyncio.sleep(dice.uniform(0.2, 1))
        stop.set()
        await asyncio.gather(*tasks)
        await _look(note, gateway)
    finally:
        await gateway.kill()


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
    while sum(session.busy for session in sessions) < _IN_FLIGHT and time.monotonic() < until:
        await asyncio.sleep(0.01)
    await asyncio.sleep(stage.dice.uniform(0, 1.5))
    if fault is None:
        return
    while not fault.fits(stage) and time.monotonic() < until:
        await asyncio.sleep(0.01)
    begin = time.monotonic()
    target = await fault.inject(stage)
    await fault.heal(stage)
    note(Struck(begin, time.monotonic(), fault.name, target))


async def _look(note: Recorder, gateway: Gateway) -> None:
    """What is left when all is calm: figures, every response, engines, logs and tables."""
    headers = {owner: bearer(owner) for owner in _OWNERS}
    figures = await calm(gateway.url, headers[_OWNERS[0]])
    note(Calm(time.monotonic(), figures, (gateway.incarnation,)))
    for owner in _OWNERS:
        async with Caller(note, gateway.url, owner, headers[owner]) as caller:
            for name, whose in _created(note.history).items():
                await caller.call("GET", f"/v1/responses/{name}")
                if owner == whose:
                    path = f"/v1/responses/{name}/input_items?limit=100&order=asc"
                    await caller.call("GET", path)
    for entry in [*gateway.testimony(), *dump_sqlite(gateway.folder / "vivace.db")]:
        note(entry)


def _created(history: Sequence[Entry]) -> dict[str, str]:
    """Whose each response is that somebody saw begin."""
    owners = {entry.client: entry.owner for entry in history if isinstance(entry, Joined)}
    return {
        entry.event["response"]["id"]: owners[entry.client]
        for entry in history
        if isinstance(entry, Saw) and entry.event["type"] == "response.created"
    }

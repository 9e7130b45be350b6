"""Rounds of random events against one gateway: everybody at once, then calm, then the verdict.

The seed decides what clients try to do; how it falls together is up to the machine, so that a seed
brings back the kind of thing that happened, seldom the very thing. The history of a round that
went wrong is therefore kept.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import httpx
from msgspec import Struct
from prometheus_client.parser import text_string_to_metric_families

from chaos.clients import Caller, Talker
from chaos.history import Called, Calm, Entry, Joined, Saw, Sent, Started, save
from chaos.invariants import Violation, check
from chaos.workload import LIMITS, World, misbehave

__all__ = ["Broken", "Outcome", "calm", "excerpt", "figures", "line_of", "play"]

_QUIET = frozenset({"vivace_turns_running", "vivace_queue_length", "vivace_engine_running"})
_PATIENCE = 60.0
"""Seconds in which all that was asked for must have come to its end, on a busy machine too."""
_EXCERPTS = 3
_LINES = 30
_WIDTH = 240


class Broken(Struct, frozen=True):
    round: int
    violations: list[Violation]
    kept: Path
    """The whole history of the round."""
    excerpts: dict[str, str]
    """What happened to those that the first violations are about."""


class Outcome(Struct, kw_only=True):
    seed: int
    rounds: int = 0
    totals: Counter[str]
    broken: list[Broken] = []
    faults: list[str] = []
    """What the gateway logged as errors."""

    @property
    def held(self) -> bool:
        return not self.broken and not self.faults


async def play(
    url: str,
    keys: Mapping[str, Mapping[str, str]],
    *,
    seconds: float,
    seed: int,
    folder: Path,
    clients: int = 6,
    rounds: int | None = None,
) -> Outcome:
    """Play rounds for so long, or so many of them; ``keys`` are the headers of each owner.
    Histories go to ``folder``."""
    outcome = Outcome(seed=seed, totals=Counter())
    until = time.monotonic() + seconds
    while time.monotonic() < until if rounds is None else outcome.rounds < rounds:
        outcome.rounds += 1
        history = await _round(url, keys, random.Random(f"{seed}/{outcome.rounds}"), clients)
        outcome.totals.update(_kinds(history))
        violations = check(history)
        if violations:
            kept = folder / f"history-{seed}-{outcome.rounds}.jsonl"
            save(kept, history)
            outcome.broken.append(
                Broken(outcome.rounds, violations, kept, _excerpts(history, violations))
            )
    return outcome


async def _round(
    url: str, keys: Mapping[str, Mapping[str, str]], dice: random.Random, clients: int
) -> list[Entry]:
    history: list[Entry] = [Started(time.monotonic(), LIMITS)]
    world = World()
    async with AsyncExitStack() as stack:
        callers = {
            owner: await stack.enter_async_context(Caller(history.append, url, owner, headers))
            for owner, headers in keys.items()
        }
        talkers = []
        for number in range(clients):
            owner = list(keys)[number % len(keys)]
            name = f"{owner}{number}"
            joining = Talker.join(history.append, url, name, owner, keys[owner])
            talkers.append(await stack.enter_async_context(joining))
        await asyncio.gather(
            *(
                misbehave(talker, callers[talker.owner], random.Random(dice.random()), world)
                for talker in talkers
            )
        )
        headers = keys[next(iter(keys))]
        history.append(Calm(time.monotonic(), await calm(url, headers, talkers)))
        await _look_again(history, callers)
    return history


async def calm(
    url: str, headers: Mapping[str, str], talkers: Sequence[Talker] = ()
) -> dict[str, float]:
    """Wait until nothing is under way, for as long as that may take; what the figures say then."""
    until = time.monotonic() + _PATIENCE
    async with httpx.AsyncClient(base_url=url, headers=headers, timeout=_PATIENCE) as http:
        while True:
            waiting = not all(talker.idle for talker in talkers)
            found = await figures(http, _QUIET)
            if (not waiting and not any(found.values())) or time.monotonic() > until:
                await asyncio.sleep(0.2)  # what was sent last may be on its way
                return await figures(http, _QUIET)
            await asyncio.sleep(0.1)


async def figures(http: httpx.AsyncClient, names: frozenset[str]) -> dict[str, float]:
    """These of the gateway's metrics, each over all its labels."""
    text = (await http.get("/metrics")).text
    return {
        family.name: sum(s.value for s in family.samples if not s.name.endswith("_created"))
        for family in text_string_to_metric_families(text)
        if family.name in names
    }


async def _look_again(history: list[Entry], callers: Mapping[str, Caller]) -> None:
    """What is kept of each response, asked by the one whose it is."""
    owners = {entry.client: entry.owner for entry in history if isinstance(entry, Joined)}
    made = {
        entry.event["response"]["id"]: callers[owners[entry.client]]
        for entry in history
        if isinstance(entry, Saw) and entry.event["type"] == "response.created"
    }
    for name, caller in made.items():
        await caller.call("GET", f"/v1/responses/{name}")
        await caller.call("GET", f"/v1/responses/{name}/input_items?limit=100&order=asc")


# -- telling --------------------------------------------------------------------------------------


def _kinds(history: Sequence[Entry]) -> Counter[str]:
    found: Counter[str] = Counter()
    for entry in history:
        match entry:
            case Sent():
                event = entry.event
                found[f"sent {'garbage' if isinstance(event, str) else event['type']}"] += 1
            case Saw():
                found["events seen"] += 1
                found[f"saw {_kind(entry)}"] += not entry.event["type"].endswith(".delta")
            case Called():
                what = entry.path.rpartition("/")[2].partition("?")[0]
                found[f"called {entry.method} {'' if '_' in what else what} {entry.status}"] += 1
            case _:
                pass
    return +found


def _kind(entry: Saw) -> str:
    event = entry.event
    return f"error {event['error']['code']}" if event["type"] == "error" else str(event["type"])


def _excerpts(history: Sequence[Entry], violations: Sequence[Violation]) -> dict[str, str]:
    about = dict.fromkeys(violation.about for violation in violations)
    return {", ".join(names): excerpt(history, names) for names in list(about)[:_EXCERPTS]}


def excerpt(history: Sequence[Entry], about: Sequence[str], lines: int = _LINES) -> str:
    """The last entries that mention one of these; runs of deltas in one line."""
    found: list[str] = []
    skipped = 0
    for entry in history:
        if isinstance(entry, Saw) and entry.event["type"].endswith(".delta"):
            skipped += 1
            continue
        line = line_of(entry)
        if any(name in line for name in about):
            if skipped:
                found.append(f"            … {skipped} deltas")
            found.append(line[:_WIDTH])
            skipped = 0
    return "\n".join(found[-lines:])


def line_of(entry: Entry) -> str:
    """For a person."""
    at = f"{entry.at % 10_000:9.3f}"
    match entry:
        case Sent():
            return f"{at} {entry.client} > {json.dumps(entry.event)}"
        case Saw():
            event = dict(entry.event)
            if isinstance(event.get("response"), dict):
                keys = ("id", "status", "previous_response_id", "incomplete_details", "error")
                event["response"] = {key: event["response"].get(key) for key in keys}
            return f"{at} {entry.client} < {json.dumps(event)}"
        case Called():
            where = f" at {entry.gateway}" if entry.gateway else ""
            what = f"{entry.method} {entry.path}{where}: {entry.status} {entry.body}"
            return f"{at} {entry.owner} {what}"
        case _:
            return f"{at} {entry}"

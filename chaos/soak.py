"""Mixed traffic for a long time, and what the gateway holds on to: ``scripts/soak [--minutes N]``.

Clients come, misbehave as in ``scripts/fuzz`` and go. When a sixth of the time is over, and again
at its end, they all pause until nothing is under way; what the process holds then must not have
grown by more than a tenth. What is kept for a while on purpose has bounds here that are reached
before the first of these looks.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import random
import secrets
import sys
import tempfile
import time
from pathlib import Path

import httpx
from msgspec import Struct
from tests.support.http import bearer
from tests.support.process import Serve

from chaos.clients import Caller, Talker
from chaos.history import Event
from chaos.rounds import calm, figures
from chaos.workload import MODEL, SCRIPT, TIERS, World, misbehave

__all__ = ["Held", "Soak", "grown", "main"]

_OWNERS = ("alice", "bob", "carol", "dave")
_CLIENTS = 6
_TABLES = {
    "tiers": TIERS,
    "store": {"max_megabytes": 1},
    "limits": {"body_megabytes": 1, "memory_megabytes": 2, "memory_megabytes_per_key": 1},
}
_GROWTH = 1.1
_FEW = 3
"""So many more descriptors or tasks are no growth, however few there were."""
_TASKS = "vivace_asyncio_tasks"
_ENDED = "vivace_turns"
_REMEMBERED = "vivace_memory_bytes"
_PAUSES = (0.1, 3.0)
_TIDY = 35.0
"""Seconds in which the store has given back what was deleted."""


class Held(Struct, frozen=True):
    """What the process holds at one time."""

    resident: int
    descriptors: int
    tasks: int
    database: int


def grown(before: Held, after: Held) -> list[str]:
    """What is larger than it may be."""
    found = []
    for name in Held.__struct_fields__:
        was, now = getattr(before, name), getattr(after, name)
        if now > was * _GROWTH and now > was + _FEW:
            found.append(f"{name} grew from {was:,} to {now:,}, by {now / max(1, was) - 1:.0%}")
    return found


class Soak:
    def __init__(self, server: Serve, seed: int) -> None:
        self._server = server
        self._url = server.url.removesuffix("/v1")
        self._dice = random.Random(seed)
        self._keys = {owner: bearer(owner) for owner in _OWNERS}
        self._world = World()
        self._begun = time.monotonic()

    async def run(self, minutes: float) -> list[str]:
        """What grew; prints a line each minute."""
        print("  minute     turns  resident MB  remembered MB  descriptors  tasks  database MB")
        await self._traffic(minutes / 6)
        before = await self._look_when_calm()
        await self._traffic(minutes * 5 / 6)
        return grown(before, await self._look_when_calm())

    async def _look_when_calm(self) -> Held:
        await calm(self._url, self._keys[_OWNERS[0]])
        await asyncio.sleep(_TIDY)
        return await self._look("calm")

    async def _traffic(self, minutes: float) -> None:
        until = time.monotonic() + minutes * 60
        clients = [
            asyncio.create_task(client(random.Random(self._dice.random()), number, until))
            for number in range(_CLIENTS)
            for client in (self._talk, self._ask)
        ]
        while time.monotonic() < until:
            await asyncio.sleep(min(60.0, max(0.0, until - time.monotonic())))
            await self._look()
        await asyncio.gather(*clients)

    async def _talk(self, dice: random.Random, number: int, until: float) -> None:
        """Connections that come and go, each with a session of random events."""
        turn = 0
        while time.monotonic() < until:
            turn += 1
            owner = dice.choice(_OWNERS)
            name = f"{owner}{number}-{turn}"
            async with Caller(_forget, self._url, owner, self._keys[owner]) as caller:
                joining = Talker.join(_forget, self._url, name, owner, self._keys[owner])
                async with joining as talker:
                    await misbehave(talker, caller, dice, self._world)
                    await asyncio.sleep(dice.uniform(*_PAUSES))

    async def _ask(self, dice: random.Random, number: int, until: float) -> None:
        """Single requests of the older APIs, some of them long, some given up at once."""
        while time.monotonic() < until:
            owner = dice.choice(_OWNERS)
            words = "MEDIUM " + "padding " * dice.choice([1, 100, 5000])
            patience = dice.choice([30, 30, 0.05])
            asks: dict[str, Event] = {
                "chat/completions": {"messages": [{"role": "user", "content": words}]},
                "completions": {"prompt": words},
                "responses": {"input": words, "store": False},
            }
            path, asked = dice.choice(list(asks.items()))
            body = {**asked, "model": MODEL, "stream": dice.random() < 0.5}
            async with httpx.AsyncClient(timeout=patience, headers=self._keys[owner]) as http:
                with contextlib.suppress(httpx.TimeoutException):
                    await http.post(f"{self._url}/v1/{path}", json=body)
            await asyncio.sleep(dice.uniform(*_PAUSES))

    async def _look(self, when: str = "") -> Held:
        async with httpx.AsyncClient(
            base_url=self._url, headers=self._keys[_OWNERS[0]], timeout=30
        ) as http:
            found = await figures(http, frozenset({_TASKS, _ENDED, _REMEMBERED}))
        held = Held(
            self._server.resident,
            self._server.open_files,
            round(found[_TASKS]),
            sum(path.stat().st_size for path in self._server.folder.glob("vivace.db*")),
        )
        print(
            f"{(time.monotonic() - self._begun) / 60:8.1f}{found[_ENDED]:10,.0f}"
            f"{held.resident / 1e6:13.1f}{found[_REMEMBERED] / 1e6:15.1f}"
            f"{held.descriptors:13}{held.tasks:7}"
            f"{held.database / 1e6:13.1f}  {when}",
            flush=True,
        )
        return held


def _forget(_: object) -> None:
    """Nothing is put on record: hours of it would be too much to keep."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(10**6))
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="vivace-soak-"))
    print(f"seed {given.seed}, {given.minutes:g} minutes; the gateway's files are in {folder}")
    engine = {"slots": 12, "reserved": 2}
    with Serve(folder, SCRIPT, rate=1500, engine=engine, owners=_OWNERS, tables=_TABLES) as server:
        wrong = asyncio.run(Soak(server, given.seed).run(given.minutes))
        wrong += server.faults[:20]
    print("\n".join(wrong) if wrong else "nothing grew")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

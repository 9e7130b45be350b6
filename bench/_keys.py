"""Keys that ask two gateways at once: a fleet with limits, and its clients."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from tests.support.http import key
from tests.support.valkey import Valkey

from bench._fleet import ENGINE, Fleet
from bench._socket import Client

NODES = ("a", "b")
FREED = 60.0
"""Seconds within which nothing is left of a turn that is over."""

REQUESTS, CONCURRENCY = 60, 6
TEXT = 400
"""Characters of a prompt: about 100 tokens."""
INPUT, OUTPUT = 100 * REQUESTS, 20 * REQUESTS
_ALL = 10_000
"""A concurrency that nobody reaches, so that each turn is charged all the same."""
TIERS = {
    "requests": {"requests_per_minute": REQUESTS},
    "input": {"input_tokens_per_minute": INPUT},
    "output": {"output_tokens_per_minute": OUTPUT},
    "few": {"concurrency": CONCURRENCY},
    "shared": {"concurrency": _ALL},
}
PAUSE = 0.2
"""Seconds after which one that was refused asks again, whatever it was told."""


def _says(words: int) -> str:
    return f'{{ do = "say", text = " word", times = {words} }}'


def _stalls(seconds: float) -> str:
    return f'{{ do = "stall", seconds = {seconds} }}'


_HELD = 20
"""Seconds that a turn lasts which is held while its gateway is killed; it says a word each."""
_SCRIPT = "".join(
    f'[[replies]]\nwhen = "^{asked}"\nthen = [{", ".join(acts)}]\n'
    for asked, acts in {
        "short": [_says(20)],
        "fair": [_says(40)],
        "few": [_says(10), _stalls(0.3), _says(10)],
        "hold": [_says(1), _stalls(1.0)] * _HELD,
    }.items()
)


def fleet_of(stack: ExitStack, valkey: Valkey, owners: Sequence[str], **engine: object) -> Fleet:
    tiers = [
        {"name": name, "engines": [ENGINE], "limits": limits, "queue": 4096}
        for name, limits in TIERS.items()
    ]
    return Fleet(
        stack,
        NODES,
        _SCRIPT,
        engine=engine,
        tables={"tiers": tiers},
        owners=owners,
        valkey=valkey.url,
    )


@dataclass(frozen=True)
class Passed:
    """A turn that was let pass, by ``time.monotonic``."""

    id: str
    asked: float
    created: float
    ended: float
    usage: Mapping[str, int]


class Asker(Client):
    async def turn(self, tier: str, text: str, **body: Any) -> Passed | str:
        """The code with which it was refused or failed, if it was."""
        asked = time.monotonic()
        await self.send("create", model=tier, input=text, **{"store": False} | body)
        created = asked
        while True:
            event = await self.event()
            match event["type"]:
                case "error":
                    return str(event["error"]["code"])
                case "response.created":
                    created = time.monotonic()
                case "response.completed" | "response.incomplete":
                    response = event["response"]
                    now = time.monotonic()
                    return Passed(response["id"], asked, created, now, response["usage"])
                case "response.failed":
                    return str(event["response"]["error"]["code"])

    async def begin(self, tier: str, text: str) -> str | None:
        """A kept turn's id, once it was told; None if it was refused."""
        await self.send("create", model=tier, input=text, store=True)
        while (event := await self.event())["type"] != "response.created":
            if event["type"] == "error":
                return None
        return str(event["response"]["id"])


async def ask_on(
    port: int, owner: str, turn: Callable[[Asker], Any], seconds: float, here: asyncio.Barrier
) -> list[Passed | str]:
    """One turn after the other, for so long, once all are here."""
    found: list[Passed | str] = []
    async with Asker.at(port, key(owner)) as client:
        await here.wait()
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            found.append(await turn(client))
            if not isinstance(found[-1], Passed):
                await asyncio.sleep(PAUSE)
    return found


def listed(codes: Counter[str]) -> str:
    return ", ".join(f"{code} {count:,}" for code, count in codes.most_common()) or "none"

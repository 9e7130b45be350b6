"""What clients do to each other and to a gateway: a few dozen random things each, all at once.

Every request and every steer has words that nothing else has, so that whoever reads the record can
tell what became of each. ``SCRIPT`` is what the engine plays for them.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any

from chaos.clients import Caller, Talker
from chaos.history import Event

__all__ = ["LIMITS", "MODEL", "NARROW", "SCRIPT", "TIERS", "World", "misbehave"]

MODEL = "local-model"
NARROW = "narrow"
LIMITS = {NARROW: 60}
TIERS = [
    {"name": MODEL, "engines": ["scripted"]},
    {"name": NARROW, "engines": ["scripted"], "limits": {"requests_per_minute": LIMITS[NARROW]}},
]

_REPLIES = {
    "CALL": '{ do = "call", name = "look", text = "{\\"at\\": 1}" }',
    "THINK": '{ do = "think", text = " Hm, well." }, { do = "say", text = " So it is." }',
    "FAIL": '{ do = "say", text = " Begin" }, { do = "fail" }',
    "PAUSE": '{ do = "stall", seconds = 0.7 }, { do = "say", text = " And on." }',
    "LONG": '{ do = "say", text = " word", times = 1500 }',
    "MEDIUM": '{ do = "say", text = " word", times = 200 }',
    "": '{ do = "say", text = " Short." }',
}
SCRIPT = "".join(
    f"[[replies]]\nwhen = '^{word}'\nthen = [{{ do = \"recite\" }}, {acts}]\n"
    for word, acts in _REPLIES.items()
)
_WORDS = ("MEDIUM", "MEDIUM", "LONG", "CALL", "CALL", "THINK", "FAIL", "PAUSE", "SHORT")

_GARBAGE = (
    "{",
    "null",
    "[]",
    '{"type": "x"}',
    '{"type": "response.create", "input": 5}',
    '{"type": "response.steer"}',
    '{"type": "response.interrupt"}',
)
_LANES = (None, None, "a", "b", "c", "d")
_PAUSES = (0, 0, 0, 0.001, 0.005, 0.02, 0.1, 0.3)


class World:
    """What all clients of a round know: the names of responses, by whose they are."""

    def __init__(self) -> None:
        self._ids: dict[str, list[str]] = {}

    def tell(self, owner: str, response_id: str) -> None:
        self._ids.setdefault(owner, []).append(response_id)

    def any_of(self, dice: random.Random, owner: str, *, own: bool) -> str:
        """A recent response of this owner, or of another."""
        names = [
            name
            for whose, ids in self._ids.items()
            if (whose == owner) is own
            for name in ids[-30:]
        ]
        return dice.choice(names) if names else "resp_unknown"


async def misbehave(talker: Talker, caller: Caller, dice: random.Random, world: World) -> None:
    """One client's session: it stays connected at the end unless it vanished."""
    await _Session(talker, caller, dice, world).run()


class _Session:
    def __init__(self, talker: Talker, caller: Caller, dice: random.Random, world: World) -> None:
        self._talker = talker
        self._caller = caller
        self._dice = dice
        self._world = world
        self._stores = dice.random() < 0.75
        self._told = 0
        self._said = 0

    async def run(self) -> None:
        acts: dict[Callable[[], Awaitable[None]], int] = {
            self._create: 42,
            self._answer_calls: 8,
            self._steer: 26,
            self._interrupt: 10,
            self._over_http: 7,
            self._read_along: 2,
            self._in_background: 2,
            self._garbage: 5,
        }
        others: set[asyncio.Task[None]] = set()
        for _ in range(self._dice.randint(5, 50)):
            [act] = self._dice.choices(list(acts), list(acts.values()))
            if act in (self._read_along, self._in_background):
                others.add(asyncio.create_task(_run(act)))
            else:
                await act()
            if self._dice.random() < 0.5:
                await asyncio.sleep(self._dice.choice(_PAUSES))
            self._tell_world()
            if self._dice.random() < 0.005:
                self._talker.vanish()
                break
        if others:
            await asyncio.wait(others)
        self._tell_world()

    def _tell_world(self) -> None:
        for name in self._talker.ids[self._told :]:
            self._world.tell(self._talker.owner, name)
        self._told = len(self._talker.ids)

    # -- things to say ----------------------------------------------------------------------------

    def _words(self) -> str:
        """Words that nobody says again; the first decides what the engine plays."""
        self._said += 1
        return f"{self._dice.choice(_WORDS)} {self._talker.name}.{self._said}"

    def _some_id(self) -> str:
        """Mostly one of its own last, sometimes an older one, another's, or none there is."""
        luck = self._dice.random()
        if luck < 0.8 and self._talker.ids:
            return self._dice.choice(self._talker.ids[-4:])
        if luck < 0.97:
            return self._world.any_of(self._dice, self._talker.owner, own=luck < 0.9)
        return "resp_unknown"

    def _some_running_id(self) -> str:
        """Mostly one that runs, for what can only be done to those."""
        running = list(self._talker.running.values())
        if running and self._dice.random() < 0.5:
            return self._dice.choice(running)
        return self._some_id()

    def _request(self) -> Event:
        words, luck = self._words(), self._dice.random
        body: Event = {"model": MODEL, "input": words, "store": self._stores or luck() < 0.3}
        body["metadata"] = {"tag": f"{self._talker.name}.{self._said}"}
        if luck() < 0.5:
            body["previous_response_id"] = self._some_id()
        if luck() < 0.1:
            body["max_output_tokens"] = self._dice.randint(1, 40)
        if luck() < 0.05:
            body["model"] = self._dice.choice([f"unknown-{words}", NARROW, NARROW])
        if luck() < 0.1:
            body["prompt_cache_key"] = words
        if luck() < 0.05:
            body["input"] = [
                {"type": "function_call_output", "call_id": "call_unknown", "output": words},
                {"type": "message", "role": "user", "content": words},
            ]
        return body

    async def _create(self) -> None:
        body = self._request()
        lane = self._dice.choice(_LANES)
        if lane is not None:
            body["stream_id"] = lane
        if self._dice.random() < 0.08:
            body["generate"] = False
        if self._dice.random() < 0.05:
            body["stream_id"] = "no such lane!"
        if self._dice.random() < 0.08:
            body["background"] = True
        await self._talker.say({"type": "response.create", **body})

    async def _answer_calls(self) -> None:
        """What a steer may be waiting for."""
        if not self._talker.calls:
            return await self._create()
        name, calls = self._dice.choice(list(self._talker.calls.items())[-3:])
        body = self._request()
        body["previous_response_id"] = name
        body["input"] = [
            *(
                {"type": f"{call['type']}_output", "call_id": call["call_id"], "output": "done"}
                for call in calls
            ),
            {"type": "message", "role": "user", "content": self._words()},
        ]
        lane = self._dice.choice(_LANES)
        await self._talker.say(
            {"type": "response.create", **body, **({"stream_id": lane} if lane else {})}
        )
        return None

    async def _steer(self) -> None:
        event: Event = {"type": "response.steer", "previous_response_id": self._some_running_id()}
        event["input"] = self._words()
        if self._dice.random() < 0.4:
            event["when"] = "item_end"
        await self._talker.say(event)

    async def _interrupt(self) -> None:
        await self._talker.say(
            {"type": "response.interrupt", "response_id": self._some_running_id()}
        )

    async def _garbage(self) -> None:
        await self._talker.say(self._dice.choice(_GARBAGE))

    # -- over HTTP --------------------------------------------------------------------------------

    async def _over_http(self) -> None:
        path = f"/v1/responses/{self._some_running_id()}"
        match self._dice.choice(["steer", "interrupt", "cancel", "cancel", "get", "delete"]):
            case "steer":
                await self._caller.call("POST", f"{path}/steer", {"input": self._words()})
            case "get":
                await self._caller.call("GET", path)
            case "delete":
                await self._caller.call("DELETE", path)
            case other:
                await self._caller.call("POST", f"{path}/{other}")

    async def _in_background(self) -> None:
        self._said += 1
        name = f"{self._talker.name}.stream{self._said}"
        body = self._request() | {"store": True, "background": self._dice.random() < 0.7}

        def created(response_id: str) -> None:
            self._world.tell(self._caller.owner, response_id)

        await self._caller.stream(name, body, self._dice.choice([0.05, 0.3, 10]), created)

    async def _read_along(self) -> None:
        self._said += 1
        name = f"{self._talker.name}.replay{self._said}"
        after = self._dice.choice([None, None, 3, 50])
        await self._caller.replay(name, self._some_id(), after, self._dice.choice([0.05, 0.3, 10]))


async def _run(act: Callable[[], Awaitable[Any]]) -> None:
    await act()

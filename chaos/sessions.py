"""Clients that lose their connections and come back, for runs in which something is killed.

Each has one answer under way at a time: some talk on a socket, steer, run tools and vanish to come
back; some ask in the background, hang up, read on from where they were and delete. Whoever was cut
off asks for the rest, and if that cannot be had, what became of it. ``SCRIPT`` is what the engine
plays for them.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
from collections.abc import Callable, Mapping

from websockets.exceptions import WebSocketException

from chaos.clients import Caller, Progress, Talker
from chaos.doors import Doors
from chaos.history import Event, Note
from chaos.lives import ENDED

__all__ = ["MODEL", "NARROW", "SCRIPT", "Background", "Poll", "Session", "Talk"]

MODEL = "local-model"
NARROW = "narrow"
_REPLIES = {
    "TEXT": '{ do = "mark", times = 120 }',
    "LONG": '{ do = "mark", times = 300 }',
    "CALL": '{ do = "mark", times = 40 }, { do = "call", name = "look", text = "{}" }',
    "THINK": '{ do = "think", text = " Hm, well." }, { do = "mark", times = 60 }',
    "": '{ do = "mark", times = 50 }',
}
SCRIPT = "".join(
    f"[[replies]]\nwhen = '^{word}'\nthen = [{{ do = \"recite\" }}, {acts}]\n"
    for word, acts in _REPLIES.items()
)
_WORDS = ("TEXT", "TEXT", "LONG", "CALL", "THINK")
_PATIENCE = 20.0
"""Seconds for which a client tries to find out what became of its answer."""


class Session:
    """What all of them have: a key, words of their own, and a stream that can be cut."""

    def __init__(
        self,
        note: Note,
        url: str | Doors,
        owner: str,
        headers: Mapping[str, str],
        *,
        who: str,
        seed: str,
        keys: bool,
        narrow: float = 0.0,
    ) -> None:
        """With ``keys`` some requests have an idempotency key, and are made again. ``narrow``: how
        many ask for the model that few requests a minute may."""
        self.name = who
        self._note = note
        self._url = url
        self._owner = owner
        self._headers = headers
        self._who = who
        self._dice = random.Random(seed)
        self._keys = keys
        self._narrow = narrow
        self._back = 1
        """On how many connections it comes back."""
        self._numbers = itertools.count(1)

    @property
    def busy(self) -> bool:
        return False

    @property
    def reads(self) -> str | None:
        """The answer that it has under way on a stream."""
        return None

    def cut(self, back: int = 1) -> None:
        self._back = back

    async def run(self, stop: asyncio.Event) -> None:
        """Turn after turn, until told to stop; then the last is brought to its end."""
        async with Caller(self._note, self._url, self._owner, self._headers) as caller:
            while not stop.is_set():
                await self._turns(caller, stop)
                await asyncio.sleep(0.1)

    async def _turns(self, caller: Caller, stop: asyncio.Event) -> None:
        raise NotImplementedError

    def _stream(self) -> str:
        self.name = f"{self._who}.{next(self._numbers)}"
        return self.name

    def _request(self) -> Event:
        words = f"{self._dice.choice(_WORDS)} {self._who}.{next(self._numbers)}"
        tag = words.partition(" ")[2]
        model = NARROW if self._dice.random() < self._narrow else MODEL
        body: Event = {"model": model, "input": words, "metadata": {"tag": tag}}
        if self._keys and self._dice.random() < 0.4:
            body["idempotency_key"] = f"key-{tag}"
        return body

    async def _ask_until_it_ended(self, caller: Caller, name: str) -> None:
        loop = asyncio.get_running_loop()
        until = loop.time() + _PATIENCE
        while loop.time() < until:
            call = await caller.call("GET", f"/v1/responses/{name}")
            if call.status == 404 or (call.status == 200 and call.answer["status"] in ENDED):
                return
            await asyncio.sleep(0.2)


class Talk(Session):
    """On a socket."""

    _talker: Talker | None = None
    _unanswered: Event | None = None

    @property
    def busy(self) -> bool:
        talker = self._talker
        return talker is not None and bool(talker.running) and not talker.closed

    @property
    def reads(self) -> str | None:
        return next(iter(self._talker.running.values()), None) if self._talker else None

    def cut(self, back: int = 1) -> None:
        super().cut(back)
        if self._talker is not None:
            self._talker.vanish()

    async def _turns(self, caller: Caller, stop: asyncio.Event) -> None:
        lost: dict[str, int] = {}
        with contextlib.suppress(OSError, WebSocketException):
            async with self._joined() as talker:
                while not (stop.is_set() or talker.closed or talker.moved):
                    await self._turn(talker)
                lost = {name: talker.numbers[name] for name in talker.running.values()}
                lost |= talker.moved
        for name, after in lost.items():
            back, self._back = self._back, 1
            await asyncio.gather(*(self._resume(name, after) for _ in range(back)))
            await self._ask_until_it_ended(caller, name)

    def _joined(self) -> contextlib.AbstractAsyncContextManager[Talker]:
        name = self._stream()
        return Talker.join(self._note, self._url, name, self._owner, self._headers)

    async def _turn(self, talker: Talker) -> None:
        self._talker = talker
        body = self._unanswered or self._next(talker)
        self._unanswered = None
        await talker.say({"type": "response.create", **body})
        await _until(lambda: talker.idle or bool(talker.running))
        luck = self._dice.random()
        if luck < 0.55:
            await asyncio.sleep(self._dice.uniform(0, 0.5))
        if luck < 0.4:
            for name in list(talker.running.values())[:1]:
                await talker.say(self._steer(name))
        elif luck < 0.55 and talker.running:
            self.cut()
        await _until(lambda: talker.idle or bool(talker.moved))
        if body["metadata"]["tag"] not in talker.tags and "idempotency_key" in body:
            self._unanswered = body  # it may be running all the same: ask again

    def _next(self, talker: Talker) -> Event:
        body = self._request()
        if "idempotency_key" not in body and self._dice.random() < 0.15:
            body["store"] = False
        if self._dice.random() < 0.6:
            body["on_disconnect"] = "wait"
        if talker.calls:
            name, calls = talker.calls.popitem()
            outputs: list[Event] = [
                {"type": "function_call_output", "call_id": call["call_id"], "output": "done"}
                for call in calls
            ]
            message = {"type": "message", "role": "user", "content": body["input"]}
            body |= {"previous_response_id": name, "input": [*outputs, message]}
        elif talker.ids and self._dice.random() < 0.4:
            body["previous_response_id"] = talker.ids[-1]
        return body

    def _steer(self, name: str) -> Event:
        words = f"TEXT steer {self._who}.{next(self._numbers)}"
        return {"type": "response.steer", "previous_response_id": name, "input": words}

    async def _resume(self, name: str, after: int) -> None:
        """The rest of what was under way, as far as it can be had."""
        loop = asyncio.get_running_loop()
        until = loop.time() + _PATIENCE
        while loop.time() < until:
            with contextlib.suppress(OSError, WebSocketException):
                async with self._joined() as talker:
                    self._talker = talker
                    await talker.resume(name, after)
                    await _until(lambda: talker.closed or not talker.running)
                    after = talker.numbers[name]
                    if not talker.closed:
                        break
            await asyncio.sleep(0.1)


class Background(Session):
    """Over HTTP, for answers that go on without a reader."""

    _caller: Caller | None = None
    _reads: str | None = None
    """What it has seen begin, and not end."""

    @property
    def busy(self) -> bool:
        return bool(self._reads and self._caller is not None and self._caller.reads(self.name))

    @property
    def reads(self) -> str | None:
        return self._reads

    def cut(self, back: int = 1) -> None:
        super().cut(back)
        if self._caller is not None:
            self._caller.cut(self.name)

    async def _turns(self, caller: Caller, stop: asyncio.Event) -> None:
        self._caller = caller
        body = self._request() | {"background": True}
        ids: list[str] = []

        def created(name: str) -> None:
            self._reads = name
            ids.append(name)

        seen = await caller.stream(self._stream(), body, self._hold(), created)
        loop = asyncio.get_running_loop()
        until = loop.time() + _PATIENCE
        while ids and not (seen.ended or seen.refused) and loop.time() < until:
            await asyncio.sleep(self._dice.choice([0, 0, 0.1, 0.5]))
            seen = await self._read_on(caller, seen, body)
        self._reads = None
        if ids:
            await self._ask_until_it_ended(caller, ids[-1])
            if self._dice.random() < 0.3:
                await caller.call("DELETE", f"/v1/responses/{ids[-1]}")

    def _hold(self) -> float:
        """How long it reads before it hangs up."""
        return self._dice.choice([0.2, 0.5, 1, _PATIENCE])

    async def _read_on(self, caller: Caller, seen: Progress, body: Event) -> Progress:
        assert seen.id is not None
        if body.get("idempotency_key") and self._dice.random() < 0.5:
            again = await caller.stream(self._stream(), body, self._hold(), lambda _: None)
            return again if again.id is not None else seen
        if self._dice.random() < 0.15:
            words = f"TEXT steer {self._who}.{next(self._numbers)}"
            await caller.call("POST", f"/v1/responses/{seen.id}/steer", {"input": words})
        back, self._back = self._back, 1
        readers = (
            caller.replay(self._stream(), seen.id, seen.last, self._hold()) for _ in range(back)
        )
        *_, more = await asyncio.gather(*readers)
        return more if more.last >= 0 or more.refused else seen


class Poll(Session):
    """Over HTTP, without a stream: it asks again and again."""

    _waits = False

    @property
    def busy(self) -> bool:
        return self._waits

    async def _turns(self, caller: Caller, stop: asyncio.Event) -> None:
        body = self._request() | {"background": True}
        call = await caller.call("POST", "/v1/responses", body)
        tries = 5 if "idempotency_key" in body else 0
        while tries and (call.status is None or call.status >= 500):
            await asyncio.sleep(0.1)
            call, tries = await caller.call("POST", "/v1/responses", body), tries - 1
        if call.status != 200:
            return
        name = call.answer["id"]
        self._waits = True
        await self._ask_until_it_ended(caller, name)
        self._waits = False
        if self._dice.random() < 0.3:
            await caller.call("DELETE", f"/v1/responses/{name}")


async def _until(condition: Callable[[], bool], seconds: float = 30) -> None:
    loop = asyncio.get_running_loop()
    until = loop.time() + seconds
    while not condition() and loop.time() < until:
        await asyncio.sleep(0.01)

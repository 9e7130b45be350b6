"""Clients of simulated gateways: what they do is decided by their dice, and all of it is noted.

As in ``chaos.sessions`` each has one answer under way at a time, and whoever is cut off comes back
for the rest of it, to any gateway that listens.
"""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Sequence
from contextlib import suppress

import msgspec

from chaos.history import Called, Event, Joined, Left, Note, Saw
from chaos.lives import ENDED, TERMINAL
from chaos.simulation.gateway import Machine
from chaos.simulation.wires import Wire, events_of
from vivace.protocol.requests import CreateBody

__all__ = ["ANSWER", "HAS_KEYS", "PATIENCE", "Background", "Client", "code_of"]

HAS_KEYS = "idempotency_key" in CreateBody.__struct_fields__
_decoder, _encoder = msgspec.json.Decoder(), msgspec.json.Encoder()
_WORDS = ("TEXT", "TEXT", "LONG", "CALL", "THINK")
PATIENCE = 12.0
"""Seconds for which a client tries to find out what became of its answer."""
ANSWER = 3.0
"""Seconds that a client waits for an answer, or for the next event, before it asks again."""


class Client:
    def __init__(
        self,
        note: Note,
        machines: Sequence[Machine],
        owner: str,
        who: str,
        dice: random.Random,
    ) -> None:
        self.who = who
        self.owner = owner
        self._note = note
        self._machines = machines
        self._dice = dice
        self._clock = asyncio.get_running_loop().time
        self._numbers = itertools.count(1)
        self._ended: list[Event] = []
        """Responses that it may continue, as they ended."""

    async def run(self, turns: int) -> None:
        for _ in range(turns):
            await asyncio.sleep(self._dice.uniform(0, 0.5))
            await self.turn()

    async def turn(self) -> None:
        raise NotImplementedError

    # -- what it says -----------------------------------------------------------------------------

    def _words(self, kind: str) -> str:
        return f"{kind} {self.who}.{next(self._numbers)}"

    def _request(self) -> Event:
        words = self._words(self._dice.choice(_WORDS))
        tag = words.partition(" ")[2]
        body: Event = {"model": "local-model", "input": words, "metadata": {"tag": tag}}
        if HAS_KEYS and self._dice.random() < 0.4:
            body["idempotency_key"] = f"key-{tag}"
        if self._ended and self._dice.random() < 0.4:
            body |= _continuing(self._ended[-1], words)
        return body

    # -- HTTP -------------------------------------------------------------------------------------

    def _connected(self, at: Machine | None = None) -> tuple[Machine, Wire] | None:
        """To any of them, as a balancer has it, or to this one."""
        machine = at or self._dice.choice(self._machines)
        wire = machine.connect()
        return (machine, wire) if wire is not None else None

    async def call(
        self,
        method: str,
        path: str,
        body: Event | None = None,
        *,
        owner: str | None = None,
        at: Machine | None = None,
    ) -> Called:
        begin, owner = self._clock(), owner or self.owner
        status, data = None, b""
        found = self._connected(at)
        if found is None:
            await asyncio.sleep(0.05)
        else:
            machine, wire = found
            machine.ask(wire, owner, method, path, _encoded(body))
            status, data = await self._answer(wire)
        end = None if status is None else self._clock()
        answer = _decoder.decode(data) if data and status is not None else None
        where = machine.name if found is not None else ""
        called = Called(begin, end, owner, method, path, body, status, answer, where)
        self._note(called)
        return called

    async def _answer(self, wire: Wire) -> tuple[int | None, bytes]:
        """The status is None if it did not come whole."""
        status, data = None, b""
        try:
            while (message := await wire.hear(ANSWER)) is not None:
                if message["type"] == "http.response.start":
                    status = message["status"]
                else:
                    data += message["body"]
                    if not message.get("more_body"):
                        return status, data
        except TimeoutError:
            wire.cut()
        return None, b""

    async def until_it_ended(self, name: str) -> None:
        until = self._clock() + PATIENCE
        while self._clock() < until:
            call = await self.call("GET", f"/v1/responses/{name}")
            if call.status == 200 and call.answer["status"] in ENDED:
                self._ended.append(call.answer)
                return
            await asyncio.sleep(self._dice.uniform(0.2, 1))

    async def meddle(self, name: str) -> None:
        """What others do to an answer that is under way."""
        chance = self._dice.random()
        if chance < 0.05:
            await self.call("POST", f"/v1/responses/{name}/cancel")
        elif chance < 0.08:
            await self.call("POST", f"/v1/responses/{name}/interrupt")
        elif chance < 0.15:
            stranger = "bob" if self.owner == "alice" else "alice"
            await self.call("GET", f"/v1/responses/{name}", owner=stranger)
        elif chance < 0.2:
            await self.call("GET", f"/v1/responses/{name}")

    # -- streams ----------------------------------------------------------------------------------

    def _joined(self, replays: str | None = None, after: int | None = None) -> str:
        name = f"{self.who}.s{next(self._numbers)}"
        self._note(Joined(self._clock(), name, self.owner, replays, after))
        return name

    def _saw(self, stream: str, event: Event) -> None:
        self._note(Saw(self._clock(), stream, event))


class Background(Client):
    """Over HTTP, for answers that go on without a reader."""

    async def turn(self) -> None:
        body = self._request() | {"background": True}
        made = await self.call("POST", "/v1/responses", body)
        if made.status is None and "idempotency_key" in body:
            made = await self.call("POST", "/v1/responses", body)
        if made.status != 200:
            return
        name, last = made.answer["id"], None
        until = self._clock() + PATIENCE
        while self._clock() < until:
            await asyncio.sleep(self._dice.choice([0, 0.1, 0.4]))
            last, ended = await self._read(name, last)
            if ended:
                break
            if self._dice.random() < 0.2:
                words = self._words("TEXT steer")
                await self.call("POST", f"/v1/responses/{name}/steer", {"input": words})
            else:
                await self.meddle(name)
        await self.until_it_ended(name)
        if self._dice.random() < 0.05:
            await self.call("DELETE", f"/v1/responses/{name}")
            self._ended = []

    async def _read(self, name: str, after: int | None) -> tuple[int | None, bool]:
        """As far as it comes, or as long as it wants to: the last number, and whether it ended."""
        found = self._connected()
        if found is None:
            await asyncio.sleep(0.1)
            return after, False
        machine, wire = found
        stream = self._joined(name, after)
        path = f"/v1/responses/{name}?stream=true"
        path += f"&starting_after={after}" if after is not None else ""
        machine.ask(wire, self.owner, "GET", path, b"")
        ended, how = False, "vanished"
        until = self._clock() + self._dice.choice([0.1, 0.5, ANSWER, ANSWER])
        with suppress(TimeoutError):
            while (message := await wire.hear(until - self._clock())) is not None:
                if message["type"] == "http.response.start":
                    if message["status"] != 200:
                        break
                    continue
                for event in events_of(message):
                    self._saw(stream, event)
                    after = event.get("sequence_number", after)
                    ended = ended or event["type"] in TERMINAL
                if not message.get("more_body"):
                    how = "left"
                    break
        if not wire.closed:
            wire.cut()
        self._note(Left(self._clock(), stream, how))  # type: ignore[arg-type]
        return after, ended


def _continuing(before: Event, words: str) -> Event:
    """What says these words behind a response, with the outputs of the calls that it ended with."""
    outputs: list[Event] = [
        {"type": "function_call_output", "call_id": item["call_id"], "output": "done"}
        for item in before["output"]
        if item["type"] == "function_call"
    ]
    message = {"type": "message", "role": "user", "content": words}
    return {"previous_response_id": before["id"], "input": [*outputs, message]}


def _encoded(body: Event | None) -> bytes:
    return b"" if body is None else _encoder.encode(body)


def code_of(event: Event) -> str | None:
    error = event.get("error")
    return error.get("code") if isinstance(error, dict) else None

"""A client on a socket: it asks, steers, is cut off, and comes back for the rest."""

from __future__ import annotations

import asyncio

import msgspec

from chaos.history import Event, Left, Sent
from chaos.lives import TERMINAL
from chaos.simulation.clients import ANSWER, PATIENCE, Client, code_of
from chaos.simulation.wires import Wire

__all__ = ["Talker"]

_decoder, _encoder = msgspec.json.Decoder(), msgspec.json.Encoder()


class Talker(Client):
    _stream = ""
    _wire: Wire | None = None
    _running: str | None = None
    """Of which it has seen some, and not the end."""
    _stored = True
    _last = -1
    """The newest number that it saw of that."""
    _tag: str | None = None
    """Of the request whose answer has begun."""
    _owed = 0
    """Things it said that were not answered yet."""
    _resuming = False
    _steers = _cuts = False
    """What it has in mind to do while it reads."""

    async def run(self, turns: int) -> None:
        await super().run(turns)
        while not self._away and await self._hear(0.5):
            pass  # what comes behind the end of an answer
        if self._wire is not None and not self._away:
            self._note(Left(self._clock(), self._stream))
            self._wire.leave()

    async def turn(self) -> None:
        if not await self._join():
            return
        body = self._request()
        chance = self._dice.random()
        if chance < 0.1 and "idempotency_key" not in body:
            body["store"] = False
        elif chance < 0.5:
            body["on_disconnect"] = "wait"
        self._begin_anew()
        await self._ask(body)
        if self._tag is None and "idempotency_key" in body and await self._join():
            await self._ask(body)  # the first may run all the same
        await self._come_back()

    async def _ask(self, body: Event) -> None:
        self._say({"type": "response.create", **body})
        while not self._idle:
            await self._read_on()

    def _begin_anew(self) -> None:
        self._running, self._last, self._tag = None, -1, None
        self._steers, self._cuts = self._dice.random() < 0.4, self._dice.random() < 0.25

    async def _read_on(self) -> None:
        """Until the next event, or until it has waited long enough to do something itself."""
        name = self._running
        busy = name is not None and (self._steers or self._cuts)
        if await self._hear(self._dice.uniform(0, 0.4) if busy else ANSWER) or self._away:
            return
        if name is not None and self._steers:
            self._steers = False
            self._say(self._order(name))
        elif (name is not None and self._cuts) or self._dice.random() < 0.5:
            self._vanish()
        elif name is not None:
            await self.meddle(name)

    def _order(self, name: str) -> Event:
        if self._dice.random() < 0.15:
            return {"type": "response.interrupt", "response_id": name}
        words = self._words("TEXT steer")
        return {"type": "response.steer", "previous_response_id": name, "input": words}

    async def _come_back(self) -> None:
        """For the rest of what was under way, as far as it can be had."""
        name, until = self._running, self._clock() + PATIENCE
        if name is None:
            return
        while self._running is not None and self._clock() < until:
            await asyncio.sleep(self._dice.choice([0, 0.1, 0.5, 3.6]))
            if self._dice.random() < 0.2 or not await self._join():
                break
            await self._resume(self._running)
        self._running = None
        if self._stored:
            await self.until_it_ended(name)

    async def _resume(self, name: str) -> None:
        self._resuming = True
        asked = {"type": "response.resume", "response_id": name, "starting_after": self._last}
        self._say(asked)
        while self._running is not None and not self._away:
            if not await self._hear(ANSWER) and not self._away:
                self._vanish()

    # -- the socket -------------------------------------------------------------------------------

    @property
    def _away(self) -> bool:
        return self._wire is None or self._wire.closed

    @property
    def _idle(self) -> bool:
        return self._away or (self._owed <= 0 and self._running is None)

    async def _join(self) -> bool:
        for _ in range(20):
            if not self._away:
                return True
            found = self._connected()
            if found is None:
                await asyncio.sleep(0.2)
                continue
            machine, self._wire = found
            self._owed = 0
            self._stream = self._joined()
            machine.open_socket(self._wire, self.owner)
        return False

    def _say(self, event: Event) -> None:
        assert self._wire is not None
        self._owed += 1
        self._note(Sent(self._clock(), self._stream, event))
        self._wire.say({"type": "websocket.receive", "text": _encoder.encode(event).decode()})

    def _vanish(self) -> None:
        assert self._wire is not None
        self._note(Left(self._clock(), self._stream, "vanished"))
        self._wire.cut()

    async def _hear(self, seconds: float) -> bool:
        """Whether something came."""
        assert self._wire is not None
        try:
            message = await self._wire.hear(seconds)
        except TimeoutError:
            return False
        if message is None or message["type"] == "websocket.close":
            self._wire.closed = True
            self._note(Left(self._clock(), self._stream, "closed"))
            return False
        if message["type"] == "websocket.send":
            self._see(_decoder.decode(message["text"]))
        return True

    def _see(self, event: Event) -> None:
        self._saw(self._stream, event)
        kind: str = event["type"]
        if "sequence_number" in event and not kind.startswith("response.steer."):
            self._last, self._resuming = event["sequence_number"], False
        if kind == "response.created":
            self._begin(event["response"])
        elif kind in TERMINAL:
            if event["response"]["status"] != "failed":
                self._ended.append(event["response"])
            self._running = None
        elif kind == "error" or kind.endswith(".accepted"):
            self._owed -= 1
            if kind == "error" and (self._resuming or code_of(event) == "resumed_elsewhere"):
                self._running, self._resuming = None, False
        elif kind == "response.steer.failed":
            self._owed -= "id" not in event["steer"]

    def _begin(self, response: Event) -> None:
        tag = response["metadata"]["tag"]
        if tag != self._tag and response["id"] != self._running:  # else it succeeds a steered one
            self._owed -= 1
        self._running, self._tag, self._stored = response["id"], tag, response["store"]

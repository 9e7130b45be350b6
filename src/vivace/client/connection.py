"""One connection to a gateway, for programs that want a turn's events and its figures.

Needs only a Responses endpoint, Vivace's or any other: a WebSocket where there is one, else HTTP.
Where there is none, Chat Completions will do.
"""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from msgspec import Struct
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed

from vivace.client.dialling import NoWebSocket, api_address, comes_back, dial, why_closed
from vivace.client.endpoint import Endpoint
from vivace.client.errors import ClientError, half_a_character
from vivace.client.events import Failure, Response, ServerEvent, Steered, decode_event
from vivace.client.http import HttpWire
from vivace.client.resuming import Broken, ResumingWire, Wire

__all__ = ["ClientError", "Connection", "Figures", "open_connection"]

_DISPENSABLE = ("idempotency_key", "on_disconnect", "prediction", "seed", "temperature")
"""Fields that another endpoint may not know and that an answer can do without."""

_LONGEST_ANSWER = 16_000_000
"""Characters; no model writes so much, so whoever sends it does not mean to end."""

Event = dict[str, Any]


class _WebSocketWire:
    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket

    async def send(self, event: Event) -> None:
        try:
            await self._socket.send(msgspec.json.encode(event).decode())
        except UnicodeEncodeError:
            raise half_a_character() from None
        except ConnectionClosed:
            raise Broken("The server closed the connection; try again.") from None

    async def next(self) -> ServerEvent:
        try:
            event = decode_event(await self._socket.recv())
        except ConnectionClosed as closed:
            kind = Broken if comes_back(closed) else ClientError
            raise kind(why_closed(closed)) from None
        if event is None:
            raise ClientError("The server sent something that is no event of the Responses API.")
        return event

    async def close(self) -> None:
        await self._socket.close()


class Figures(Struct):
    """How fast a turn was, as its reader saw it."""

    started: float
    first: float | None = None
    last: float | None = None
    tokens: int = 0
    drafted: int = 0
    """Of the tokens, those that were drafted rather than written one by one."""

    @property
    def first_token(self) -> float | None:
        """Seconds from the request to the first text."""
        return None if self.first is None else self.first - self.started

    @property
    def tokens_per_second(self) -> float | None:
        """While it was writing; the wait for the first token is not in it."""
        if self.first is None or self.last is None or self.tokens < 2 or self.last == self.first:
            return None
        return (self.tokens - 1) / (self.last - self.first)


class _Steers:
    """What was said in the middle of an answer and has not come to its end yet."""

    def __init__(self) -> None:
        self.unanswered = 0
        self.accepted = 0
        self.late: list[Any] = []
        """Inputs that came when the answer was over."""

    @property
    def settled(self) -> bool:
        return not self.unanswered and not self.accepted

    def note(self, event: ServerEvent) -> None:
        match event.type:
            case "response.steer.accepted" | "response.steer.failed" if event.steer.ends_thinking:
                self.unanswered -= 1
            case "response.steer.accepted":
                self.unanswered -= 1
                self.accepted += 1
            case "response.steer.pending":
                self.accepted -= 1
            case "response.steer.failed":
                self._failed(event.steer, event.failure)

    def _failed(self, steer: Steered, why: Failure) -> None:
        if steer.id is not None:
            self.accepted -= 1
        else:
            self.unanswered -= 1
        if why.code == "response_already_completed":
            self.late.append(steer.input)
        elif why.code != "response_not_active":  # we have interrupted it ourselves
            raise why.told()


class _Interrupts:
    """Each one we send has one answer, of which none may be left for the next turn."""

    def __init__(self) -> None:
        self.wanted = False
        self.unanswered = 0

    @property
    def settled(self) -> bool:
        return not self.unanswered

    def note(self, event: ServerEvent) -> None:
        if event.type == "response.interrupt.accepted":
            self.unanswered -= 1

    def refused(self) -> bool:
        """Whether an error is the answer to an interrupt."""
        was = self.unanswered > 0
        self.unanswered -= was
        return was


class Connection:
    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self.figures = Figures(time.perf_counter())
        self.response: Response | None = None
        """The newest state of the running turn's response."""
        self.redirects = 0
        """How often the running turn has taken another direction."""
        self.thinking = False
        """Whether the running turn thinks, and has not begun to answer."""
        self.on_thinking: Callable[[], object] = _nothing
        """Called when it begins to."""
        self.on_refusal: Callable[[str], object] = _nothing
        """Called with the reason when its thinking cannot be ended."""
        self.waits = False
        """Whether a server that can is to go on when the connection breaks, until it is back. What
        is to be kept has a key then, so that it may be sent again."""
        if isinstance(wire, ResumingWire):
            wire.on_back = self._note_back
        self.on_back: Callable[[], object] = _nothing
        """Called when the connection was lost in the middle of an answer, and is back."""
        self._steers = _Steers()
        self._interrupts = _Interrupts()
        self._unknown: set[str] = set()
        """Fields that the server has refused."""

    async def turn(self, **body: Any) -> AsyncGenerator[str, None]:
        """Ask, and yield the answer's text as it comes. Figures and response fill on the way.

        Meanwhile ``steer`` and ``interrupt`` may be called; what follows a steer is yielded too.
        """
        self.figures = Figures(time.perf_counter())
        self.response = None
        self.redirects = 0
        self.thinking = False
        self._steers = steers = _Steers()
        self._interrupts = interrupts = _Interrupts()
        await self._create(body)
        ended = False
        room = _LONGEST_ANSWER
        while not (ended and steers.settled and interrupts.settled):
            event = await self._next(body)
            self.response = event.response or self.response
            self._note_thinking(event)
            if text := event.text:
                room -= len(text)
                if room < 0:
                    raise ClientError("The server's answer does not end; it was broken off.")
                self._clock()
                yield text
            elif event.type == "response.created":
                if ended:
                    self._redirected()
                ended = False
                await self._interrupt_if_asked()
            elif event.ends:
                ended = True
            else:
                steers.note(event)
                interrupts.note(event)
            if ended and steers.late and steers.settled:
                await self._say_late(body)
        self._finish()

    def _note_thinking(self, event: ServerEvent) -> None:
        if event.thinks and not self.thinking:
            self.thinking = True
            self.on_thinking()
        elif event.text or event.ends:
            self.thinking = False
        elif event.type == "response.steer.failed" and event.steer.ends_thinking and self.thinking:
            self.on_refusal(event.failure.message)

    def _note_back(self) -> None:
        self.on_back()

    def steer(self, text: str) -> Coroutine[Any, Any, None]:
        """Say this in the middle of the answer; it takes the new direction at once.

        Counts from the call on, not from the sending: an answer that ends in between goes on.
        """
        self._steers.unanswered += 1
        return self._wire.send(
            {"type": "response.steer", "previous_response_id": self._id(), "input": text}
        )

    def end_thinking(self) -> Coroutine[Any, Any, None]:
        """Have the answer begin now; whoever does not think goes on as before."""
        self._steers.unanswered += 1
        event = {"type": "response.steer", "previous_response_id": self._id()}
        return self._wire.send(event | {"when": "end_thinking"})

    async def interrupt(self) -> None:
        """Stop the answer, at its first sign if there was none yet."""
        self._interrupts.wanted = True
        await self._interrupt_if_asked()

    async def _interrupt_if_asked(self) -> None:
        if self._interrupts.wanted and self._id():
            self._interrupts.wanted = False
            self._interrupts.unanswered += 1
            await self._wire.send({"type": "response.interrupt", "response_id": self._id()})

    def _id(self) -> str:
        return self.response.id if self.response else ""

    def _clock(self) -> None:
        now = time.perf_counter()
        self.figures.first = self.figures.first or now
        self.figures.last = now

    def _redirected(self) -> None:
        self._steers.accepted = 0
        self.redirects += 1
        self.figures.first = None

    async def _create(self, body: Event) -> None:
        known = {name: each for name, each in body.items() if name not in self._unknown}
        known |= {name: each for name, each in self._own(body).items() if name not in self._unknown}
        await self._wire.send({"type": "response.create", **known})

    def _own(self, body: Event) -> Event:
        """What we say beside it, so that we may come back to it, or say it again."""
        if not self.waits:
            return {}
        kept = body.get("store") is not False
        return {"on_disconnect": "wait"} | ({"idempotency_key": uuid.uuid4().hex} if kept else {})

    async def _say_late(self, body: Event) -> None:
        """The answer was over when our words arrived: they are the next thing to say."""
        said = [{"role": "user", "content": text} for text in self._steers.late]
        self._steers.late = []
        self._steers.accepted = 1
        await self._create(body | {"input": said, "previous_response_id": self._id()})

    def _finish(self) -> None:
        if self.response is not None:
            self.figures.tokens = self.response.output_tokens
            self.figures.drafted = self.response.drafted_tokens
            if self.response.error is not None:
                raise self.response.error.told()

    async def _next(self, body: Event) -> ServerEvent:
        """The next event of the turn; a request that is refused for a field of ours goes again."""
        while True:
            try:
                event = await self._wire.next()
                if event.type != "error":
                    return event
                raise event.failure.told()
            except ClientError as refused:
                if self._interrupts.refused():
                    return ServerEvent(type="response.interrupt.failed")  # it had ended by itself
                if self.response is not None or not self._can_do_without(refused, body):
                    raise
            await self._create(body)

    def _can_do_without(self, refused: ClientError, body: Event) -> bool:
        """Whether a field that only some endpoints know is to blame; it is not sent again."""
        given = {*body, *self._own(body)}
        sent = [name for name in _DISPENSABLE if name in given and name not in self._unknown]
        said = re.findall(r"\w+", f"{refused.param} {refused}")
        named = [name for name in sent if name in said]
        if not named and refused.code == "unknown_parameter":
            named = sent
        self._unknown.update(named)
        return bool(named)


def _nothing(*_: object) -> None:
    pass


@asynccontextmanager
async def open_connection(url: str, key: str | None = None) -> AsyncIterator[Connection]:
    """Connect to the gateway at ``url`` (ending in ``/v1``). Leaving stops a running turn."""
    wire = await _dial(url, key)
    try:
        yield Connection(wire)
    finally:
        await wire.close()


async def _dial(url: str, key: str | None) -> Wire:
    async def again() -> Wire:
        return _WebSocketWire(await dial(url, key))

    try:
        return ResumingWire(await again(), again)
    except NoWebSocket:
        return HttpWire(Endpoint(url, api_address(url), key))

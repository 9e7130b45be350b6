"""One connection to a gateway, for programs that want a turn's events and its figures.

Needs only a Responses endpoint, Vivace's or any other: a WebSocket where there is one, else HTTP.
"""

from __future__ import annotations

import re
import time
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any, Protocol
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus

from vivace.addresses import is_loopback
from vivace.client.errors import ClientError
from vivace.client.events import Failure, Response, ServerEvent, Steered, decode_event
from vivace.client.http import http_wire
from vivace.protocol.sse import LONGEST_LINE

__all__ = ["ClientError", "Connection", "Figures", "open_connection"]

_TERMINAL = frozenset({"response.completed", "response.incomplete", "response.failed"})

_DISPENSABLE = ("prediction", "seed", "temperature")
"""Fields that another endpoint may not know and that an answer can do without."""

_NO_WEBSOCKET = frozenset({200, 400, 404, 405, 426, 501})
"""What servers answer to an upgrade that they do not know."""

_GOODBYE_S = 2
_LONGEST_ANSWER = 16_000_000
"""Characters; no model writes so much, so whoever sends it does not mean to end."""

Event = dict[str, Any]


class _Wire(Protocol):
    async def send(self, event: Event) -> None: ...

    async def next(self) -> ServerEvent: ...

    async def close(self) -> None: ...


class _WebSocketWire:
    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket

    async def send(self, event: Event) -> None:
        try:
            await self._socket.send(msgspec.json.encode(event).decode())
        except ConnectionClosed:
            raise ClientError("The server closed the connection; try again.") from None

    async def next(self) -> ServerEvent:
        try:
            event = decode_event(await self._socket.recv())
        except ConnectionClosed as closed:
            raise ClientError(_why(closed)) from None
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
    def __init__(self, wire: _Wire) -> None:
        self._wire = wire
        self.figures = Figures(time.perf_counter())
        self.response: Response | None = None
        """The newest state of the running turn's response."""
        self.redirects = 0
        """How often the running turn has taken another direction."""
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
        self._steers = steers = _Steers()
        self._interrupts = interrupts = _Interrupts()
        await self._create(body)
        ended = False
        room = _LONGEST_ANSWER
        while not (ended and steers.settled and interrupts.settled):
            event = await self._next(body)
            self.response = event.response or self.response
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
            elif event.type in _TERMINAL:
                ended = True
            else:
                steers.note(event)
                interrupts.note(event)
            if ended and steers.late and steers.settled:
                await self._say_late(body)
        self._finish()

    def steer(self, text: str) -> Coroutine[Any, Any, None]:
        """Say this in the middle of the answer; it takes the new direction at once.

        Counts from the call on, not from the sending: an answer that ends in between goes on.
        """
        self._steers.unanswered += 1
        return self._wire.send(
            {"type": "response.steer", "previous_response_id": self._id(), "input": text}
        )

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
        await self._wire.send({"type": "response.create", **known})

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
        sent = [name for name in _DISPENSABLE if name in body and name not in self._unknown]
        said = re.findall(r"\w+", f"{refused.param} {refused}")
        named = [name for name in sent if name in said]
        if not named and refused.code == "unknown_parameter":
            named = sent
        self._unknown.update(named)
        return bool(named)


def _address(url: str) -> str:
    """Where the WebSocket is; an address without its /v1 is understood too."""
    parts = urlsplit(url)
    try:
        sound = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:  # the port is no number
        sound = False
    if not sound:
        raise ClientError(f"{url!r} is no address of a server; one looks like http://HOST:PORT/v1.")
    path = parts.path.rstrip("/") or "/v1"
    return f"{parts.scheme.replace('http', 'ws')}://{parts.netloc}{path}/responses"


def _why(closed: ConnectionClosed) -> str:
    if closed.sent is not None and not closed.rcvd_then_sent:
        code = closed.sent.code
        return f"The server sent what no client takes (close code {code}); ask who runs it."
    reason = closed.rcvd.reason if closed.rcvd else ""
    return f"The server closed the connection. {reason}".strip()


def _refusal(url: str, status: int) -> str:
    if status == 401:
        return f"The server at {url} wants a key (401); give it with --key or in VIVACE_KEY."
    return f"The server at {url} refused the connection with status {status}; ask who runs it."


@asynccontextmanager
async def open_connection(url: str, key: str | None = None) -> AsyncIterator[Connection]:
    """Connect to the gateway at ``url`` (ending in ``/v1``). Leaving stops a running turn."""
    wire = await _dial(url, key)
    try:
        yield Connection(wire)
    finally:
        await wire.close()


async def _dial(url: str, key: str | None) -> _Wire:
    address = _address(url)
    headers = {"authorization": f"Bearer {key}"} if key else {}
    try:
        socket = await connect(
            address,
            additional_headers=headers,
            compression=None,
            max_size=LONGEST_LINE,
            close_timeout=_GOODBYE_S,
            # A proxy for the world cannot reach this machine's own loopback.
            proxy=None if is_loopback(urlsplit(url).hostname or "") else True,
        )
    except (OSError, TimeoutError):
        raise ClientError(
            f"No server answers at {url}. Start one with 'vivace up', or name another with --url.",
            "no_server",
        ) from None
    except InvalidStatus as refused:
        status = refused.response.status_code
        if status in _NO_WEBSOCKET:
            return http_wire(url, address.removesuffix("/responses").replace("ws", "http", 1), key)
        raise ClientError(_refusal(url, status)) from None
    except InvalidHandshake as refused:
        raise ClientError(f"What answers at {url} is no Responses server: {refused}.") from None
    return _WebSocketWire(socket)

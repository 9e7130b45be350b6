"""One WebSocket to a gateway, for programs that want a turn's events and its figures.

Needs only a Responses endpoint: Vivace's, or any other that speaks its WebSocket mode.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus

from vivace.config import is_loopback
from vivace.errors import VivaceError

__all__ = ["ClientError", "Connection", "Figures", "open_connection"]

_TERMINAL = frozenset({"response.completed", "response.incomplete", "response.failed"})

Event = dict[str, Any]


class ClientError(VivaceError):
    """The gateway cannot be reached, or said no."""

    def __init__(self, message: str, code: str | None = None) -> None:
        super().__init__(message)
        self.code = code


class Figures(Struct):
    """How fast a turn was, as its reader saw it."""

    started: float
    first: float | None = None
    last: float | None = None
    tokens: int = 0

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

    def note(self, event: Event) -> None:
        match event["type"]:
            case "response.steer.accepted":
                self.unanswered -= 1
                self.accepted += 1
            case "response.steer.pending":
                self.accepted -= 1
            case "response.steer.failed":
                self._failed(event["steer"], event["error"])

    def _failed(self, steer: Event, error: Event) -> None:
        if "id" in steer:
            self.accepted -= 1
        else:
            self.unanswered -= 1
        if error["code"] == "response_already_completed":
            self.late.append(steer["input"])
        elif error["code"] != "response_not_active":  # we have interrupted it ourselves
            raise ClientError(error["message"], error["code"])


class Connection:
    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self.figures = Figures(time.perf_counter())
        self.response: Event | None = None
        """The newest state of the running turn's response."""
        self.redirects = 0
        """How often the running turn has taken another direction."""
        self._steers = _Steers()

    async def turn(self, **body: Any) -> AsyncGenerator[str, None]:
        """Ask, and yield the answer's text as it comes. Figures and response fill on the way.

        Meanwhile ``steer`` and ``interrupt`` may be called; what follows a steer is yielded too.
        """
        self.figures = Figures(time.perf_counter())
        self.response = None
        self.redirects = 0
        self._steers = steers = _Steers()
        await self._send({"type": "response.create", **body})
        ended = False
        while not (ended and steers.settled):
            event = await self._next()
            self.response = event.get("response", self.response)
            kind = event["type"]
            if kind == "response.output_text.delta":
                self._clock()
                yield event["delta"]
            elif kind == "response.created":
                if ended:
                    self._redirected()
                ended = False
            elif kind in _TERMINAL:
                ended = True
            else:
                steers.note(event)
            if ended and steers.late and steers.settled:
                await self._say_late(body)
        self._finish()

    def steer(self, text: str) -> Coroutine[Any, Any, None]:
        """Say this in the middle of the answer; it takes the new direction at once.

        Counts from the call on, not from the sending: an answer that ends in between goes on.
        """
        self._steers.unanswered += 1
        return self._send(
            {"type": "response.steer", "previous_response_id": self._id(), "input": text}
        )

    async def interrupt(self) -> None:
        """Stop the answer."""
        await self._send({"type": "response.interrupt", "response_id": self._id()})

    def _id(self) -> str:
        return str((self.response or {}).get("id", ""))

    def _clock(self) -> None:
        now = time.perf_counter()
        self.figures.first = self.figures.first or now
        self.figures.last = now

    def _redirected(self) -> None:
        self._steers.accepted = 0
        self.redirects += 1
        self.figures.first = None

    async def _say_late(self, body: Event) -> None:
        """The answer was over when our words arrived: they are the next thing to say."""
        said = [{"role": "user", "content": text} for text in self._steers.late]
        self._steers.late = []
        self._steers.accepted = 1
        after = {"input": said, "previous_response_id": self._id()}
        await self._send({"type": "response.create", **body, **after})

    def _finish(self) -> None:
        response = self.response or {}
        self.figures.tokens = (response.get("usage") or {}).get("output_tokens", 0)
        if response.get("error"):
            raise ClientError(response["error"]["message"], response["error"]["code"])

    async def _next(self) -> Event:
        try:
            event: Event = msgspec.json.decode(await self._socket.recv())
        except ConnectionClosed as closed:
            reason = closed.rcvd.reason if closed.rcvd else ""
            raise ClientError(f"The server closed the connection. {reason}".strip()) from None
        if event["type"] == "error":
            raise ClientError(event["error"]["message"], event["error"].get("code"))
        return event

    async def _send(self, event: Event) -> None:
        try:
            await self._socket.send(msgspec.json.encode(event).decode())
        except ConnectionClosed:
            raise ClientError("The server closed the connection; try again.") from None


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


def _refusal(url: str, status: int) -> str:
    if status == 401:
        return f"The server at {url} wants a key (401); give it with --key or in VIVACE_KEY."
    if status == 404:
        return f"There is no Responses API at {url}; its address usually ends in /v1."
    return f"The server at {url} refused the connection with status {status}; ask who runs it."


@asynccontextmanager
async def open_connection(url: str, key: str | None = None) -> AsyncIterator[Connection]:
    """Connect to the gateway at ``url`` (ending in ``/v1``). Leaving stops a running turn."""
    address = _address(url)
    headers = {"authorization": f"Bearer {key}"} if key else {}
    try:
        socket = await connect(
            address,
            additional_headers=headers,
            compression=None,
            max_size=None,
            # A proxy for the world cannot reach this machine's own loopback.
            proxy=None if is_loopback(urlsplit(url).hostname or "") else True,
        )
    except (OSError, TimeoutError):
        raise ClientError(
            f"No server answers at {url}. Start one with 'vivace up', or name another with --url."
        ) from None
    except InvalidStatus as refused:
        raise ClientError(_refusal(url, refused.response.status_code)) from None
    except InvalidHandshake as refused:
        raise ClientError(f"What answers at {url} is no Responses server: {refused}.") from None
    try:
        yield Connection(socket)
    finally:
        await socket.close()

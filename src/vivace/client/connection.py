"""One WebSocket to a gateway, for programs that want a turn's events and its figures.

Needs only a Responses endpoint: Vivace's, or any other that speaks its WebSocket mode.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, AsyncIterator
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


class Connection:
    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self.figures = Figures(time.perf_counter())
        self.response: Event | None = None
        """The newest state of the running turn's response."""

    async def turn(self, **body: Any) -> AsyncGenerator[str, None]:
        """Ask, and yield the answer's text as it comes. Figures and response fill on the way."""
        self.figures = Figures(time.perf_counter())
        self.response = None
        await self._send({"type": "response.create", **body})
        async for event in self._events():
            self.response = event.get("response", self.response)
            if event["type"] == "response.output_text.delta":
                now = time.perf_counter()
                self.figures.first = self.figures.first or now
                self.figures.last = now
                yield event["delta"]
        self._finish()

    def _finish(self) -> None:
        response = self.response or {}
        self.figures.tokens = (response.get("usage") or {}).get("output_tokens", 0)
        if response.get("error"):
            raise ClientError(response["error"]["message"], response["error"]["code"])

    async def _events(self) -> AsyncIterator[Event]:
        """Events up to the end of the turn."""
        while True:
            try:
                event: Event = msgspec.json.decode(await self._socket.recv())
            except ConnectionClosed as closed:
                reason = closed.rcvd.reason if closed.rcvd else ""
                raise ClientError(f"The server closed the connection. {reason}".strip()) from None
            if event["type"] == "error":
                raise ClientError(event["error"]["message"], event["error"].get("code"))
            yield event
            if event["type"] in _TERMINAL:
                return

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

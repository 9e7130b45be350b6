"""The WebSocket: one connection, many lanes, as long as the client stays.

Written against ASGI itself, because every token passes here. A send waits while the client's
buffer is full, which pauses that turn alone (backpressure); ``Connections`` ends a client that
stays away.
"""

from __future__ import annotations

import asyncio
import time

from starlette.types import Message, Receive, Scope, Send

from vivace.errors import InvalidRequest, RequestError, StoreAway, StoreError, Unauthorized
from vivace.gateway.client_connection import Connection, connect
from vivace.gateway.connections import ABORT
from vivace.gateway.runner import Runner
from vivace.protocol.codec import decode_client_event, encode, lane_of
from vivace.protocol.events import Event

__all__ = ["WebSocketDoor"]

_NORMAL = 1000
_GOING_AWAY = 1001
_POLICY = 1008
_TRY_LATER = 1013
_GOODBYE_SECONDS = 0.3
_REVOKED = "This key was revoked."


class _Outlet:
    def __init__(self, send: Send) -> None:
        self._send = send
        self.gone = False

    async def send(self, events: list[Event]) -> None:
        while events and not self.gone:
            text = encode(events[0]).decode()
            try:
                await self._send({"type": "websocket.send", "text": text})
            except OSError:  # the server's word for a client that left
                self.gone = True
            del events[0]


class _Socket:
    """What the door knows of one open connection."""

    def __init__(self, scope: Scope, send: Send) -> None:
        self.outlet = _Outlet(send)
        self.opened = time.monotonic()
        self.owner: str = scope["state"]["owner"]
        self.said_goodbye = False
        """Its client closed it, and will not come back for what runs."""
        self._send = send
        self._abort = scope["extensions"][ABORT]

    async def close(self, code: int, reason: str) -> None:
        if not self.outlet.gone:
            self.outlet.gone = True
            await self._send({"type": "websocket.close", "code": code, "reason": reason})

    async def dismiss(self, code: int, reason: str) -> None:
        """Close it even if it does not listen."""
        try:
            await asyncio.wait_for(self.close(code, reason), _GOODBYE_SECONDS)
        except (TimeoutError, OSError):
            self.abandon()

    def abandon(self) -> None:
        """For a client that takes nothing, not even a close frame."""
        self.outlet.gone = True
        self._abort()


class WebSocketDoor:
    """The ASGI application behind ``/v1/responses`` for upgrades."""

    def __init__(self, runner: Runner, *, max_seconds: float) -> None:
        self._runner = runner
        self._max_seconds = max_seconds
        self._sockets: set[_Socket] = set()
        self._goodbyes: set[asyncio.Task[None]] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await receive()  # websocket.connect
        headers = [(b"x-request-id", scope["state"]["request_id"].encode())]
        await send({"type": "websocket.accept", "headers": headers})
        socket = _Socket(scope, send)
        if self._runner.draining:
            await socket.close(_TRY_LATER, "This server takes no more connections now.")
            return
        if not self._runner.knows(socket.owner):  # since it came in
            await socket.close(_POLICY, _REVOKED)
            return
        self._sockets.add(socket)
        self._runner.metrics.connections.inc()
        try:
            await self._serve(scope, receive, socket)
        finally:
            self._sockets.discard(socket)
            self._runner.metrics.connections.dec()

    async def _serve(self, scope: Scope, receive: Receive, socket: _Socket) -> None:
        state = scope["state"]
        connection = connect(
            self._runner,
            socket.outlet,
            socket.owner,
            state["request_id"],
            once=False,
            codex=state["codex"],
            traceparent=state["traceparent"],
        )
        try:
            # What was heard is not held on to while the next is waited for.
            while await self._hear(await receive(), connection, socket):
                pass
        finally:
            socket.outlet.gone = True
            await connection.close(for_good=socket.said_goodbye)

    async def _hear(self, message: Message, connection: Connection, socket: _Socket) -> bool:
        """Whether to listen on."""
        if message["type"] == "websocket.disconnect":
            socket.said_goodbye = message.get("code") in (_NORMAL, _GOING_AWAY)
            return False
        data = message.get("text") or message.get("bytes") or b""
        try:
            if time.monotonic() - socket.opened > self._max_seconds:
                raise _too_old(self._max_seconds)
            event = await self._runner.reader.read(socket.owner, data, decode_client_event)
            await connection.receive(event)
        except Unauthorized:
            await socket.close(_POLICY, _REVOKED)
            return False
        except RequestError as error:
            await connection.refuse(error, await self._lane_of(data, socket))
        except StoreError as error:
            await connection.refuse(StoreAway(error), await self._lane_of(data, socket))
        return True

    async def _lane_of(self, data: bytes | str, socket: _Socket) -> str | None:
        return await self._runner.large.run(socket.owner, len(data), lane_of, data)

    def revoke(self, owner: str) -> None:
        """Close the connections of an owner that may not speak any more; does not wait for it."""
        for socket in self._sockets:
            if socket.owner == owner:
                task = asyncio.create_task(socket.dismiss(_POLICY, _REVOKED))
                self._goodbyes.add(task)
                task.add_done_callback(self._goodbyes.discard)

    async def close(self) -> None:
        """Say goodbye to everyone; the server is about to end."""
        away = "This server is shutting down."
        await asyncio.gather(*(socket.dismiss(_GOING_AWAY, away) for socket in self._sockets))


def _too_old(seconds: float) -> RequestError:
    return InvalidRequest(
        f"This connection is {round(seconds / 60)} minutes old, which is the limit. Connect "
        "again and continue a stored response, or send the conversation.",
        code="websocket_connection_limit_reached",
    )

"""uvicorn's WebSocket, with bounds: on the time a message may take and the memory it may hold
before it is whole, and on readers that take nothing.

What a client does wrong is answered with its close code, and is no error of ours in the log.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.config import Config
from uvicorn.protocols.utils import ClientDisconnected
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from uvicorn.server import ServerState
from websockets.frames import CloseCode, Frame
from websockets.http11 import Request

from vivace.config import LOCAL
from vivace.errors import RequestError
from vivace.gateway.connections import ABORT, EARNS_TIME, Connections
from vivace.gateway.refusals import NO_HANDSHAKE, answer

__all__ = ["WebSocketConnection"]

_PIECE = 4096
"""Bytes that are read at once, for they may be hundreds of frames."""


class WebSocketConnection(WebSocketsSansIOProtocol):
    # A server may have ten thousand of these: slots cost less than names in a dict.
    __slots__ = ("_all", "_brought", "_deaf", "_joined", "_rest", "_unfinished")

    def __init__(
        self,
        connections: Connections,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._all = connections
        self._joined: bytearray | None = None
        """Of a message in fragments, what has come so far; its first fragment is in ``frames``."""
        self._deaf = False
        self._rest = b""
        """What has come and is not read yet; nothing more comes meanwhile."""
        self._unfinished = 0
        self._brought = 0
        """How much of that there was when we last asked ourselves whether it is late."""

    async def run_asgi(self) -> None:
        """As uvicorn has it, but a handshake that is refused in words is no error of ours."""
        try:
            await self.app(self.scope, self.receive, self.send)
        except ClientDisconnected:
            pass
        except Exception:
            self.logger.exception("Exception in ASGI application")
            self.send_500_response()
        finally:
            if self.close_timer is None and not self._deaf:
                self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._all.closed(self.transport)
        self._count(0)
        super().connection_lost(exc)

    def abort(self) -> None:
        self.disconnected = True  # whoever sends must know at once
        self.transport.abort()

    def on_task_complete(self, task: asyncio.Task[None]) -> None:
        super().on_task_complete(task)
        self._all.unread(self.transport)

    # -- what a client says -----------------------------------------------------------------------

    def handle_connect(self, event: Request) -> None:
        super().handle_connect(event)
        if self.close_sent:  # a handshake that was refused
            return
        extensions = self.scope["extensions"]
        assert extensions is not None
        extensions[ABORT] = self.abort  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        if self._deaf:
            return
        if len(data) <= _PIECE and not self._rest:
            self._read(data)
        else:
            self._rest += data
            self.transport.pause_reading()
            self._all.in_turn(self._read_on)

    def _read_on(self) -> None:
        """Up to a frame's end: what only adds to a large frame costs little, frames much."""
        whole = False
        while self._rest and not (whole or self._deaf or self.transport.is_closing()):
            piece, self._rest = self._rest[:_PIECE], self._rest[_PIECE:]
            before = len(self.conn.reader.buffer)
            self._read(piece)
            whole = len(self.conn.reader.buffer) != before + len(piece)
        if self._deaf or self.transport.is_closing():
            self._rest = b""
        elif self.read_paused:  # until the application has taken what there is
            return
        elif self._rest:
            self._all.in_turn(self._read_on)
        else:
            self.transport.resume_reading()

    def _read(self, data: bytes) -> None:
        super().data_received(data)
        if self._deaf:
            return
        if self.conn.handshake_exc is not None and not self.handshake_initiated:
            self.transport.write(answer(NO_HANDSHAKE))
            self._deafen()
        elif self.frames or self._joined is not None or self.conn.reader.buffer:
            self._all.expect(self.transport, self._all.limits.message_seconds, self._late)
            held = sum(map(len, self.frames)) + len(self._joined or b"")
            self._count(held + len(self.conn.reader.buffer))
        elif self._unfinished:
            self._all.whole(self.transport)
            self._count(0)

    def _count(self, unfinished: int) -> None:
        change, self._unfinished = unfinished - self._unfinished, unfinished
        try:
            if change:
                self._all.receive(self.scope["state"].get("owner", LOCAL), change)
        except RequestError as error:
            self._unfinished -= change
            self._fail(CloseCode.TRY_AGAIN_LATER, error.message)

    def handle_cont(self, event: Frame) -> None:
        """Fragments are joined as they come: however small, they cost their bytes and no more."""
        if self._joined is None:
            self._joined = bytearray(self.frames.pop())
        self._joined += event.data
        if event.fin:
            self.frames, self._joined = [bytes(self._joined)], None
            self.send_receive_event_to_app()

    def send_receive_event_to_app(self) -> None:
        self._all.whole(self.transport)
        self._brought = 0
        if self.curr_msg_data_type == "text" and not self.close_sent:
            message, self.frames = b"".join(self.frames), []
            try:
                text = message.decode()
            except UnicodeDecodeError:
                self._fail(CloseCode.INVALID_DATA, "Text must be UTF-8.")
                return
            self.queue.put_nowait({"type": "websocket.receive", "text": text})
            if not self.read_paused:
                self.read_paused = True
                self.transport.pause_reading()
        else:
            super().send_receive_event_to_app()

    def _late(self) -> None:
        brought, self._brought = self._unfinished - self._brought, self._unfinished
        if brought >= EARNS_TIME or self.read_paused or self._rest:  # it is we who do not listen
            self._all.expect(self.transport, self._all.limits.message_seconds, self._late)
        elif not self.close_sent:
            self._fail(
                CloseCode.POLICY_VIOLATION,
                f"A message must be whole within {self._all.limits.message_seconds:g} seconds.",
            )

    def _fail(self, code: int, reason: str) -> None:
        self.conn.fail(code, reason)
        self.handle_parser_exception()

    async def receive(self) -> Any:
        if not self.queue.empty():  # who says much at once lets others in between
            await asyncio.sleep(0)
        message = await self.queue.get()
        if self.read_paused and self.queue.empty():
            self.read_paused = False
            if self._rest:
                self._all.in_turn(self._read_on)
            else:
                self.transport.resume_reading()
        return message

    # -- what it is told --------------------------------------------------------------------------

    def handle_parser_exception(self) -> None:
        """The connection has failed: its client is told, and not heard any more."""
        close = self.conn.close_sent
        assert close is not None
        event = {"type": "websocket.disconnect", "code": close.code, "reason": close.reason}
        self.queue.put_nowait(event)  # type: ignore[arg-type]
        self.close_sent = True
        self.disconnected = True  # a turn that still sends meets a client that left, not a fault
        if not self.transport.is_closing():
            self.transport.write(b"".join(self.conn.data_to_send()))
            self._deafen()

    def _deafen(self) -> None:
        self._deaf = True
        self.frames, self._joined, self._rest = [], None, b""
        self.conn.reader.discard()
        self._count(0)
        self.transport.resume_reading()
        self._all.linger(self.transport)

    def keepalive_timeout(self) -> None:
        super().keepalive_timeout()
        self.disconnected = self.disconnected or self.close_sent

    def handle_ping(self) -> None:
        if self.writable.is_set():
            super().handle_ping()
        else:  # who does not read gets no answer that would have to be kept
            self.conn.data_to_send()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._all.unread(self.transport)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._all.taken(self.transport)

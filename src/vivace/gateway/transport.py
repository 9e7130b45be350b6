"""uvicorn's HTTP and WebSocket, with bounds: on a request's head, on the time each part may take,
and on readers that take nothing.

uvicorn reads heads of any length, waits for their end for ever, and closes a connection only when
everything written has been taken. ``Connections`` keeps the counts and the deadlines; here is what
begins and ends them, and how a client is told.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

from starlette.types import Receive, Scope, Send
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from uvicorn.server import ServerState
from websockets.frames import CloseCode, Frame
from websockets.http11 import Request

from vivace.errors import RequestError
from vivace.gateway.connections import ABORT, Connections
from vivace.gateway.refusals import (
    HEAD_BYTES,
    HEAD_TOO_LARGE,
    HEADERS,
    LATE,
    NO_HANDSHAKE,
    NO_HTTP,
    answer,
)

__all__ = ["HttpConnection", "WebSocketConnection"]

_LINGER = 2.0
"""Seconds that a refused client gets to read why. A connection that is closed while the client
still sends takes the answer with it."""


class HttpConnection(HttpToolsProtocol):
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
        self._limits = connections.limits
        self._answering: deque[RequestResponseCycle] = deque()
        """Requests that are not answered yet: the first is being answered, others were pipelined
        behind it. ``cycle`` is the newest."""
        self._pending = 0
        """Bytes since the last that came to anything: of a head, a trailer, a chunk's size."""
        self._fault = NO_HTTP
        self._unwanted: RequestError | None = None
        """Why this connection is one too many, if it is."""
        self._refused = False

    # -- its life ---------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._unwanted = self._all.accept(transport, self.client[0] if self.client else None)
        if self._unwanted is None:
            self._all.expect(transport, self._limits.head_seconds, self._late_head)
        else:
            self._all.expect(transport, _LINGER, transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        self._all.closed(self.transport)
        self._nobody_listens()
        super().connection_lost(exc)

    def _nobody_listens(self) -> None:
        for cycle in self._answering:
            cycle.disconnected = True
            cycle.message_event.set()

    # -- what a client says -----------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        if self._unwanted is not None and not self._refused:
            self._refuse(self._unwanted)  # not before it has asked: many would not hear it
        if self._refused:
            return
        self._pending += len(data)
        super().data_received(data)
        if self._pending > HEAD_BYTES and not self._refused:
            self._refuse(HEAD_TOO_LARGE)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope["extensions"] = {ABORT: self.transport.abort}  # type: ignore[dict-item]
        self._all.expect(self.transport, self._limits.head_seconds, self._late_head)

    def on_header(self, name: bytes, value: bytes) -> None:
        if len(self.headers) >= HEADERS:
            self._fault = HEAD_TOO_LARGE
            raise self._fault  # the parser stops, and send_400_response is called
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        size = len(self.url) + sum(len(name) + len(value) for name, value in self.headers)
        if size > HEAD_BYTES:
            self._fault = HEAD_TOO_LARGE
            raise self._fault
        self._pending = 0
        self._all.whole(self.transport)
        self._all.expect(self.transport, self._limits.message_seconds, self._late_body)
        before = self.cycle
        super().on_headers_complete()
        if self.cycle is not before:  # an upgrade gets none
            self._answering.append(self.cycle)

    def on_body(self, body: bytes) -> None:
        self._pending = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._pending = 0
        self._all.whole(self.transport)
        super().on_message_complete()

    # -- what it is told --------------------------------------------------------------------------

    def send_400_response(self, msg: str) -> None:
        self._refuse(self._fault)

    def _late_head(self) -> None:
        self._refuse(LATE)

    def _late_body(self) -> None:
        if self.flow.read_paused:  # it is we who do not listen
            self._all.expect(self.transport, self._limits.message_seconds, self._late_body)
        elif self.cycle.response_complete:  # it was answered without it
            self.transport.abort()
        else:
            self._refuse(LATE)

    def _refuse(self, error: RequestError) -> None:
        self._all.metrics.refused.labels(error.code).inc()
        self._refused = True
        if self._answering and self._answering[0].response_started:
            self.transport.abort()  # in the middle of an answer is no place for another
        if self.transport.is_closing():
            return
        self._nobody_listens()
        self.transport.write(answer(error))
        self.transport.write_eof()
        self._all.whole(self.transport)
        self._all.expect(self.transport, _LINGER, self.transport.abort)

    def on_response_complete(self) -> None:
        self._answering.popleft()
        super().on_response_complete()
        if self.transport.is_closing():
            self._all.unread(self.transport)

    def timeout_keep_alive_handler(self) -> None:
        super().timeout_keep_alive_handler()
        self._all.unread(self.transport)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._all.unread(self.transport)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._all.taken(self.transport)


class WebSocketConnection(WebSocketsSansIOProtocol):
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
        self._limits = connections.limits
        self._served = self.app
        self.app = self._serve
        self._joined: bytearray | None = None
        """Of a message in fragments, what has come so far; its first fragment is in ``frames``."""

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._served(scope, receive, send)
        if self.initial_response is not None:  # a refusal is an answer, not a fault of ours
            self.handshake_complete = True

    def connection_lost(self, exc: Exception | None) -> None:
        self._all.closed(self.transport)
        super().connection_lost(exc)

    def on_task_complete(self, task: asyncio.Task[None]) -> None:
        super().on_task_complete(task)
        if not self.disconnected:
            self._all.unread(self.transport)

    # -- what a client says -----------------------------------------------------------------------

    def handle_connect(self, event: Request) -> None:
        super().handle_connect(event)
        if self.close_sent:  # a handshake that was refused
            return
        extensions = self.scope["extensions"]
        assert extensions is not None
        extensions[ABORT] = self.transport.abort  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.handshake_exc is not None and not self.handshake_initiated:
            self.transport.write(answer(NO_HANDSHAKE))
            self.transport.close()
        elif self.frames or self._joined is not None or self.conn.reader.buffer:
            self._all.expect(self.transport, self._limits.message_seconds, self._late)
        else:
            self._all.whole(self.transport)

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
        if self.curr_msg_data_type == "text" and not self.close_sent:
            try:
                text = b"".join(self.frames).decode()
            except UnicodeDecodeError:
                self._fail(CloseCode.INVALID_DATA, "Text must be UTF-8.")
                return
            self.frames = []
            self.queue.put_nowait({"type": "websocket.receive", "text": text})
            if not self.read_paused:
                self.read_paused = True
                self.transport.pause_reading()
        else:
            super().send_receive_event_to_app()

    def _late(self) -> None:
        if self.read_paused:  # it is we who do not listen
            self._all.expect(self.transport, self._limits.message_seconds, self._late)
        elif not self.close_sent:
            self._fail(
                CloseCode.POLICY_VIOLATION,
                f"A message must be whole within {self._limits.message_seconds:g} seconds.",
            )

    def _fail(self, code: int, reason: str) -> None:
        self.conn.fail(code, reason)
        self.handle_parser_exception()

    # -- what it is told --------------------------------------------------------------------------

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

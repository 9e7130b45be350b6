"""uvicorn's HTTP, with bounds: on a request's head, on the time its parts may take, and on readers
that take nothing.

uvicorn reads heads of any length, waits for their end for ever, and closes a connection only when
everything written has been taken. ``Connections`` keeps the counts and the deadlines; here is what
begins and ends them, and how a client is told.
"""

from __future__ import annotations

import asyncio
from typing import Any, Literal

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from vivace.errors import RequestError
from vivace.gateway.connections import ABORT, EARNS_TIME, Connections
from vivace.gateway.refusals import (
    HEAD_BYTES,
    HEAD_TOO_LARGE,
    HEADERS,
    LATE,
    NO_HANDSHAKE,
    NO_HTTP,
    PIECE_BYTES,
    PIECES,
    PIPELINED,
    TOO_MANY_AT_ONCE,
    TOO_SMALL_CHUNKS,
    answer,
)

__all__ = ["HttpConnection"]

_Part = Literal["head", "body"] | None
"""What of a request has begun and is not whole."""

_HANDSHAKE = (b"sec-websocket-", b"connection", b"upgrade")
"""How the headers begin that a handshake is made of."""


class HttpConnection(HttpToolsProtocol):
    __slots__ = (  # which, other than a few names more, leave a connection as small as it was
        "_all",
        "_answering",
        "_brought",
        "_fault",
        "_moved",
        "_part",
        "_pending",
        "_piece_bytes",
        "_pieces",
        "_refused",
        "_trailers",
        "_unwanted",
    )

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
        self._answering: list[RequestResponseCycle] = []
        """Requests that are not answered yet: the first is being answered, others were pipelined
        behind it. ``cycle`` is the newest."""
        self._part: _Part = None
        self._moved = False
        """Whether it has become another part, or another request's, since that was last noted."""
        self._pending = 0
        """Bytes since the last that came to anything: of a head, a trailer, a chunk's size."""
        self._brought = 0
        """Bytes of the body since we last asked ourselves whether it is late."""
        self._pieces = self._piece_bytes = self._trailers = 0
        self._fault = NO_HTTP
        self._unwanted: RequestError | None = None
        """Why this connection is one too many, if it is."""
        self._refused = False

    # -- its life ---------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._unwanted = self._all.accept(transport, self.client[0] if self.client else None)
        if self._unwanted is None:
            self._all.expect(transport, self._all.limits.head_seconds, self._late_head)
        else:
            self._all.tolerate(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._all.closed(self.transport)
        self._nobody_listens()
        super().connection_lost(exc)

    def abort(self) -> None:
        self._nobody_listens()
        self.transport.abort()

    def _nobody_listens(self) -> None:
        """Whoever answers must know at once: to write to what is closed is an error."""
        for cycle in self._answering:
            cycle.disconnected = True
            cycle.message_event.set()

    # -- what a client says -----------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        if self._refused:
            return
        if self._unwanted is not None:  # not told before it has asked: many would not hear it
            self._refuse(self._unwanted)
        else:
            self._read(data)

    def _read(self, data: bytes) -> None:
        self._pending += len(data)
        super().data_received(data)
        if self._refused:
            return
        if self._moved:
            self._note_part()
        if self._pending > HEAD_BYTES:
            self._refuse(HEAD_TOO_LARGE)

    def _note_part(self) -> None:
        """After all that came at once: most requests are whole by then, and have no deadline."""
        self._moved = False
        self._all.whole(self.transport)
        if self._part == "head":
            self._all.expect(self.transport, self._all.limits.head_seconds, self._late_head)
        elif self._part == "body":
            self._await_body()

    def on_message_begin(self) -> None:
        if len(self._answering) >= PIPELINED:
            self._stop_parsing(TOO_MANY_AT_ONCE)
        super().on_message_begin()
        self._part, self._moved, self._trailers = "head", True, 0
        self.scope["extensions"] = {ABORT: self.abort}  # type: ignore[dict-item]

    def on_header(self, name: bytes, value: bytes) -> None:
        if len(self.headers) + self._trailers >= HEADERS:
            self._stop_parsing(HEAD_TOO_LARGE)
        if self._part == "body":
            # Never merged into the headers: whoever stands before this server, and checks or takes
            # out some of these, has not seen it.
            self._trailers += 1
        else:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        if self._pending > HEAD_BYTES:  # of what came at once, which may be of a body too
            head = len(self.url) + sum(len(name) + len(value) for name, value in self.headers)
            if head > HEAD_BYTES:
                self._stop_parsing(HEAD_TOO_LARGE)
        self._part, self._moved = "body", True
        self._pending = self._pieces = self._piece_bytes = 0
        before = self.cycle
        super().on_headers_complete()
        if self.cycle is not before:  # an upgrade gets none
            self._answering.append(self.cycle)

    def _stop_parsing(self, fault: RequestError) -> None:
        self._fault = fault
        raise ValueError  # an error to the parser, of which send_400_response is told

    def on_body(self, body: bytes) -> None:
        self._pending = 0
        self._brought += len(body)
        self._pieces += 1
        self._piece_bytes += len(body)
        if self._pieces > PIECES and self._piece_bytes < PIECE_BYTES * self._pieces:
            self._stop_parsing(TOO_SMALL_CHUNKS)
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._part, self._moved = None, True
        self._pending = 0
        super().on_message_complete()

    def handle_websocket_upgrade(self) -> None:
        fields = [value for name, value in self.headers if name.startswith(_HANDSHAKE)]
        if self._answering or not all(field.isascii() for field in (self.url, *fields)):
            self._refuse(NO_HANDSHAKE)
        else:
            super().handle_websocket_upgrade()

    # -- what it is told --------------------------------------------------------------------------

    def send_400_response(self, msg: str) -> None:
        self._refuse(self._fault)

    def _late_head(self) -> None:
        self._refuse(LATE)

    def _await_body(self) -> None:
        self._brought = 0
        self._all.expect(self.transport, self._all.limits.message_seconds, self._late_body)

    def _late_body(self) -> None:
        if self.cycle.response_complete:  # it was answered without it
            self.abort()
        elif self._brought >= EARNS_TIME or self.flow.read_paused:  # it is we who do not listen
            self._await_body()
        else:
            self._refuse(LATE)

    def _refuse(self, error: RequestError) -> None:
        self._all.metrics.refused.labels(error.code).inc()
        self._refused = True
        if self._answering and self._answering[0].response_started:
            self.abort()  # in the middle of an answer is no place for another
        if self.transport.is_closing():
            return
        self._nobody_listens()
        self.transport.write(answer(error))
        self.flow.resume_reading()
        self._all.linger(self.transport)

    def on_response_complete(self) -> None:
        self._answering.pop(0)
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

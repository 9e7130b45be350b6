"""What all HTTP endpoints share: bodies, errors, and the ways a turn's events reach a client."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import aclosing
from typing import Any, TypeVar

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response as HttpResponse
from starlette.routing import BaseRoute, Match, Route
from starlette.types import Message, Receive, Scope, Send

from vivace.errors import (
    InvalidRequest,
    NotFound,
    RequestError,
    ServerFault,
    StoreAway,
    StoreError,
    TooLarge,
)
from vivace.gateway.client_connection import connect
from vivace.gateway.front import error_body, error_headers
from vivace.gateway.large import RequestReader
from vivace.gateway.ports import Readable
from vivace.gateway.runner import Runner
from vivace.protocol.codec import encode, error_payload, framed
from vivace.protocol.events import (
    ErrorFrame,
    Event,
    Response,
    ResponseEvent,
    SteerFailed,
    StreamError,
)
from vivace.protocol.requests import CreateResponse
from vivace.protocol.sse import SSE_DONE
from vivace.scheduling.memory import Held

__all__ = [
    "WAITING",
    "Begun",
    "Collector",
    "EventStream",
    "Handler",
    "Replay",
    "fault",
    "json_response",
    "problem",
    "raised",
    "read_body",
    "run_turn",
    "speaks_errors",
    "whole_number",
    "wrong_address",
]

log = logging.getLogger("vivace.http")

WAITING = b": waiting\n\n"
"""A comment, which clients drop: it keeps a stream open."""

_PIECE = 64 * 1024
_SILENCE = 15.0

T = TypeVar("T")
Handler = Callable[[Request], Coroutine[Any, Any, HttpResponse]]


def json_response(value: object, held: Held | None = None) -> HttpResponse:
    return _Answer(value if isinstance(value, bytes) else encode(value), held)


class _Answer(HttpResponse):
    """Goes out in pieces, so that what a client does not take is held here, where it counts, and
    not in a buffer of the transport's."""

    media_type = "application/json"

    def __init__(self, body: bytes, held: Held | None) -> None:
        super().__init__(body)
        self._held = held

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if len(self.body) <= _PIECE:
            await super().__call__(scope, receive, send)
            return
        start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        await send(start)
        await _send_pieces(bytes(self.body), send)
        await send({"type": "http.response.body", "body": b""})


def _in_pieces(events: Sequence[ResponseEvent]) -> Iterator[bytes]:
    """Small ones together, and of large ones never more than one."""
    piece = b""
    for event in events:
        said = framed(event)
        if piece and len(piece) + len(said) > _PIECE:
            yield piece
            piece = b""
        piece += said
    yield piece


async def _send_pieces(data: bytes, send: Send) -> None:
    for start in range(0, len(data), _PIECE):
        piece = data[start : start + _PIECE]
        await send({"type": "http.response.body", "body": piece, "more_body": True})


def problem(error: RequestError, request: Request) -> HttpResponse:
    body = error_body(error, request.state.request_id, request.url.path)
    return HttpResponse(body, error.status, error_headers(error))


async def wrong_address(request: Request, error: Exception) -> HttpResponse:
    """What Starlette itself refuses: no such path, or not by this method."""
    assert isinstance(error, HTTPException)
    method, path = request.method, request.url.path
    if error.status_code == 404:
        return problem(NotFound(f"There is nothing at {path}."), request)
    refused = InvalidRequest(f"{method} is not for {path}.", code="method_not_allowed")
    refused.status = error.status_code
    answer = problem(refused, request)
    answer.headers["allow"] = ", ".join(sorted(_methods_at(request)))
    return answer


def _methods_at(request: Request) -> set[str]:
    """By which this path can be asked for; several routes may share one."""
    routes: list[BaseRoute] = request.app.routes
    return {
        method
        for route in routes
        if isinstance(route, Route) and route.matches(request.scope)[0] is not Match.NONE
        for method in route.methods or ()
    }


async def fault(request: Request, error: Exception) -> HttpResponse:
    """What nobody foresaw; the server logs it."""
    request_id = request.state.request_id
    words = f"An internal error. Whoever runs this server finds it in the log by {request_id}."
    log.error("fault request_id=%s", request_id)
    return problem(ServerFault(words), request)


def whole_number(text: str | None, least: int, most: int) -> int | None:
    """A number a client wrote into a header or a query; None if it is no such number."""
    if text is None or not re.fullmatch(r"\d{1,12}", text):
        return None
    number = int(text)
    return number if least <= number <= most else None


def speaks_errors(handler: Handler) -> Handler:
    """Let a handler raise ``RequestError`` and the client read it."""

    async def wrapped(request: Request) -> HttpResponse:
        try:
            return await handler(request)
        except RequestError as error:
            return problem(error, request)
        except StoreError as error:
            return problem(StoreAway(error), request)
        except ClientDisconnect:
            return HttpResponse(status_code=499)

    return wrapped


def raised(frame: ErrorFrame) -> RequestError:
    """An error frame, which is the WebSocket's form, as the error it was made of."""
    headers = frame.error.headers or {}
    wait = headers.get("retry-after")
    error = RequestError(
        frame.error.message,
        code=frame.error.code,
        param=frame.error.param,
        retry_after=float(wait) if wait else None,
    )
    error.status = frame.status
    error.type = frame.error.type
    error.tokens = frame.error.tokens or None
    error.limit = frame.error.limit or None
    return error


# -- where events go ------------------------------------------------------------------------------


class Collector:
    """For a client that wants the finished response only."""

    def __init__(self) -> None:
        self.response: Response | None = None
        self.error: ErrorFrame | None = None

    async def send(self, events: list[Event]) -> None:
        for event in events:
            if isinstance(event, ErrorFrame):
                self.error = event
            else:
                self.response = getattr(event, "response", self.response)
        events.clear()

    def result(self) -> Response:
        if self.error is not None:
            raise raised(self.error)
        assert self.response is not None
        return self.response


class Begun(Collector):
    """For a client that will come back: it only wants to know that its response has begun."""

    def __init__(self) -> None:
        super().__init__()
        self.known = asyncio.Event()

    async def send(self, events: list[Event]) -> None:
        if not self.known.is_set():
            await super().send(events)
            self.known.set()
        events.clear()


class EventStream(HttpResponse):
    """Runs a turn and sends its events as they come.

    ``frame`` makes bytes of an event (none for an event this client has no use for). The status
    line waits for the first event, so that a request that cannot begin still gets a plain error,
    which ``explain`` may put into this client's words. ``ping`` is sent when nothing else has been
    for a while.
    """

    media_type = "text/event-stream"

    def __init__(
        self,
        runner: Runner,
        request: Request,
        create: CreateResponse | RequestError,
        frame: Callable[[ResponseEvent], bytes] = framed,
        explain: Callable[[RequestError], RequestError] = lambda error: error,
        *,
        frame_error: Callable[[ErrorFrame], bytes] | None = None,
        end: bytes = SSE_DONE,
        ping: bytes = b"",
        codex: bool = False,
    ) -> None:
        """``create`` may be why there is no such request; ``codex`` then has that for an answer."""
        super().__init__()
        self._runner = runner
        self._request = request
        self._create = create
        self._frame = frame
        self._explain = explain
        self._frame_error = frame_error
        self._end = end
        self._ping = ping
        self._codex = codex
        self._begun = False
        self._number = -1
        """Of the last event that was said."""
        self._quiet = False
        self._gone = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._write = send
        state = self._request.state
        self._connection = connection = connect(
            self._runner,
            self,
            state.owner,
            state.request_id,
            codex=self._codex,
            traceparent=state.traceparent,
        )
        try:
            if isinstance(self._create, RequestError):
                raise self._create
            await connection.receive(self._create)
        except RequestError as error:
            await connection.refuse(error)
        turn = asyncio.create_task(connection.finished())
        pinging = asyncio.create_task(self._keep_awake()) if self._ping else None
        try:
            if not await _stays_for(turn, receive):
                self._gone = True
                await connection.close()
            await turn
        finally:
            if pinging is not None:
                pinging.cancel()
        if self._begun and not self._gone:
            await self._put({"type": "http.response.body", "body": self._end})

    async def _keep_awake(self) -> None:
        """A long prompt is read for minutes, and clients and proxies give up on a silent stream."""
        while True:
            self._quiet = True
            await asyncio.sleep(_SILENCE)
            waits = self._begun or self._connection.again.told  # for a turn that runs elsewhere
            if self._quiet and waits and not self._gone:
                await self._begin()
                await self._say(self._ping)

    async def send(self, events: list[Event]) -> None:
        while events and not self._gone:
            event = events[0]
            if isinstance(event, ResponseEvent):
                self._number = event.sequence_number
                said = self._frame(event)
                if said:
                    await self._begin()
                    await self._say(said)
            elif isinstance(event, SteerFailed) and self._frame is framed:
                await self._say(framed(event))
            elif isinstance(event, ErrorFrame) and self._begun:
                await self._say(self._framed_error(event))
            elif isinstance(event, ErrorFrame):
                self._request.state.headers = self._connection.headers
                error = self._explain(raised(event))
                await problem(error, self._request)(
                    self._request.scope, self._request.receive, self._write
                )
            del events[0]

    def _framed_error(self, frame: ErrorFrame) -> bytes:
        if self._frame_error is not None:
            return self._frame_error(frame)
        return framed(_stream_error(raised(frame), self._number + 1))

    async def _begin(self) -> None:
        if not self._begun:
            self._begun = True
            self._request.state.headers = self._connection.headers
            headers = [
                (b"content-type", b"text/event-stream; charset=utf-8"),
                (b"cache-control", b"no-cache"),
            ]
            await self._put({"type": "http.response.start", "status": 200, "headers": headers})

    async def _say(self, said: bytes) -> None:
        self._quiet = False
        await self._put({"type": "http.response.body", "body": said, "more_body": True})

    async def _put(self, message: Message) -> None:
        try:
            await self._write(message)
        except OSError:
            self._gone = True


class Replay(HttpResponse):
    """Events of a recorded response, from a given one on, until it ends or nobody reads them.

    Each reader has bytes of its own: ``held`` counts those that its client does not take.
    """

    def __init__(self, record: Readable, after: int, held: Held) -> None:
        super().__init__(media_type="text/event-stream")
        self._record = record
        self._after = after
        self._held = held
        self._quiet = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        telling = asyncio.create_task(self._tell(send))
        pinging = asyncio.create_task(self._keep_awake(send))
        try:
            if await _stays_for(telling, receive):
                telling.result()
        finally:
            telling.cancel()
            pinging.cancel()

    async def _keep_awake(self, send: Send) -> None:
        """What runs on another gateway is told when it has ended, which may take long."""
        while True:
            self._quiet = True
            await asyncio.sleep(_SILENCE)
            if self._quiet:
                await send({"type": "http.response.body", "body": WAITING, "more_body": True})

    async def _tell(self, send: Send) -> None:
        headers = [(b"content-type", b"text/event-stream; charset=utf-8")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        number = self._after
        try:
            async with aclosing(self._record.after(self._after)) as told:
                async for events in told:
                    self._quiet = False
                    number = events[-1].sequence_number
                    for said in _in_pieces(events):
                        self._held.resize(max(self._held.size, len(said)))
                        await _send_pieces(said, send)
        except (RequestError, StoreError) as error:  # it was deleted, or cannot be had now
            known = error if isinstance(error, RequestError) else StoreAway(error)
            await _send_pieces(framed(_stream_error(known, number + 1)), send)
        await send({"type": "http.response.body", "body": SSE_DONE})


def _stream_error(error: RequestError, number: int) -> StreamError:
    said = error_payload(error)
    return StreamError(
        sequence_number=number, code=said.code, message=said.message, param=said.param, error=said
    )


# -- reading and running -----------------------------------------------------------------------


async def read_body(
    request: Request, decode: Callable[[str, Held], T], *, limit: int, reader: RequestReader
) -> T:
    """Return the body as ``decode`` reads it; refuses one that is too long."""
    chunks: list[bytes] = []
    size = whole_number(request.headers.get("content-length"), 0, 10**12) or 0
    if size <= limit:
        size = 0
        async for chunk in request.stream():
            size += len(chunk)
            if size > limit:
                break
            chunks.append(chunk)
    if size > limit:
        raise TooLarge(
            f"The request is larger than the {limit} bytes this server takes. Send "
            "less, or continue a response instead of sending its history."
        )
    return await reader.read(request.state.owner, b"".join(chunks), decode)


async def run_turn(runner: Runner, create: CreateResponse, request: Request) -> Response:
    """One turn from beginning to end; stops when the client leaves."""
    collector = Collector()
    state = request.state
    connection = connect(
        runner, collector, state.owner, state.request_id, traceparent=state.traceparent
    )
    await connection.receive(create)
    turn = asyncio.create_task(connection.finished())
    if not await _stays_for(turn, request.receive):
        await connection.close()
    await turn
    state.headers = connection.headers
    return collector.result()


async def _stays_for(work: asyncio.Task[None], receive: Receive) -> bool:
    """Whether the client was still there when the work was done."""
    leaving = asyncio.create_task(_until_disconnect(receive))
    try:
        await asyncio.wait({work, leaving}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        leaving.cancel()
    return work.done()


async def _until_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass

"""The Responses API over plain HTTP, spoken to as if it were a WebSocket.

For endpoints that have no WebSocket. What the server would do there is done here: the newest
conversation is remembered, a steer breaks the answer off and asks again with what was said so far.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlsplit

import httpx2
import msgspec
from msgspec import Struct
from msgspec.structs import replace

from vivace.addresses import is_loopback
from vivace.client.errors import ClientError
from vivace.client.events import Failure, Response, ServerEvent, Steered, decode_event
from vivace.protocol.sse import EndlessLine, SseLines

__all__ = ["HttpWire", "http_wire"]

_TERMINAL = frozenset({"response.completed", "response.incomplete", "response.failed"})

_WAITING = 256
"""So many events may wait to be read; then the server waits."""
_REFUSAL = 100_000

Event = dict[str, Any]


class HttpWire:
    """Events in and out, one response at a time."""

    def __init__(self, http: httpx2.AsyncClient, url: str) -> None:
        self._http = http
        self._url = url
        self._events: asyncio.Queue[ServerEvent | ClientError] = asyncio.Queue()
        self._room = asyncio.Event()
        """Set while few events wait: a server does not fill the memory of who reads slowly."""
        self._reading: asyncio.Task[None] | None = None
        self._body: Event = {}
        self._items: list[Any] = []
        """The conversation up to what is being answered."""
        self._said: list[str] = []
        self._response: Response | None = None

    async def send(self, event: Event) -> None:
        match event["type"]:
            case "response.create":
                self._create({name: each for name, each in event.items() if name != "type"})
            case "response.steer":
                await self._steer(event)
            case "response.interrupt":
                await self._break_off()
                self._events.put_nowait(ServerEvent(type="response.interrupt.accepted"))

    async def next(self) -> ServerEvent:
        event = await self._events.get()
        if self._events.qsize() < _WAITING:
            self._room.set()
        if isinstance(event, ClientError):
            raise event
        return event

    async def close(self) -> None:
        await self._stop()
        await self._http.aclose()

    @property
    def _running(self) -> bool:
        return self._reading is not None and not self._reading.done()

    def _create(self, body: Event) -> None:
        given = body.get("input") or []
        items = [{"role": "user", "content": given}] if isinstance(given, str) else list(given)
        previous = body.pop("previous_response_id", None)
        if previous is not None and self._response and previous == self._response.id:
            items = [*self._conversation(), *items]
        elif previous is not None:
            body["previous_response_id"] = previous
        self._body = body
        self._begin(items)

    def _conversation(self) -> list[Any]:
        said = "".join(self._said)
        answer = [{"role": "assistant", "content": said}] if said else []
        return [*self._items, *answer]

    def _begin(self, items: list[Any]) -> None:
        self._items, self._said, self._response = items, [], None
        self._reading = asyncio.create_task(self._read(self._body | {"input": items}))

    async def _steer(self, event: Event) -> None:
        steer = Steered(input=event["input"])
        if not self._running:
            over = Failure("The answer is over.", "response_already_completed")
            failed = ServerEvent(type="response.steer.failed", steer=steer, error=over)
            self._events.put_nowait(failed)
            return
        await self._break_off()
        self._events.put_nowait(ServerEvent(type="response.steer.accepted", steer=steer))
        self._begin([*self._conversation(), {"role": "user", "content": event["input"]}])

    async def _break_off(self) -> None:
        if self._running:
            await self._stop()
            stopped = self._response and replace(self._response, status="incomplete")
            self._events.put_nowait(ServerEvent(type="response.incomplete", response=stopped))

    async def _stop(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._reading

    async def _read(self, body: Event) -> None:
        content = msgspec.json.encode(body | {"stream": True})
        ended = False
        try:
            async with self._http.stream("POST", "/responses", content=content) as answer:
                if answer.status_code >= 400:
                    said = await _beginning(answer)
                    self._events.put_nowait(_refusal(self._url, answer.status_code, said))
                    return
                async for event in _events(answer):
                    self._note(event)
                    await self._pass_on(event)
                    ended = ended or event.type in (*_TERMINAL, "error")
        except (httpx2.TransportError, EndlessLine) as error:
            self._events.put_nowait(
                ClientError(f"{self._url} cannot be reached or broke off: {type(error).__name__}.")
            )
            return
        if not ended:
            self._events.put_nowait(ClientError(f"{self._url} broke off in the middle."))

    def _note(self, event: ServerEvent) -> None:
        self._response = event.response or self._response
        if event.text:
            self._said.append(event.text)

    async def _pass_on(self, event: ServerEvent) -> None:
        self._events.put_nowait(event)
        if self._events.qsize() >= _WAITING:
            self._room.clear()
            await self._room.wait()


async def _events(answer: httpx2.Response) -> AsyncIterator[ServerEvent]:
    """Server-sent events; what is no event of the API is left out."""
    lines = SseLines()
    async for data in answer.aiter_bytes():
        for line in lines.feed(data):
            event = decode_event(line)
            if event is not None:  # [DONE]
                yield event


async def _beginning(answer: httpx2.Response) -> bytes:
    """Of an answer that is short, unless somebody means ill, as much as such answers have."""
    body = b""
    async for data in answer.aiter_bytes():
        body += data
        if len(body) > _REFUSAL:
            break
    return body


class _Refused(Struct):
    error: Failure


def _refusal(url: str, status: int, said: bytes) -> ClientError:
    with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        refused = msgspec.json.decode(said, type=_Refused)
        if refused.error.message:
            return refused.error.told()
    if status == 404:
        return ClientError(
            f"There is no Responses API at {url}; its address usually ends in /v1.", "not_found"
        )
    return ClientError(f"The server at {url} refused with status {status}.")


def http_wire(url: str, base: str, key: str | None) -> HttpWire:
    """``base`` is where the API stands; ``url`` is what the person calls it."""
    headers = {"content-type": "application/json"}
    if key:
        headers["authorization"] = f"Bearer {key}"
    http = httpx2.AsyncClient(
        base_url=base,
        headers=headers,
        timeout=httpx2.Timeout(10, read=None),
        trust_env=not is_loopback(urlsplit(base).hostname or ""),
        verify=base.startswith("https"),
    )
    return HttpWire(http, url)

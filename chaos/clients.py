"""Clients that say what they are told to, and put it on record with all that they see."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import httpx
from msgspec import Struct
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from chaos.doors import Doors
from chaos.history import Called, Event, Joined, Left, Note, Saw, Sent
from chaos.lives import MOVED, TERMINAL

__all__ = ["Caller", "Progress", "Talker"]

_LONGEST = 30.0
"""Seconds that a client waits for anything."""


class Talker:
    """On a WebSocket. Knows what a careful client would: what runs, and what was asked of it."""

    def __init__(self, note: Note, name: str, owner: str, socket: ClientConnection) -> None:
        self.name = name
        self.owner = owner
        self.ids: list[str] = []
        """Its responses, the newest last."""
        self.calls: dict[str, list[Event]] = {}
        """Calls that a response ended with, and which wait for their outputs."""
        self.tags: set[str] = set()
        self.owed = 0
        """Things it said that were not answered yet."""
        self.running: dict[str | None, str] = {}
        self.numbers: dict[str, int] = {}
        """The last event that it saw of each response."""
        self.moved: dict[str, int] = {}
        """What ran here and was taken elsewhere, with the last event of it."""
        self.closed = False
        self._resuming: str | None = None
        self._note = note
        self._socket = socket

    @classmethod
    @contextlib.asynccontextmanager
    async def join(
        cls, note: Note, url: str | Doors, name: str, owner: str, headers: Mapping[str, str]
    ) -> AsyncIterator[Talker]:
        gateway, url = Doors.of(url).next()
        async with connect(
            url.replace("http", "ws", 1) + "/v1/responses",
            additional_headers=headers,
            compression=None,
            max_size=None,
            max_queue=1024,
            open_timeout=_LONGEST,
        ) as socket:
            talker = cls(note, name, owner, socket)
            note(Joined(time.monotonic(), name, owner, gateway=gateway))
            listening = asyncio.create_task(talker._listen())
            try:
                yield talker
            finally:
                listening.cancel()
                if not talker.closed:
                    note(Left(time.monotonic(), name))

    @property
    def idle(self) -> bool:
        """Nothing that it asked for is under way, as far as it can know."""
        return self.closed or (self.owed <= 0 and not self.running)

    async def say(self, event: Event | str) -> None:
        self.owed += 1
        self._note(Sent(time.monotonic(), self.name, event))
        with contextlib.suppress(ConnectionClosed):
            await self._socket.send(event if isinstance(event, str) else json.dumps(event))

    async def resume(self, response_id: str, after: int) -> None:
        """Ask for the rest of a response; an error says that this cannot be had."""
        self.running[None] = self._resuming = response_id
        self.numbers[response_id] = after
        event = {"type": "response.resume", "response_id": response_id, "starting_after": after}
        await self.say(event)

    def vanish(self) -> None:
        """As a client does that crashed."""
        self.closed = True
        self._note(Left(time.monotonic(), self.name, "vanished"))
        self._socket.transport.abort()

    async def _listen(self) -> None:
        try:
            async for message in self._socket:
                self._see(json.loads(message))
        except ConnectionClosed:
            pass
        if not self.closed:
            self.closed = True
            self._note(Left(time.monotonic(), self.name, "closed"))

    def _see(self, event: Event) -> None:
        if self.closed:
            return
        self._note(Saw(time.monotonic(), self.name, event))
        kind = event["type"]
        running = self.running.get(event.get("stream_id"))
        numbered = "sequence_number" in event and not kind.startswith("response.steer.")
        if running is not None and numbered:
            self.numbers[running], self._resuming = event["sequence_number"], None
        if kind == "response.created":
            self._begin(event)
        elif kind in TERMINAL:
            response = event["response"]
            self.running.pop(event.get("stream_id"), None)
            calls = [item for item in response["output"] if item["type"].endswith("_call")]
            if calls:
                self.calls[response["id"]] = calls
        elif kind == "error" and event["error"].get("code") == MOVED:
            self._taken(event.get("stream_id"))
        elif kind == "error" or kind.endswith(".accepted"):
            self._answered(kind)
        elif kind == "response.steer.failed":
            self.owed -= "id" not in event["steer"]

    def _taken(self, lane: str | None) -> None:
        name = self.running.pop(lane, None)
        if name is not None:
            self.moved[name] = self.numbers[name]
        else:
            self.owed -= 1  # it had not begun here yet

    def _answered(self, kind: str) -> None:
        self.owed -= 1
        if kind == "error" and self._resuming is not None:
            self.running.pop(None, None)
            self._resuming = None

    def _begin(self, event: Event) -> None:
        response = event["response"]
        self.ids.append(response["id"])
        self.running[event.get("stream_id")] = response["id"]
        self.numbers[response["id"]] = event["sequence_number"]
        tag = response["metadata"].get("tag")
        if tag not in self.tags:  # a successor has its ancestor's
            self.tags.add(tag)
            self.owed -= 1


class Progress(Struct):
    """How far somebody has read."""

    id: str | None = None
    last: int = -1
    ended: bool = False
    refused: bool = False
    """There is nothing to read."""

    def see(self, event: Event) -> None:
        if event["type"] == "response.created":
            self.id, self.ended = event["response"]["id"], False
        self.last = event.get("sequence_number", self.last)
        self.ended = self.ended or event["type"] in TERMINAL


class _Asked(Struct, frozen=True):
    """A request for events."""

    method: str
    path: str
    gateway: str
    url: str
    body: Event | None = None


class Caller:
    """Over HTTP, with one key; each request at the next door."""

    def __init__(
        self, note: Note, url: str | Doors, owner: str, headers: Mapping[str, str]
    ) -> None:
        self.owner = owner
        self._doors = Doors.of(url)
        self._note = note
        self._reading: dict[str, asyncio.Timeout] = {}
        limits = httpx.Limits(max_connections=64)
        # Reading the certificates of the world, for nothing, would take 40 ms each time.
        self._http = httpx.AsyncClient(
            headers=dict(headers),
            timeout=_LONGEST,
            limits=limits,
            # vivace: ignore[python-tls-not-checked] plain HTTP to this machine
            verify=False,
        )

    async def __aenter__(self) -> Caller:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.aclose()

    async def call(self, method: str, path: str, body: Event | None = None) -> Called:
        begin = time.monotonic()
        status, answer = None, None
        gateway, url = self._doors.next()
        with contextlib.suppress(httpx.TransportError):
            got = await self._http.request(method, url + path, json=body)
            status, answer = got.status_code, _read(got)
        end = None if status is None else time.monotonic()
        called = Called(begin, end, self.owner, method, path, body, status, answer, gateway)
        self._note(called)
        return called

    def reads(self, name: str) -> bool:
        return name in self._reading

    def cut(self, name: str) -> None:
        """This stream is gone, without a word."""
        reading = self._reading.get(name)
        if reading is not None and not reading.expired():
            reading.reschedule(asyncio.get_running_loop().time())

    async def stream(
        self, name: str, body: Event, seconds: float, created: Callable[[str], None]
    ) -> Progress:
        """Ask for a turn and read its events, for so long at most."""
        gateway, url = self._doors.next()
        self._note(Joined(time.monotonic(), name, self.owner, gateway=gateway))
        self._note(Sent(time.monotonic(), name, {"type": "response.create", **body}))
        asked = _Asked("POST", "/v1/responses", gateway, url, {**body, "stream": True})
        return await self._read_events(name, seconds, asked, created)

    async def replay(
        self, name: str, response_id: str, after: int | None, seconds: float
    ) -> Progress:
        """Read the events of a response that somebody asked for."""
        gateway, url = self._doors.next()
        self._note(Joined(time.monotonic(), name, self.owner, response_id, after, gateway))
        path = f"/v1/responses/{response_id}?stream=true"
        path += f"&starting_after={after}" if after is not None else ""
        progress = await self._read_events(name, seconds, _Asked("GET", path, gateway, url))
        progress.id = progress.id or response_id
        return progress

    async def _read_events(
        self,
        name: str,
        seconds: float,
        asked: _Asked,
        created: Callable[[str], None] = lambda _: None,
    ) -> Progress:
        begin = time.monotonic()
        status = None
        how: Any = "vanished"
        progress = Progress()
        with contextlib.suppress(httpx.TransportError, TimeoutError):
            async with (
                asyncio.timeout(seconds) as patience,
                self._http.stream(asked.method, asked.url + asked.path, json=asked.body) as answer,
            ):
                self._reading[name] = patience
                status = answer.status_code
                progress.refused = 400 <= status < 500
                async for line in answer.aiter_lines():
                    if line.startswith("data: {"):
                        event = json.loads(line[6:])
                        self._note(Saw(time.monotonic(), name, event))
                        progress.see(event)
                        if event["type"] == "response.created":
                            created(event["response"]["id"])
                how = "left"
        self._reading.pop(name, None)
        self._note(Left(time.monotonic(), name, how))
        if asked.method == "GET" or status != 200:
            end = None if status is None else time.monotonic()
            what = asked.method, asked.path, asked.body
            self._note(Called(begin, end, self.owner, *what, status, gateway=asked.gateway))
        return progress


def _read(got: httpx.Response) -> Any:
    try:
        return got.json()
    except ValueError:
        return got.text

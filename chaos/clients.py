"""Clients that say what they are told to, and put it on record with all that they see."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import httpx
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from chaos.history import Called, Event, Joined, Left, Note, Saw, Sent
from chaos.lives import TERMINAL

__all__ = ["Caller", "Talker"]

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
        self.closed = False
        self._note = note
        self._socket = socket

    @classmethod
    @contextlib.asynccontextmanager
    async def join(
        cls, note: Note, url: str, name: str, owner: str, headers: Mapping[str, str]
    ) -> AsyncIterator[Talker]:
        async with connect(
            url.replace("http", "ws", 1) + "/v1/responses",
            additional_headers=headers,
            compression=None,
            max_size=None,
            max_queue=1024,
            open_timeout=_LONGEST,
        ) as socket:
            talker = cls(note, name, owner, socket)
            note(Joined(time.monotonic(), name, owner))
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
        if kind == "response.created":
            self._begin(event)
        elif kind in TERMINAL:
            response = event["response"]
            self.running.pop(event.get("stream_id"), None)
            calls = [item for item in response["output"] if item["type"].endswith("_call")]
            if calls:
                self.calls[response["id"]] = calls
        elif kind == "error" or kind.endswith(".accepted"):
            self.owed -= 1
        elif kind == "response.steer.failed":
            self.owed -= "id" not in event["steer"]

    def _begin(self, event: Event) -> None:
        response = event["response"]
        self.ids.append(response["id"])
        self.running[event.get("stream_id")] = response["id"]
        tag = response["metadata"].get("tag")
        if tag not in self.tags:  # a successor has its ancestor's
            self.tags.add(tag)
            self.owed -= 1


class Caller:
    """Over HTTP, with one key."""

    def __init__(self, note: Note, url: str, owner: str, headers: Mapping[str, str]) -> None:
        self.owner = owner
        self._note = note
        limits = httpx.Limits(max_connections=64)
        self._http = httpx.AsyncClient(
            base_url=url, headers=dict(headers), timeout=_LONGEST, limits=limits
        )

    async def __aenter__(self) -> Caller:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.aclose()

    async def call(self, method: str, path: str, body: Event | None = None) -> Called:
        begin = time.monotonic()
        status, answer = None, None
        with contextlib.suppress(httpx.TransportError):
            got = await self._http.request(method, path, json=body)
            status, answer = got.status_code, _read(got)
        end = None if status is None else time.monotonic()
        called = Called(begin, end, self.owner, method, path, body, status, answer)
        self._note(called)
        return called

    async def stream(
        self, name: str, body: Event, seconds: float, created: Callable[[str], None]
    ) -> None:
        """Ask for a turn and read its events, for so long at most."""
        self._note(Joined(time.monotonic(), name, self.owner))
        self._note(Sent(time.monotonic(), name, {"type": "response.create", **body}))
        body = {**body, "stream": True}
        await self._read_events(name, seconds, "POST", "/v1/responses", body, created)

    async def replay(self, name: str, response_id: str, after: int | None, seconds: float) -> None:
        """Read the events of a response that somebody asked for."""
        self._note(Joined(time.monotonic(), name, self.owner, response_id, after))
        path = f"/v1/responses/{response_id}?stream=true"
        path += f"&starting_after={after}" if after is not None else ""
        await self._read_events(name, seconds, "GET", path, None)

    async def _read_events(
        self,
        name: str,
        seconds: float,
        method: str,
        path: str,
        body: Event | None,
        created: Callable[[str], None] = lambda _: None,
    ) -> None:
        begin = time.monotonic()
        status = None
        how: Any = "vanished"
        with contextlib.suppress(httpx.TransportError, TimeoutError):
            async with (
                asyncio.timeout(seconds),
                self._http.stream(method, path, json=body) as answer,
            ):
                status = answer.status_code
                async for line in answer.aiter_lines():
                    if line.startswith("data: {"):
                        event = json.loads(line[6:])
                        self._note(Saw(time.monotonic(), name, event))
                        if event["type"] == "response.created":
                            created(event["response"]["id"])
                how = "left"
        self._note(Left(time.monotonic(), name, how))
        if method == "GET" or status != 200:
            end = None if status is None else time.monotonic()
            self._note(Called(begin, end, self.owner, method, path, body, status))


def _read(got: httpx.Response) -> Any:
    try:
        return got.json()
    except ValueError:
        return got.text

"""Stands between the gateway and every client of a test, and checks all that is said.

It wraps the ASGI application, so nothing escapes it: not what the SDK or Codex CLI throws away,
nor what a test forgets to look at.
"""

from __future__ import annotations

import contextlib
import json
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tests.support.wire_schema import wire_schema

_LOST = {"resumed_elsewhere", "response_not_found", "stream_busy"}
TERMINAL = {"response.completed", "response.incomplete", "response.failed"}


class Order:
    """Checks the numbering and the ends of responses that follow each other on one stream."""

    def __init__(self) -> None:
        self._next: int | None = None
        self._resumed = False
        """Whether nothing has come yet since the client asked for what follows a number: of an end
        that it knows it hears once more."""

    def problems(self, event: dict[str, Any]) -> list[str]:
        kind, number = event["type"], event.get("sequence_number")
        if number is None or kind.startswith("response.steer."):  # receipts are no part of it
            return []
        if kind == "response.created":
            new = self._next is None or self._resumed
            found = [] if new else ["a response began before the last one ended"]
            self._next = 0
        else:
            found = [] if self._next is not None else [f"{kind} outside of a response"]
        again = self._resumed and kind in TERMINAL and self._next is not None
        if number != self._next and not (again and number < self._next):
            found.append(f"{kind} has sequence_number {number}, expected {self._next}")
        self._next = None if kind in TERMINAL else number + 1
        self._resumed = False
        return found

    def resumed(self, after: int) -> None:
        """The client has asked for what follows this number."""
        self._next, self._resumed = after + 1, True

    def lost(self) -> None:
        """It will hear no more of it."""
        self._next = None


class Witness:
    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self.problems: list[str] = []
        self.events: list[str] = []
        self.received = 0
        """Messages that came over WebSockets."""
        self.requests = 0
        """Requests over HTTP that are not answered yet."""
        self.bodies = 0
        """Requests over HTTP that the gateway has read to their end."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        hearing = _Hearing(self, scope)

        async def overheard(message: Message) -> None:
            await send(message)  # first: what was cancelled while it waited was never said
            hearing.hear(message)

        async def listening() -> Message:
            message = await receive()
            hearing.listen(message)
            return message

        over_http = scope["type"] == "http"
        self.requests += over_http
        try:
            await self._app(scope, listening, overheard)
        finally:
            self.requests -= over_http


class _Hearing:
    """What is said in one request or connection."""

    def __init__(self, witness: Witness, scope: Scope) -> None:
        self._witness = witness
        self._path: str = scope.get("path", "")
        self._method: str = scope.get("method", "")
        self._status = 0
        self._streaming = False
        self._body = b""
        self._orders: dict[str | None, Order] = {}

    def listen(self, message: Message) -> None:
        if message["type"] == "http.request" and not message.get("more_body"):
            self._witness.bodies += 1
        if message["type"] != "websocket.receive":
            return
        self._witness.received += 1
        if "response.resume" not in str(message):
            return
        with contextlib.suppress(ValueError):
            asked = json.loads(message.get("text") or message.get("bytes") or b"")
            order = self._orders.setdefault(asked.get("stream_id"), Order())
            order.resumed(asked.get("starting_after", -1))

    def hear(self, message: Message) -> None:
        match message["type"]:
            case "websocket.send":
                self._event(json.loads(message["text"]), websocket=True)
            case "http.response.start":
                self._status = message["status"]
                types = [value for name, value in message["headers"] if name == b"content-type"]
                self._streaming = any(b"event-stream" in value for value in types)
            case "http.response.body" if self._speaks():
                self._body += message.get("body", b"")
                if self._streaming:
                    *events, self._body = self._body.split(b"\n\n")
                    for event in events:
                        self._sse(event.decode())
                elif not message.get("more_body"):
                    self._object(self._body)

    def _speaks(self) -> bool:
        """Whether the body is of the Responses API; a browser's preflight is not."""
        return self._path.startswith("/v1/responses") and self._method != "OPTIONS"

    def _sse(self, text: str) -> None:
        if text == "data: [DONE]":
            return
        name, data = text.split("\n", 1)
        event = json.loads(data.removeprefix("data: "))
        if name != f"event: {event['type']}":
            self._witness.problems.append(f"SSE name {name!r} for event {event['type']!r}")
        self._event(event, websocket=False)

    def _event(self, event: dict[str, Any], *, websocket: bool) -> None:
        problems = wire_schema().event_problems(event, websocket=websocket)
        if self._method != "GET":  # a replay may start in the middle
            order = self._orders.setdefault(event.get("stream_id"), Order())
            problems += order.problems(event)
            if event.get("error", {}).get("code") in _LOST:
                order.lost()
        self._witness.events.append(event["type"])
        self._witness.problems += problems

    def _object(self, body: bytes) -> None:
        try:
            value = json.loads(body)
        except ValueError:
            self._witness.problems.append(f"not JSON: {body[:80]!r}")
            return
        if self._status >= 400:
            found = wire_schema().problems(value["error"], "ErrorPayload")
        elif self._path.endswith("/compact"):
            found = wire_schema().problems(value, "CompactResource")
        elif self._path.endswith("/input_items"):
            found = [p for i in value["data"] for p in wire_schema().problems(i, "ItemField")]
        elif value.get("object") == "response":
            found = wire_schema().problems(value, "ResponseResource")
        else:
            found = []
        self._witness.problems += found

"""A WebSocket client that says what it means."""

from __future__ import annotations

import json
from types import TracebackType
from typing import Any

from websockets.sync.client import ClientConnection, connect

from tests.support.witness import TERMINAL

Event = dict[str, Any]


class Socket:
    def __init__(self, url: str, **headers: str) -> None:
        address = url.replace("http", "ws", 1) + "/responses"
        self.raw: ClientConnection = connect(
            address, additional_headers=headers, compression=None, max_size=None
        )

    def __enter__(self) -> Socket:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.raw.close()

    def send(self, **event: Any) -> None:
        self.raw.send(json.dumps(event))

    def create(self, input: Any = None, **body: Any) -> None:  # noqa: A002 - the wire's word
        self.send(type="response.create", **({"input": input} if input is not None else {}), **body)

    def read(self, timeout: float = 10) -> Event:
        event: Event = json.loads(self.raw.recv(timeout))
        return event

    def until_end(self, timeout: float = 10) -> list[Event]:
        """Events up to the end of a response, or up to an error."""
        events = []
        while True:
            events.append(self.read(timeout))
            if events[-1]["type"] in TERMINAL | {"error"}:
                return events

    def turn(self, input: Any = None, **body: Any) -> Event:  # noqa: A002
        """One whole turn; returns its last event."""
        self.create(input, **body)
        return self.until_end()[-1]

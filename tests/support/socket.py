"""A WebSocket client that says what it means."""

from __future__ import annotations

import contextlib
import json
import socket
import sys
from collections.abc import Mapping
from types import TracebackType
from typing import Any

from websockets.sync.client import ClientConnection, connect

from tests.support.waiting import PATIENCE_S
from tests.support.witness import TERMINAL

Event = dict[str, Any]


class Socket:
    def __init__(
        self,
        url: str,
        headers: Mapping[str, str] | None = None,
        *,
        receive_buffer: int | None = None,
    ) -> None:
        """A small ``receive_buffer`` makes a client that soon takes no more, once it stops to
        ``read``."""
        address = url.replace("http", "ws", 1) + "/responses"
        plug = _plug(url, receive_buffer) if receive_buffer else None
        self.raw: ClientConnection = connect(
            address,
            sock=plug,
            additional_headers=headers,
            compression=None,
            max_size=None,
            close_timeout=2,  # who leaves an answer unread hears no goodbye, and would wait for ten
        )

    def __enter__(self) -> Socket:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is not None:  # do not wait for a goodbye when the test has failed already
            self.vanish()
        self.raw.close()

    def vanish(self) -> None:
        """Leave without a word, as a client does that crashed."""
        with contextlib.suppress(OSError):
            self.raw.socket.shutdown(socket.SHUT_RDWR)

    def send(self, **event: Any) -> None:
        self.raw.send(json.dumps(event))

    def create(self, input: Any = None, **body: Any) -> None:  # noqa: A002 - the wire's word
        self.send(type="response.create", **({"input": input} if input is not None else {}), **body)

    def read(self, timeout: float = PATIENCE_S) -> Event:
        event: Event = json.loads(self.raw.recv(timeout))
        return event

    def until_end(self, timeout: float = PATIENCE_S) -> list[Event]:
        """Events up to the end of a response, or up to an error."""
        events = []
        while True:
            events.append(self.read(timeout))
            if events[-1]["type"] in TERMINAL | {"error"}:
                return events

    def until_ends(self, count: int, timeout: float = PATIENCE_S) -> list[Event]:
        """Events up to the end of that many responses, whatever their lanes."""
        return [event for _ in range(count) for event in self.until_end(timeout)]

    def until(self, kind: str, timeout: float = PATIENCE_S) -> Event:
        """The next event of this type; those before it are dropped."""
        while (event := self.read(timeout))["type"] != kind:
            pass
        return event

    def turn(self, input: Any = None, **body: Any) -> Event:  # noqa: A002
        """One whole turn; returns its last event."""
        self.create(input, **body)
        return self.until_end()[-1]


def narrow(plug: socket.socket, receive_buffer: int) -> None:
    """Have a socket that does not connect yet take little at a time.

    A segment of the loopback has 64 KB. A buffer that holds no whole one opens for the sender only
    when this asks, and some readers would wait for seconds, so segments get smaller with it.
    """
    if sys.platform == "linux":
        plug.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 1024)
    plug.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)


def _plug(url: str, receive_buffer: int) -> socket.socket:
    plug = socket.socket()
    narrow(plug, receive_buffer)
    host, port = url.removeprefix("http://").removesuffix("/v1").split(":")
    plug.connect((host, int(port)))
    return plug

"""A WebSocket to a gateway, for benchmarks that look at single events."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import AsyncIterator
from typing import Any, Self

from websockets.asyncio.client import ClientConnection, connect

Event = dict[str, Any]


class Client:
    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket

    @classmethod
    @contextlib.asynccontextmanager
    async def at(cls, port: int, key: str = "none") -> AsyncIterator[Self]:
        address = f"ws://127.0.0.1:{port}/v1/responses"
        headers = {"Authorization": f"Bearer {key}"}
        async with connect(
            address, compression=None, max_size=None, additional_headers=headers
        ) as socket:
            yield cls(socket)

    async def send(self, kind: str, **fields: Any) -> float:
        """Returns the time at which it was sent."""
        sent = time.perf_counter()
        await self._socket.send(json.dumps({"type": f"response.{kind}", **fields}))
        return sent

    async def event(self) -> Event:
        event: Event = json.loads(await self._socket.recv())
        return event

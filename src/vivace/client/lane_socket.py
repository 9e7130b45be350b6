"""Many lanes on one WebSocket, which is there when it is wanted and comes back when it breaks."""

from __future__ import annotations

import asyncio
import copy
from asyncio import Future, Queue, Task
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing, suppress
from typing import Any

import msgspec
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed

from vivace.client.dialling import dial, why_closed
from vivace.client.errors import ClientError
from vivace.client.events import decode_event
from vivace.client.lane_table import LaneTable, Unheard

__all__ = ["LaneSocket"]

_SOON_S = 0.5
_LATEST_S = 30.0
"""How long to wait before a server that went away is looked for again: first, and at most."""


class LaneSocket:
    """One task keeps the connection; who asks only tells it that one is wanted."""

    def __init__(self, url: str, key: str | None) -> None:
        self._url = url
        self._key = key
        self._table: LaneTable | None = None
        """Of the connection, while there is one."""
        self._keeper: Task[None] | None = None
        self._wanted = asyncio.Event()
        self._hopes: list[Future[ClientError | None]] = []
        """Of those who wait for a connection: why there is none, or nothing."""

    async def answer(self, lane: str, body: Mapping[str, Any]) -> AsyncGenerator[str, None]:
        """What is written in answer to ``response.create``; closing this interrupts it."""
        stale = self._table is not None
        while True:
            table = await self._connected()
            request = table.ask(lane, body)
            try:
                async with aclosing(request.texts()) as texts:
                    async for text in texts:
                        yield text
                return
            except Unheard:
                if not stale:
                    raise
                stale = False  # it was open for a while; who knows since when nobody heard it
            finally:
                table.leave(request)

    async def close(self) -> None:
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.wait([self._keeper])

    # -- the connection ---------------------------------------------------------------------------

    async def _connected(self) -> LaneTable:
        while self._table is None:
            if self._keeper is None or self._keeper.done():
                self._keeper = asyncio.create_task(self._keep_connected())
            hope: Future[ClientError | None] = asyncio.get_running_loop().create_future()
            self._hopes.append(hope)
            self._wanted.set()
            error = await hope
            if error is not None:
                raise error
        return self._table

    async def _keep_connected(self) -> None:
        """A connection that was there is looked for again by itself, ever more rarely; one that
        never was, or that is refused, when somebody asks."""
        clock = asyncio.get_running_loop().time
        pause: float | None = None
        try:
            while True:
                with suppress(TimeoutError):
                    async with asyncio.timeout(pause):
                        await self._wanted.wait()
                try:
                    socket = await dial(self._url, self._key)
                except ClientError as error:
                    self._tell_hopes(error)
                    gone = error.code == "no_server" or (error.status or 0) >= 500
                    pause = min(pause * 2, _LATEST_S) if pause and gone else None
                    continue
                began = clock()
                await self._talk(socket)
                brief = clock() - began < _LATEST_S
                pause = min((pause or _SOON_S) * 2, _LATEST_S) if brief else _SOON_S
        finally:
            self._tell_hopes(ClientError("The connection was closed."))

    def _tell_hopes(self, error: ClientError | None) -> None:
        self._wanted.clear()
        hopes, self._hopes = self._hopes, []
        for hope in hopes:
            if not hope.done():
                hope.set_result(copy.copy(error))

    async def _talk(self, socket: ClientConnection) -> None:
        """As long as the connection lasts."""
        outbox: Queue[dict[str, Any]] = Queue()
        table = self._table = LaneTable(outbox.put_nowait)
        self._tell_hopes(None)
        writing = asyncio.create_task(_write(socket, outbox))
        end = ClientError("The connection was closed.")
        try:
            while True:
                event = decode_event(await socket.recv())
                if event is None:
                    raise ClientError("The server sent what is no event of the Responses API.")
                table.hear(event)
        except ConnectionClosed as closed:
            end = Unheard(why_closed(closed))
        except ClientError as error:
            end = error
        finally:
            self._table = None
            table.lost(end)
            writing.cancel()
            await asyncio.wait([writing])
            await socket.close()


async def _write(socket: ClientConnection, outbox: Queue[dict[str, Any]]) -> None:
    with suppress(ConnectionClosed):  # whoever reads will notice
        while True:
            await socket.send(msgspec.json.encode(await outbox.get()).decode())

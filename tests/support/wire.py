"""The wire between two processes, and what may happen to it: cut, delayed, or silent one way."""

from __future__ import annotations

import asyncio
import contextlib
from types import TracebackType

__all__ = ["Wire"]


class Wire:
    """``async with Wire(port) as wire``: what is said to ``wire.port`` comes to that port."""

    def __init__(self, port: int) -> None:
        self.to = port
        self.port = 0
        self.delay = 0.0
        self.swallows: set[str] = set()
        """``there`` or ``back``: what goes that way is lost, and nobody is told. A connection that
        has lost something says nothing more that way."""
        self.dialled = 0
        self._open: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> Wire:
        await self.mend()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.cut()

    async def cut(self) -> None:
        """Nobody gets through, nor in."""
        if self._server is not None:
            self._server.close()
            self._server = None
        await self.snap()

    async def snap(self) -> None:
        """What is on its way is lost; who dials again gets through."""
        for task in self._open:
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    async def mend(self) -> None:
        self._server = await asyncio.start_server(self._carry, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _carry(self, near: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        self.dialled += 1
        try:
            far, there = await asyncio.open_connection("127.0.0.1", self.to)
        except OSError:
            self._open.discard(task)
            back.transport.abort()
            return
        ways = [
            asyncio.create_task(self._pass("there", near, there)),
            asyncio.create_task(self._pass("back", far, back)),
        ]
        try:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in ways:
                each.cancel()
            there.transport.abort()
            back.transport.abort()
            self._open.discard(task)

    async def _pass(self, way: str, source: asyncio.StreamReader, to: asyncio.StreamWriter) -> None:
        lost = False
        with contextlib.suppress(OSError):
            while data := await source.read(65536):
                if self.delay:
                    await asyncio.sleep(self.delay)
                lost = lost or way in self.swallows
                if not lost:
                    to.write(data)
                    await to.drain()

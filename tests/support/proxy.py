"""A proxy between two processes, for what happens on the way: it cuts, delays and holds back what
is said, and before PostgreSQL it loses answers: what was asked is done, and nobody hears of it."""

from __future__ import annotations

import asyncio
import contextlib
from types import TracebackType
from typing import Literal

_PARSE, _BIND = ord("P"), ord("B")
"""The first bytes of what has a statement prepared, and of what has a prepared one executed."""

Way = Literal["there", "back"]
"""From who dials to who listens, and from that one."""


class Proxy:
    def __init__(self, port: int, *, reads: bool = True) -> None:
        """``reads``: whether what is asked are statements for PostgreSQL."""
        self._server_port = port
        self.reads = reads
        self._tasks: set[asyncio.Task[None]] = set()
        self._listener: asyncio.Server | None = None
        self.port = 0
        self.delay = 0.0
        """Seconds that everything takes longer, each way."""
        self._cut = False
        self._open: dict[Way, asyncio.Event] = {"there": asyncio.Event(), "back": asyncio.Event()}
        self._links: set[_Link] = set()
        self.lose = 0
        """How many of the next answers are lost, and their connections with them."""
        self.hang = 0
        """How many are lost with nobody being told: the connection stays, and is silent."""
        self.lost = 0
        self.waiting = 0
        """How many pieces of what is said are held back now."""
        self.of = b""
        """Only those to statements that have this in them."""
        self.heal()

    async def __aenter__(self) -> Proxy:
        self._listener = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._listener.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._listener is not None
        self._listener.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # -- what is done to the way ------------------------------------------------------------------

    def cut(self) -> None:
        """Connections break, and new ones do as soon as they are made."""
        self._cut = True
        for link in set(self._links):
            link.abort()

    def hold(self, *ways: Way) -> None:
        """What is said this way, ends of connections too, arrives only when this is healed: nobody
        is told, as when packets are lost and sent again. Both ways, if none is named."""
        for way in ways or tuple(self._open):
            self._open[way].clear()

    def heal(self) -> None:
        self._cut, self.delay = False, 0.0
        for each in self._open.values():
            each.set()

    async def pass_on(self, way: Way) -> None:
        """Returns when what was said may arrive."""
        if self.delay:
            await asyncio.sleep(self.delay)
        self.waiting += 1
        try:
            await self._open[way].wait()
        finally:
            self.waiting -= 1

    # -- connections ------------------------------------------------------------------------------

    async def _serve(self, client: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        if self._cut:
            back.transport.abort()
            return
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            answers, on = await asyncio.open_connection("127.0.0.1", self._server_port)
        except OSError:
            back.close()
            return
        link = _Link(self, client, back, answers, on)
        self._links.add(link)
        with contextlib.suppress(OSError, asyncio.CancelledError):
            if not self._cut:  # while the other side was dialled
                await link.carry()
        self._links.discard(link)
        back.close()
        on.close()


class _Link:
    def __init__(
        self,
        proxy: Proxy,
        client: asyncio.StreamReader,
        back: asyncio.StreamWriter,
        answers: asyncio.StreamReader,
        on: asyncio.StreamWriter,
    ) -> None:
        self._proxy = proxy
        self._client, self._back = client, back
        self._answers, self._on = answers, on
        self._fault = ""
        self._statements: dict[bytes, bytes] = {}
        self._tasks: list[asyncio.Task[None]] = []

    async def carry(self) -> None:
        self._tasks = [asyncio.create_task(self._ask()), asyncio.create_task(self._answer())]
        try:
            await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def abort(self) -> None:
        for writer in (self._back, self._on):
            writer.transport.abort()
        for task in self._tasks:
            task.cancel()

    async def _ask(self) -> None:
        while data := await self._client.read(65536):
            await self._proxy.pass_on("there")
            if self._proxy.reads:
                self._read(data)
            self._on.write(data)
            await self._on.drain()
        await self._proxy.pass_on("there")

    def _read(self, data: bytes) -> None:
        if data[0] == _PARSE:
            name, sql = data[5:].split(b"\0", 2)[:2]
            self._statements[name] = sql
        if data[0] == _BIND and not self._fault and self._is_meant(data):
            self._fault = self._next_fault()

    def _is_meant(self, bind: bytes) -> bool:
        _portal, name = bind[5:].split(b"\0", 2)[:2]
        return self._proxy.of in self._statements.get(name, b"")

    def _next_fault(self) -> str:
        proxy = self._proxy
        if proxy.lose:
            proxy.lose -= 1
            return "lose"
        if proxy.hang:
            proxy.hang -= 1
            return "hang"
        return ""

    async def _answer(self) -> None:
        while data := await self._answers.read(65536):
            await self._proxy.pass_on("back")
            if self._fault:
                self._proxy.lost += 1
            if self._fault == "lose":
                return
            if self._fault == "hang":
                await asyncio.Event().wait()
            self._back.write(data)
            await self._back.drain()
        await self._proxy.pass_on("back")

"""A proxy before PostgreSQL that loses answers: what was asked is done, and nobody hears of it."""

from __future__ import annotations

import asyncio
import contextlib
from types import TracebackType

_PARSE, _BIND = ord("P"), ord("B")
"""The first bytes of what has a statement prepared, and of what has a prepared one executed."""


class Proxy:
    def __init__(self, port: int) -> None:
        self._server_port = port
        self._tasks: set[asyncio.Task[None]] = set()
        self._listener: asyncio.Server | None = None
        self.port = 0
        self.lose = 0
        """How many of the next answers are lost, and their connections with them."""
        self.hang = 0
        """How many are lost with nobody being told: the connection stays, and is silent."""
        self.lost = 0
        self.of = b""
        """Only those to statements that have this in them."""

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

    async def _serve(self, client: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
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
        with contextlib.suppress(OSError, asyncio.CancelledError):
            await link.carry()
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

    async def carry(self) -> None:
        tasks = [asyncio.create_task(self._ask()), asyncio.create_task(self._answer())]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _ask(self) -> None:
        while data := await self._client.read(65536):
            if data[0] == _PARSE:
                name, sql = data[5:].split(b"\0", 2)[:2]
                self._statements[name] = sql
            if data[0] == _BIND and not self._fault and self._is_meant(data):
                self._fault = self._next_fault()
            self._on.write(data)
            await self._on.drain()

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
            if self._fault:
                self._proxy.lost += 1
            if self._fault == "lose":
                return
            if self._fault == "hang":
                await asyncio.Event().wait()
            self._back.write(data)
            await self._back.drain()

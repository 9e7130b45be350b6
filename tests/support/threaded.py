"""A uvicorn on a thread, which is there as soon as it listens and gone as soon as it is told."""

from __future__ import annotations

import asyncio
import contextlib
import math
import socket
import threading

import uvicorn

from tests.support.waiting import eventually_async


class ThreadedServer(uvicorn.Server):
    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._listening = threading.Event()

    @property
    def port(self) -> int:
        return int(self.servers[0].sockets[0].getsockname()[1])

    def wait_until_it_listens(self, thread: threading.Thread) -> None:
        """Without turning in circles, which would take the processor from it."""
        while not self._listening.wait(0.05):
            if not thread.is_alive():
                raise RuntimeError("the server did not start")

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._listening.set()

    async def main_loop(self) -> None:
        """Look every few milliseconds whether it is to end; uvicorn looks every tenth of a second,
        which is more than most tests take."""
        await self.on_tick(0)
        await eventually_async(lambda: self.should_exit, math.inf)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for server in self.servers:
            server.close()
        for connection in list(self.server_state.connections):
            connection.shutdown()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.config.timeout_graceful_shutdown):
                await eventually_async(self._is_calm, math.inf)
        for task in self.server_state.tasks:
            task.cancel()

    def _is_calm(self) -> bool:
        return not self.server_state.connections and not self.server_state.tasks

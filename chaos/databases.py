"""A real PostgreSQL for the gateway of a run, behind a proxy that can lose its answers."""

from __future__ import annotations

import asyncio
import time
from types import TracebackType

from tests.support.postgres import Postgres
from tests.support.proxy import Proxy

from chaos.history import Note, Process, Table
from chaos.tables import dump_postgres

__all__ = ["Database"]

_NAME = "postgres"


class Database:
    """``async with Database(server, note)``: an empty one, of a server that others had before.

    It is always the same: after a crash the server looks at every file that it has.
    """

    def __init__(self, server: Postgres, note: Note) -> None:
        self._server = server
        self._note = note
        self._proxy = Proxy(server.port)
        self._direct = ""
        self._lost = 0
        self._lives = 0

    async def __aenter__(self) -> Database:
        await asyncio.to_thread(self._server.start)
        self._direct = await asyncio.to_thread(self._server.emptied)
        await self._proxy.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._server.thaw()
        await self._proxy.__aexit__(kind, error, traceback)

    @property
    def url(self) -> str:
        """For the gateway."""
        return self._direct.replace(f":{self._server.port}/", f":{self._proxy.port}/")

    async def dump(self) -> list[Table]:
        return await dump_postgres(self._direct)

    # -- what is done to it -----------------------------------------------------------------------

    async def kill(self) -> None:
        await asyncio.to_thread(self._server.kill)
        self._note(Process(time.monotonic(), _NAME, f"life {self._lives}", False))

    async def start(self) -> None:
        """After a crash; returns when it serves."""
        await asyncio.to_thread(self._server.start)
        self._lives += 1
        self._note(Process(time.monotonic(), _NAME, f"life {self._lives}", True))

    def freeze(self) -> None:
        self._server.freeze()

    def thaw(self) -> None:
        self._server.thaw()

    def lose(self, sql: str, *, hang: bool) -> None:
        """The next answer to a statement that has this in it; ``hang``: the connection stays."""
        self._lost = self._proxy.lost
        self._proxy.of = sql.encode()
        if hang:
            self._proxy.hang = 1
        else:
            self._proxy.lose = 1

    @property
    def lost_at(self) -> float | None:
        """When the answer was lost, if it was."""
        return time.monotonic() if self._proxy.lost > self._lost else None

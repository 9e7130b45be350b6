"""Connections to PostgreSQL: a write is done, or it is said that nobody knows.

A statement is never cancelled, neither by a timeout nor because whoever asked has gone: a cancelled
commit may be reported as done without the standby having it. A connection that does not answer in
time is dropped, and the same write is tried on another, where it finds out what became of the
first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import asyncpg

from vivace.errors import StoreError
from vivace.store.health import Health
from vivace.store.postgres_health import is_lost, is_repeatable, store_error

__all__ = ["Connection", "Connections", "Work"]

T = TypeVar("T")
Connection = Any  # asyncpg has no types
Work = Callable[[Connection], Awaitable[T]]

_MOST = 8
"""Connections at once; PostgreSQL has 100 for all gateways unless told otherwise."""
_PATIENCE = 5.0
_IN_TROUBLE = 1.0
"""Seconds that a write waits for its answer, and in trouble that is known: then it is better to
refuse a turn than to have its client wait."""
_TRY = 2.0
"""Seconds after which a connection counts as dead."""
_AT_FIRST = 10.0
"""The same when a gateway starts: nobody waits for it yet, and a server that is only slow would
count as away."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 0.5
_ASIDE = 120.0

_SETTINGS = {
    "application_name": "vivace",
    "jit": "off",
    # To plan a write anew each time takes longer than to carry it out, and no plan is better: rows
    # are found by their ids.
    "plan_cache_mode": "force_generic_plan",
}

# Prompts and code are parameters, and must not stand in the log of the database, where it logs
# statements that are slow or fail. Only a superuser may say so for slow ones; where it has to be
# set up, ``vivace fleet check`` tells.
_LOG_NO_PARAMETERS = """
SELECT set_config('log_parameter_max_length_on_error', '0', false),
    CASE WHEN rolsuper THEN set_config('log_parameter_max_length', '0', false) END
FROM pg_roles WHERE rolname = current_user
"""


class Connections:
    def __init__(self, url: str, health: Health, greet: Work[None]) -> None:
        """``greet`` looks at each new connection, and may object."""
        self._url = url
        self._health = health
        self._greet = greet
        self._idle: list[Connection] = []
        self._room = asyncio.Semaphore(_MOST)
        self._tasks: set[asyncio.Task[Any]] = set()
        self._closed = False

    async def run(self, work: Work[T], *, at_first: bool = False) -> T:
        """Work that may be repeated. It goes on if whoever asked does not wait for it."""
        if self._closed:
            raise StoreError("The store is closed.")
        task = asyncio.create_task(self._persist(work, at_first=at_first))
        self._tasks.add(task)
        task.add_done_callback(self._over)
        return await asyncio.shield(task)

    async def aside(self, work: Work[T]) -> T:
        """Work that takes its time, on a connection of its own."""
        if self._closed:
            raise StoreError("The store is closed.")
        try:
            connection = await self._connect(_TRY)
            try:
                return await asyncio.wait_for(work(connection), _ASIDE)
            finally:
                connection.terminate()
        except (TimeoutError, OSError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
            raise self._failed(error, uncertain=False) from error

    async def close(self) -> None:
        self._closed = True
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_PATIENCE)
        self._drop_idle()

    # -- one write --------------------------------------------------------------------------------

    def _over(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # whoever asked may have gone; it is told in ``trouble``

    async def _persist(self, work: Work[T], *, at_first: bool) -> T:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + (_PATIENCE if self._health.trouble is None else _IN_TROUBLE)
        uncertain, pause = False, _FIRST_PAUSE
        while True:
            sent: list[bool] = []
            try:
                async with self._room:
                    if loop.time() > deadline and self._health.trouble:
                        raise TimeoutError  # it stood behind others that failed
                    done = await self._try(work, sent, _AT_FIRST if at_first else self._limit)
            except Exception as error:
                uncertain = uncertain or (bool(sent) and is_lost(error))
                again = is_lost(error) or is_repeatable(error)
                if not again or loop.time() + pause >= deadline:
                    raise self._failed(error, uncertain=uncertain) from error
                await asyncio.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
            else:
                self._health.recovered()
                return done

    @property
    def _limit(self) -> float:
        return _TRY if self._health.trouble is None else _IN_TROUBLE

    async def _try(self, work: Work[T], sent: list[bool], limit: float) -> T:
        loop = asyncio.get_running_loop()
        connection = await self._take(limit)
        sent.append(True)
        giving_up = loop.call_later(limit, connection.terminate)
        try:
            done = await work(connection)
        except Exception as error:
            if is_lost(error):
                connection.terminate()
                self._drop_idle()  # what broke this one may have broken them
            raise
        finally:
            giving_up.cancel()
            if not connection.is_closed():
                self._idle.append(connection)
        return done

    async def _take(self, limit: float) -> Connection:
        while self._idle:
            connection = self._idle.pop()
            if not connection.is_closed():
                return connection
        return await self._connect(limit)

    async def _connect(self, limit: float) -> Connection:
        connection = await asyncpg.connect(self._url, timeout=limit, server_settings=_SETTINGS)
        try:
            await connection.execute(_LOG_NO_PARAMETERS)
            await self._greet(connection)
        except BaseException:
            connection.terminate()
            raise
        return connection

    def _drop_idle(self) -> None:
        while self._idle:
            self._idle.pop().terminate()

    def _failed(self, error: Exception, *, uncertain: bool) -> StoreError:
        self._health.failed(error)
        return store_error(error, uncertain=uncertain)

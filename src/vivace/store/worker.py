"""A thread with a connection of its own: work goes in, answers come out, whatever happens.

Work that arrives while other work is being written shares the next transaction, so many turns cost
few syncs. When a transaction fails, it is undone and each piece of it is done again by itself, so
that one turn too large for the disk fails alone.

Somebody else's lock is waited for, but nobody waits longer than ``PATIENCE`` from when it asked,
however many stand in the queue. What can be done at once is done, however late.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

from vivace.errors import StoreError
from vivace.store.health import Health, is_busy, store_error

__all__ = ["PATIENCE", "Work", "Worker"]

T = TypeVar("T")

PATIENCE = 5.0

Work = Callable[[sqlite3.Connection], T]


class _Job:
    __slots__ = ("alone", "answer", "deadline", "work")

    def __init__(
        self, work: Work[Any], answer: Callable[[Any, Exception | None], None], *, alone: bool
    ) -> None:
        self.work = work
        self.answer = answer
        self.alone = alone
        self.deadline = time.monotonic() + PATIENCE


class Worker:
    def __init__(
        self,
        name: str,
        connect: Callable[[], sqlite3.Connection],
        health: Health,
        *,
        writes: bool = False,
        after: Callable[[], None] = lambda: None,
    ) -> None:
        """``after`` is called in the thread when something was written, and may object."""
        self._connect = connect
        self._connection: sqlite3.Connection | None = connect()
        self._health = health
        self._writes = writes
        self._after = after
        self._closed = False
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=f"vivace-{name}", daemon=True)
        self._thread.start()

    # -- from outside -----------------------------------------------------------------------------

    async def do(self, work: Work[T], *, alone: bool = False) -> T:
        """Work that takes its time wants a transaction ``alone``, so that no other waits for it."""
        if self._closed:
            raise StoreError("The store is closed.")
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()

        def settle(result: T, error: Exception | None) -> None:
            if done.done():  # whoever asked has given up
                return
            if error is not None:
                done.set_exception(store_error(error))
            else:
                done.set_result(result)

        def answer(result: T, error: Exception | None) -> None:
            with contextlib.suppress(RuntimeError):  # the loop has ended, and nobody waits
                loop.call_soon_threadsafe(settle, result, error)

        self._jobs.put(_Job(work, answer, alone=alone))
        return await done

    def post(self, work: Work[object]) -> None:
        """Have it done some time; from any thread."""
        if not self._closed:
            self._jobs.put(_Job(work, lambda _result, _error: None, alone=True))

    async def close(self) -> None:
        """Do what was asked until now, and end."""
        self._closed = True
        self._jobs.put(None)
        await asyncio.to_thread(self._thread.join)

    # -- the thread -------------------------------------------------------------------------------

    def _run(self) -> None:
        waiting: deque[_Job] = deque()
        is_open = True
        while is_open or waiting:
            is_open = self._take(waiting) if is_open else False
            self._serve(_first(waiting), waiting)
        if self._connection is not None:
            self._connection.close()

    def _take(self, waiting: deque[_Job]) -> bool:
        """Wait for work if there is none, and take all there is; False when there will be none."""
        try:
            while True:
                job = self._jobs.get_nowait() if waiting else self._jobs.get()
                if job is None:
                    return False
                waiting.append(job)
        except queue.Empty:
            return True

    def _serve(self, batch: list[_Job], waiting: deque[_Job]) -> None:
        try:
            connection = self._connected()
            if not self._writes:
                self._read(connection, batch)
            elif batch and self._begin(connection, batch, waiting):
                self._write(connection, batch, waiting)
        except Exception as error:  # noqa: BLE001 - others need this thread, and these an answer
            self._fail(batch, error)

    def _read(self, connection: sqlite3.Connection, batch: list[_Job]) -> None:
        for job in batch:
            _wait(connection, until=job.deadline)
            try:
                job.answer(job.work(connection), None)
            except Exception as error:  # noqa: BLE001 - it is told to whoever asked
                self._fail([job], error)

    def _begin(
        self, connection: sqlite3.Connection, batch: list[_Job], waiting: deque[_Job]
    ) -> bool:
        """False when another has the lock: who can still wait goes back to the queue's head."""
        try:
            _wait(connection, until=batch[0].deadline)
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            if not is_busy(error):
                raise
            now = time.monotonic()
            waiting.extendleft(job for job in reversed(batch) if job.deadline > now)
            self._fail([job for job in batch if job.deadline <= now], error)
            return False
        return True

    def _write(
        self, connection: sqlite3.Connection, batch: list[_Job], waiting: deque[_Job]
    ) -> None:
        try:
            results = [job.work(connection) for job in batch]
            connection.execute("COMMIT")
        except Exception:
            self._undo(connection)
            if len(batch) == 1:
                raise
            for job in batch:
                self._serve([job], waiting)
        else:
            self._after()
            for job, result in zip(batch, results, strict=True):
                job.answer(result, None)

    def _undo(self, connection: sqlite3.Connection) -> None:
        try:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        except Exception:  # noqa: BLE001 - nobody knows its state; a new one has none
            self._connection = None
            with contextlib.suppress(sqlite3.Error):
                connection.close()

    def _connected(self) -> sqlite3.Connection:
        if self._connection is None:
            self._connection = self._connect()
        return self._connection

    def _fail(self, jobs: list[_Job], error: Exception) -> None:
        self._health.failed(error)
        for job in jobs:
            job.answer(None, error)


def _wait(connection: sqlite3.Connection, *, until: float) -> None:
    """How long its next statement may wait for somebody's lock."""
    wait = max(0, round((until - time.monotonic()) * 1000))
    connection.execute(f"PRAGMA busy_timeout = {wait}")


def _first(waiting: deque[_Job]) -> list[_Job]:
    """Those that share a transaction; one that is to be alone shares with none."""
    batch: list[_Job] = []
    while waiting and not (batch and (waiting[0].alone or batch[0].alone)):
        batch.append(waiting.popleft())
    return batch

"""Turns in one SQLite file: the store of a single node.

All access goes through one thread, because SQLite has one writer anyway. Saves that arrive while
another is being written share the next transaction, so many turns cost few syncs.
"""

from __future__ import annotations

import asyncio
import queue
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from vivace.errors import StoreError
from vivace.store.base import StoredTurn

__all__ = ["SqliteStore"]

T = TypeVar("T")

_SCHEMA = """
CREATE TABLE IF NOT EXISTS turns (
    id TEXT PRIMARY KEY,
    owner TEXT NOT NULL,
    previous_id TEXT,
    created_at INTEGER NOT NULL,
    tokens INTEGER NOT NULL,
    input BLOB NOT NULL,
    response BLOB NOT NULL
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS turns_by_age ON turns (created_at);
PRAGMA user_version = 1;
"""

_COLUMNS = "id, owner, previous_id, created_at, tokens, input, response"

_CHAIN = f"""
WITH RECURSIVE chain AS (
    SELECT 0 AS depth, {_COLUMNS} FROM turns WHERE id = ? AND owner = ?
    UNION ALL
    SELECT chain.depth + 1, turns.id, turns.owner, turns.previous_id, turns.created_at,
           turns.tokens, turns.input, turns.response
    FROM turns JOIN chain ON turns.id = chain.previous_id AND turns.owner = chain.owner
)
SELECT {_COLUMNS} FROM chain ORDER BY depth DESC
"""  # noqa: S608 - the columns are a constant of this module

_Job = Callable[[sqlite3.Connection], None]


class SqliteStore:
    def __init__(self, path: Path | str, *, max_age: float, max_bytes: int) -> None:
        self._path = str(path)
        self._max_age = max_age
        self._max_bytes = max_bytes
        self._closed = False
        self._after_commit: list[Callable[[sqlite3.Error | None], object]] = []
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        try:
            self._connection = self._open()
        except sqlite3.Error as error:
            raise StoreError(
                f"The store {path} cannot be opened: {error}. Name another path in [store], or "
                "':memory:' to keep nothing."
            ) from error
        self._thread = threading.Thread(target=self._work, name="vivace-store", daemon=True)
        self._thread.start()

    def _open(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False)
        # WAL with NORMAL loses nothing when the process dies; only a power cut may take the
        # newest transactions, and then the file is still whole.
        connection.execute("PRAGMA auto_vacuum = FULL")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.executescript(_SCHEMA)
        return connection

    # -- the store --------------------------------------------------------------------------------

    async def save(self, turn: StoredTurn) -> None:
        row = (
            turn.id,
            turn.owner,
            turn.previous_id,
            turn.created_at,
            turn.tokens,
            turn.input,
            turn.response,
        )
        sql = "INSERT OR REPLACE INTO turns VALUES (?, ?, ?, ?, ?, ?, ?)"
        await self._do(lambda db: db.execute(sql, row))

    async def load(self, response_id: str, owner: str) -> StoredTurn | None:
        sql = f"SELECT {_COLUMNS} FROM turns WHERE id = ? AND owner = ?"  # noqa: S608
        row = await self._do(lambda db: db.execute(sql, (response_id, owner)).fetchone())
        return _turn(row) if row else None

    async def chain(self, response_id: str, owner: str) -> list[StoredTurn] | None:
        rows = await self._do(lambda db: db.execute(_CHAIN, (response_id, owner)).fetchall())
        turns = [_turn(row) for row in rows]
        return turns if turns and turns[0].previous_id is None else None

    async def delete(self, response_id: str, owner: str) -> bool:
        sql = "DELETE FROM turns WHERE id = ? AND owner = ?"
        count = await self._do(lambda db: db.execute(sql, (response_id, owner)).rowcount)
        return bool(count)

    async def prune(self, now: int) -> int:
        return await self._do(lambda db: self._prune(db, now))

    async def close(self) -> None:
        self._closed = True
        self._jobs.put(None)
        await asyncio.to_thread(self._thread.join)

    # -- the thread -------------------------------------------------------------------------------

    async def _do(self, work: Callable[[sqlite3.Connection], T]) -> T:
        if self._closed:
            raise StoreError("The store is closed.")
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()

        def settle(result: T | None, error: Exception | None) -> None:
            if done.cancelled():
                return
            if error is not None:
                done.set_exception(StoreError(f"The store failed: {error}."))
            else:
                done.set_result(result)  # type: ignore[arg-type]

        def job(db: sqlite3.Connection) -> None:
            result, error = None, None
            try:
                result = work(db)
            except Exception as caught:  # noqa: BLE001 - the thread serves others too
                error = caught
            self._after_commit.append(
                lambda failed: loop.call_soon_threadsafe(settle, result, error or failed)
            )

        self._jobs.put(job)
        return await done

    def _work(self) -> None:
        """Run jobs in batches, each batch in one transaction; answer after the commit."""
        while True:
            job = self._jobs.get()
            self._after_commit = []
            self._connection.execute("BEGIN")
            stop = job is None
            while job is not None:
                job(self._connection)
                try:
                    job = self._jobs.get_nowait()
                except queue.Empty:
                    break
                stop = job is None
            failed = self._commit()
            for answer in self._after_commit:
                answer(failed)
            if stop:
                self._connection.close()
                return

    def _commit(self) -> sqlite3.Error | None:
        """A failure here (a full disk) is a failure of every save in the batch."""
        try:
            self._connection.execute("COMMIT")
        except sqlite3.Error as error:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            return error
        return None

    def _prune(self, db: sqlite3.Connection, now: int) -> int:
        before = now - int(self._max_age)
        gone = db.execute("DELETE FROM turns WHERE created_at < ?", (before,)).rowcount
        # length() reads headers only; the file's own size would count free pages too.
        sizes = db.execute(
            "SELECT id, length(input) + length(response) FROM turns ORDER BY created_at DESC, id"
        )
        total = 0
        too_much: list[tuple[Any]] = []
        for turn_id, size in sizes:
            total += size
            if total > self._max_bytes:
                too_much.append((turn_id,))
        db.executemany("DELETE FROM turns WHERE id = ?", too_much)
        return gone + len(too_much)


def _turn(row: tuple[Any, ...]) -> StoredTurn:
    return StoredTurn(
        id=row[0],
        owner=row[1],
        previous_id=row[2],
        created_at=row[3],
        tokens=row[4],
        input=row[5],
        response=row[6],
    )

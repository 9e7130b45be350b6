"""The shipped SQLite store without its threads: what it writes takes made-up time, may be lost on
the way there or back, and is done whole or not at all."""

from __future__ import annotations

import asyncio
import json
import os
import random
import sqlite3
import time
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeVar

from chaos.history import Table
from chaos.simulation.loop import Life, in_life
from vivace.errors import StoreError
from vivace.store.health import store_error
from vivace.store.journal import FileJournal
from vivace.store.schema import prepare
from vivace.store.sqlite import SqliteStore
from vivace.store.worker import Work

__all__ = ["Database", "SimulatedJournal", "SimulatedStore"]

T = TypeVar("T")

_SEGMENT = 192 * 1024
_NOBODY = in_life(None)


class Database:
    """What outlives gateways."""

    def __init__(self) -> None:
        self.db = sqlite3.connect(":memory:", isolation_level=None)
        _empty().backup(self.db)
        self.away = False
        """Nothing that is asked of it gets there, or comes back."""

    def do(self, work: Work[T]) -> T:
        self.db.execute("BEGIN")
        try:
            done = work(self.db)
        except BaseException:
            self.db.execute("ROLLBACK")
            raise
        self.db.execute("COMMIT")
        return done

    def open_turns(self) -> int:
        found = self.db.execute("SELECT count(*) FROM turns WHERE status IS NULL").fetchone()
        return int(found[0])

    def tables(self, at: float) -> list[Table]:
        self.db.row_factory = sqlite3.Row
        found = []
        for name in ("turns", "orders", "once"):
            rows = self.db.execute(f"SELECT * FROM {name}").fetchall()
            found.append(Table(at, name, [_plain(dict(row)) for row in rows]))
        self.db.row_factory = None
        return found


@cache
def _empty() -> sqlite3.Connection:
    """To be copied, which takes less time than to be made."""
    return prepare(":memory:")


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    plain = {name: value for name, value in row.items() if not isinstance(value, bytes)}
    for name in ("input", "response"):
        value = row.get(name)
        if isinstance(value, bytes):
            plain[name] = json.loads(value) if value else None
    return plain


class _Way:
    """From one gateway to the database, in place of the store's threads."""

    def __init__(self, database: Database, life: Life, dice: random.Random, *, near: bool) -> None:
        """``near``: in the gateway's own process, which does one thing after the other and takes
        what it has not begun with it when it dies."""
        self._database = database
        self._life = life
        self._dice = dice
        self._near = near
        self._free = 0.0
        self._closed = False

    async def do(self, work: Work[T], *, alone: bool = False) -> T:
        if self._closed:
            raise StoreError("The store is closed.")
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[T] = loop.create_future()
        if self._life.effect():
            there = self._there(loop.time())
            loop.call_at(there, self._arrive, work, answer, context=_NOBODY)
        return await answer

    def _there(self, now: float) -> float:
        long = self._dice.random() < 0.05
        if not self._near:
            return now + self._dice.expovariate(1 / (0.2 if long else 0.004))
        takes = self._dice.uniform(0.0001, 0.2 if long else 0.003)
        self._free = max(now, self._free) + takes
        return self._free

    def _arrive(self, work: Work[T], answer: asyncio.Future[T]) -> None:
        if self._near and self._life.over:
            return
        dies = self._life.is_last_write()
        if dies and self._dice.random() < 0.5:  # before it is done; else before anybody knows
            self._life.end()
            return
        if self._is_lost():
            self._ask_again(work, answer)
            return
        tell: Callable[[], None]
        try:
            done = self._database.do(work)
        except Exception as error:  # noqa: BLE001 - it is whoever asked who is told
            tell = partial(_fail, answer, store_error(error))
        else:
            tell = partial(_succeed, answer, done)
        if dies:
            self._life.end()
        if self._is_lost():
            self._ask_again(work, answer)
            return
        back = 0 if self._near else self._dice.expovariate(1 / 0.004)
        asyncio.get_running_loop().call_later(back, tell, context=in_life(self._life))

    def _is_lost(self) -> bool:
        return self._database.away and self._dice.random() < 0.5

    def _ask_again(self, work: Work[T], answer: asyncio.Future[T]) -> None:
        """As the store in PostgreSQL does, for some seconds; nobody is away here for so long."""
        asyncio.get_running_loop().call_later(
            0.25, self._arrive, work, answer, context=in_life(self._life)
        )

    def post(self, work: Work[object]) -> None:
        pass

    async def close(self) -> None:
        self._closed = True


def _succeed(answer: asyncio.Future[T], done: T) -> None:
    if not answer.done():
        answer.set_result(done)


def _fail(answer: asyncio.Future[T], error: Exception) -> None:
    if not answer.done():
        answer.set_exception(error)


class SimulatedStore(SqliteStore):
    """As one gateway has it."""

    def __init__(self, database: Database, life: Life, dice: random.Random, *, near: bool) -> None:
        self._made_of = database, life, dice, near
        super().__init__(
            ":memory:", max_age=10**9, max_bytes=10**12, clock=time.time, monotonic=time.monotonic
        )

    def _open(self, path: Path | str) -> None:
        database, life, dice, near = self._made_of
        way: Any = _Way(database, life, dice, near=near)
        self._writer = self._reader = self._janitor = way


class SimulatedJournal(FileJournal):
    """The shipped one, in a folder that stays when its gateway dies."""

    def __init__(self, folder: Path, life: Life) -> None:
        self._life = life
        super().__init__(folder, segment=_SEGMENT)

    def forget_left(self) -> None:
        if self._life.effect():
            super().forget_left()

    def append(self, turn_id: str, entry: bytes) -> bool:
        return super().append(turn_id, entry) if self._life.effect() else True

    def ended(self, turn_id: str) -> None:
        if self._life.effect():
            super().ended(turn_id)

    def close(self) -> None:
        """A gateway that ends in order is no part of this."""

    def abandon(self) -> None:
        """Its process is gone, and with it what it had open."""
        if self._now is not None:
            os.close(self._now.file)
            self._now = None

"""Turns in one SQLite file: the store of a single node.

Three threads, each with a connection of its own: one writes, because SQLite has one writer anyway;
one reads, which in WAL mode waits for nobody; one copies the WAL into the file, so that no turn
waits for the disk to do that. In memory there is one connection, and it does everything.
"""

from __future__ import annotations

import asyncio
import logging
import math
import sqlite3
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

from vivace.errors import StoreError
from vivace.store import sqlite_orders as orders
from vivace.store import sqlite_turns as turns
from vivace.store.base import (
    Accepted,
    Done,
    Ended,
    Fenced,
    Key,
    KeyReused,
    NewTurn,
    NotOpen,
    OpenTurn,
    Order,
    Ordered,
    OrderState,
    Orphan,
    SteersGone,
    StoredResponse,
    StoredTurn,
    Taken,
    TurnEnd,
    TurnRecord,
    TurnStat,
    UnknownParent,
)
from vivace.store.files import Claim, make
from vivace.store.health import Health, Moved
from vivace.store.pruning import believe, forget, give_back, tidy
from vivace.store.schema import LONG_WAL, MEMORY, connect, prepare
from vivace.store.worker import Work, Worker

__all__ = ["SqliteStore"]

T = TypeVar("T")

log = logging.getLogger("vivace.store")

_PAUSE, _LONGEST_PAUSE = 50, 0.2
"""Between steps of pruning: times as long as one took, so that a busy disk gets less to do, but
within so many seconds, so that forgetting keeps up with saving."""

_WIPE_EVERY = 30.0
"""No deleted text is left in the WAL for longer, however much there is to prune."""

_COPY_EVERY = 1.0

_ROOM = 1_000_000
"""After trouble, a disk has room when it takes as many bytes."""

_DAY = 86_400


class SqliteStore:
    def __init__(
        self,
        path: Path | str,
        *,
        max_age: float,
        max_bytes: int,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._max_age = max_age
        self._max_bytes = max_bytes
        self._clock = clock
        self._monotonic = monotonic
        self._pruned = self._wiped = monotonic()
        self._told_of_leap = False
        self._copied = 0.0
        self._health = Health()
        self._claim: Claim | None = None
        try:
            self._open(path)
        except (OSError, sqlite3.Error) as error:
            self._release()
            why = _reason(error) if isinstance(error, OSError) else error
            raise StoreError(
                f"The store {path} cannot be opened: {why}. Name another path in [store], or "
                "':memory:' to keep nothing."
            ) from error
        except StoreError:
            self._release()
            raise

    def _open(self, path: Path | str) -> None:
        where = MEMORY
        if str(path) != MEMORY:
            file = Path(path).resolve()  # a link does not make it another store
            if file.is_dir():
                raise IsADirectoryError(0, "it is a folder")
            self._claim = Claim(file)
            make(file)
            self._file, self._inode = file, file.stat().st_ino
            self._wal = file.with_name(f"{file.name}-wal")
            where = str(file)
        after = self._look_at_files if self._claim else lambda: None
        self._writer = Worker(
            "store", partial(prepare, where), self._health, writes=True, after=after
        )
        self._reader = self._janitor = self._writer
        if self._claim:
            self._reader = Worker("store-reader", partial(connect, where), self._health)
            self._janitor = Worker("store-janitor", partial(connect, where), self._health)

    # -- turns ------------------------------------------------------------------------------------

    async def open(self) -> None:
        """It was opened when it was made."""

    async def accept(self, turn: NewTurn) -> Accepted | UnknownParent | KeyReused | SteersGone:
        return await self._write(lambda db: turns.accept(db, turn, self._clock()))

    async def attempt(
        self, response_id: str, epoch: int, attempt: int, engine: str, said: bytes
    ) -> Done | Fenced:
        return await self._write(
            lambda db: turns.attempt(db, response_id, epoch, attempt, engine, said)
        )

    async def leave(self, response_id: str, epoch: int, said: bytes) -> Done | Fenced:
        return await self._write(lambda db: turns.leave(db, response_id, epoch, said))

    async def park(self, response_id: str, epoch: int, seconds: float | None) -> Done | Fenced:
        until = None if seconds is None else self._clock() + seconds
        return await self._write(lambda db: turns.park(db, response_id, epoch, until))

    async def end(self, end: TurnEnd) -> Ended | Fenced | SteersGone:
        return await self._write(lambda db: turns.end(db, end, self._clock()))

    async def take(
        self, response_id: str, epoch: int, holder: str, dead_after: float = 0.0
    ) -> Taken | Fenced:
        def work(db: sqlite3.Connection) -> Taken | Fenced:
            before = self._clock() - dead_after if dead_after else math.inf
            return turns.take(db, response_id, epoch, holder, before)

        return await self._write(work)

    async def orphans(
        self, holder: str, dead_after: float, limit: int = 100, *, but: Sequence[str] = ()
    ) -> list[Orphan]:
        # The file is this gateway's alone: at its start all others are gone, whatever the clock is.
        before = self._clock() - dead_after if dead_after else math.inf
        return await self._reader.do(lambda db: turns.orphans(db, holder, before, limit, but))

    async def beat(self, holder: str, dead_after: float = 0.0) -> None:
        # A file has one gateway, so that nobody needs to know for how long this holds.
        await self._write(lambda db: turns.beat(db, holder, self._clock()))

    async def company(self, holder: str, seconds: float) -> int:
        since = self._clock() - seconds
        return await self._reader.do(lambda db: turns.company(db, holder, since))

    async def held(self, holder: str) -> dict[str, int]:
        return await self._reader.do(lambda db: turns.held(db, holder))

    async def open_turns(self, response_id: str, owner: str) -> list[OpenTurn]:
        return await self._reader.do(
            lambda db: turns.open_turns(db, response_id, owner, self._clock())
        )

    async def may_be_continued(self, response_id: str, owner: str) -> bool:
        return await self._reader.do(lambda db: turns.may_be_continued(db, response_id, owner))

    async def open_orders(self, turn_ids: Sequence[str]) -> list[Order]:
        return await self._reader.do(lambda db: orders.open_orders(db, turn_ids))

    async def asked_of(self, holder: str) -> list[Order]:
        return await self._reader.do(lambda db: orders.asked_of(db, holder))

    async def claim(self, order_id: str, owner: str, holder: str) -> Order | None:
        return await self._write(lambda db: orders.claim(db, order_id, owner, holder))

    async def withdraw(self, order_id: str, owner: str) -> Order | None:
        return await self._write(lambda db: orders.withdraw(db, order_id, owner))

    async def reply(
        self, order_id: str, owner: str, reply: bytes, state: OrderState | None = None
    ) -> None:
        await self._write(lambda db: orders.reply(db, order_id, owner, reply, state))

    async def order(
        self, order: Order, key: Key | None = None, *, epoch: int | None = None
    ) -> Ordered | NotOpen | KeyReused | Fenced:
        return await self._write(lambda db: orders.order(db, order, key, self._clock(), epoch))

    async def mark(self, order_id: str, owner: str, state: OrderState) -> Order | None:
        return await self._write(lambda db: orders.mark(db, order_id, owner, state))

    async def find_order(self, order_id: str, owner: str) -> Order | None:
        return await self._reader.do(lambda db: orders.find_order(db, order_id, owner))

    async def find_key(self, key: Key, owner: str) -> str | KeyReused | None:
        return await self._reader.do(lambda db: orders.key_used(db, owner, key, self._clock()))

    async def save(self, turn: StoredTurn) -> None:
        await self._write(lambda db: turns.save(db, turn))

    async def find(self, response_id: str, owner: str) -> TurnRecord | None:
        return await self._reader.do(lambda db: turns.find(db, response_id, owner))

    async def stat(self, response_id: str, owner: str) -> TurnStat | None:
        return await self._reader.do(lambda db: turns.stat(db, response_id, owner))

    async def response(self, response_id: str, owner: str) -> StoredResponse | None:
        return await self._reader.do(lambda db: turns.response(db, response_id, owner))

    async def load(self, response_id: str, owner: str) -> StoredTurn | None:
        return await self._reader.do(lambda db: turns.load(db, response_id, owner))

    async def chain(self, response_id: str, owner: str) -> list[StoredTurn] | None:
        return await self._reader.do(lambda db: turns.chain(db, response_id, owner))

    async def weight(self, response_id: str, owner: str) -> int:
        return await self._reader.do(lambda db: turns.weight(db, response_id, owner))

    async def delete(self, response_id: str, owner: str) -> bool:
        gone = await self._writer.do(lambda db: turns.delete(db, response_id, owner))
        # A conversation may be long, and others write meanwhile: where this is cut off, nothing
        # can be continued all the same, because the way back to its beginning has a gap.
        broken = [response_id] if gone else []
        while broken:
            step = partial(turns.break_following, broken=broken, owner=owner)
            broken = await self._writer.do(step, alone=True)
        return gone

    async def _write(self, work: Work[T]) -> T:
        """What was written shows that the store works."""
        done = await self._writer.do(work)
        self._health.recovered()
        return done

    # -- keeping it in order ----------------------------------------------------------------------

    @property
    def trouble(self) -> str | None:
        return self._health.trouble

    async def prune(self, now: int) -> int:
        before = await self._time(now) - self._max_age
        gone = 0
        while step := await self._step(lambda db: forget(db, before, self._max_bytes)):
            gone += step
        await self._writer.do(lambda db: tidy(db, before, self._clock()), alone=True)
        while await self._step(give_back):
            pass
        await self._wipe()
        if self.trouble:
            await self._prove_room()
        return gone

    async def close(self) -> None:
        for worker in dict.fromkeys((self._janitor, self._reader, self._writer)):
            await worker.close()
        self._release()

    async def _time(self, now: int) -> float:
        clock = self._monotonic()
        ran, self._pruned = clock - self._pruned, clock
        believed = await self._writer.do(lambda db: believe(db, now, ran))
        leapt = now - believed > _DAY
        if leapt and not self._told_of_leap:
            log.warning(
                "the clock is %d days ahead of what the store last knew. Stored turns grow old by "
                "it slowly, a day in an hour; if it is wrong, set it right until then",
                (now - believed) // _DAY,
            )
        self._told_of_leap = leapt
        return believed

    async def _step(self, work: Callable[[sqlite3.Connection], int]) -> int:
        """One step of many: saves that came meanwhile go first."""
        began = time.monotonic()
        done = await self._writer.do(work, alone=True)
        if done:
            await asyncio.sleep(min(_LONGEST_PAUSE, (time.monotonic() - began) * _PAUSE))
            if self._monotonic() - self._wiped > _WIPE_EVERY:
                await self._wipe()
        return done

    async def _wipe(self) -> None:
        """Empty the WAL, where text is still to be read that was deleted from the file."""
        if self._claim is not None:
            await self._janitor.do(_empty_wal)
        self._wiped = self._monotonic()

    async def _prove_room(self) -> None:
        """A small write may succeed on a full disk; a turn would not."""
        for size in (_ROOM, 0):
            await self._writer.do(partial(_fill, size=size), alone=True)
        self._health.recovered()

    def _look_at_files(self) -> None:
        """In the writing thread, after each commit."""
        try:
            moved = self._file.stat().st_ino != self._inode
            length = self._wal.stat().st_size
        except FileNotFoundError:
            moved = True
        if moved:
            raise Moved
        if length > LONG_WAL and time.monotonic() - self._copied > _COPY_EVERY:
            self._copied = time.monotonic()
            self._janitor.post(_empty_wal)

    def _release(self) -> None:
        if self._claim is not None:
            self._claim.release()


def _reason(error: OSError) -> str:
    return f"{error.strerror} ({error.filename})" if error.filename else str(error.strerror)


def _empty_wal(db: sqlite3.Connection) -> None:
    """Copy the WAL into the file, most of it while others write, and cut it off.

    Writers wait for the second part, so those who still read the WAL get little time to finish.
    """
    db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
    db.execute("PRAGMA busy_timeout = 50")
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


def _fill(db: sqlite3.Connection, *, size: int) -> None:
    db.execute("UPDATE ledger SET room = zeroblob(?)", (size,))

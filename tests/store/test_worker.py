"""The thread behind a store: everyone gets an answer, and it goes on, whatever fails in it."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest

from tests.support.waiting import PATIENCE_S
from vivace.errors import StoreError
from vivace.store import worker as worker_module
from vivace.store.health import Health, Moved
from vivace.store.worker import PATIENCE, Worker


class Flaky:
    """A connection on which what begins with certain words fails."""

    def __init__(self) -> None:
        self.real = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        self.real.execute("CREATE TABLE t (x)")
        self.failing: tuple[str, ...] = ()
        self.error: Exception = sqlite3.OperationalError("it broke")

    @property
    def in_transaction(self) -> bool:
        return self.real.in_transaction

    def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
        if self.failing and sql.startswith(self.failing):
            raise self.error
        return self.real.execute(sql, *values)

    def close(self) -> None:
        self.real.close()


def working(
    check: Callable[[Worker, list[Flaky]], Awaitable[None]], *, writes: bool = True
) -> None:
    made: list[Flaky] = []

    def connect() -> Any:
        made.append(Flaky())
        return made[-1]

    async def whole() -> None:
        worker = Worker("test", connect, Health(), writes=writes)
        try:
            await asyncio.wait_for(check(worker, made), PATIENCE_S)
        finally:
            await asyncio.wait_for(worker.close(), PATIENCE_S)

    asyncio.run(whole())


def add(value: int) -> Callable[[sqlite3.Connection], object]:
    return lambda db: db.execute("INSERT INTO t VALUES (?)", (value,))


def values(db: sqlite3.Connection) -> list[int]:
    return [row[0] for row in db.execute("SELECT x FROM t ORDER BY x")]


def fail(db: sqlite3.Connection) -> NoReturn:
    db.execute("INSERT INTO t VALUES (666)")
    raise ZeroDivisionError("the words of a person")


@pytest.mark.parametrize(
    "failing", [("BEGIN",), ("COMMIT",), ("ROLLBACK",), ("COMMIT", "ROLLBACK"), ("PRAGMA",)]
)
@pytest.mark.parametrize("error", [sqlite3.OperationalError("it broke"), RuntimeError("or this")])
def test_whatever_fails_is_told_to_everyone_and_the_thread_goes_on(
    failing: tuple[str, ...], error: Exception
) -> None:
    async def check(worker: Worker, made: list[Flaky]) -> None:
        made[0].failing, made[0].error = failing, error
        answers = await asyncio.gather(
            worker.do(fail), *(worker.do(add(n)) for n in range(5)), return_exceptions=True
        )
        assert isinstance(answers[0], StoreError)
        assert all(isinstance(each, StoreError | sqlite3.Cursor) for each in answers)
        made[0].failing = ()
        await worker.do(add(100))
        assert (await worker.do(values))[-1] == 100

    working(check)


def test_a_connection_that_cannot_be_rolled_back_is_replaced() -> None:
    async def check(worker: Worker, made: list[Flaky]) -> None:
        made[0].failing = ("COMMIT", "ROLLBACK")
        with pytest.raises(StoreError):
            await worker.do(add(1))
        await worker.do(add(2))
        assert len(made) == 2
        assert await worker.do(values) == [2]

    working(check)


def test_one_that_fails_takes_nothing_of_the_others_with_it() -> None:
    async def check(worker: Worker, made: list[Flaky]) -> None:
        answers = await asyncio.gather(
            worker.do(add(1)), worker.do(fail), worker.do(add(2)), return_exceptions=True
        )
        assert [isinstance(each, StoreError) for each in answers] == [False, True, False]
        assert await worker.do(values) == [1, 2]

    working(check)


def test_what_somebody_said_is_not_in_the_error() -> None:
    async def check(worker: Worker, made: list[Flaky]) -> None:
        with pytest.raises(StoreError, match="ZeroDivisionError") as caught:
            await worker.do(fail)
        assert "words of a person" not in str(caught.value)

    working(check)


def test_a_reader_that_fails_fails_alone() -> None:
    async def check(worker: Worker, made: list[Flaky]) -> None:
        answers = await asyncio.gather(
            worker.do(values), worker.do(fail), worker.do(values), return_exceptions=True
        )
        assert [isinstance(each, StoreError) for each in answers] == [False, True, False]

    working(check, writes=False)


def test_work_that_is_to_be_alone_shares_no_transaction() -> None:
    shared: list[int] = []

    def changes(db: sqlite3.Connection) -> None:
        shared.append(len(values(db)))
        db.execute("INSERT INTO t VALUES (1)")
        raise ValueError

    async def check(worker: Worker, made: list[Flaky]) -> None:
        await asyncio.gather(
            worker.do(add(1)),
            worker.do(changes, alone=True),
            worker.do(add(2)),
            return_exceptions=True,
        )
        assert shared == [1]  # once: nothing had to be done again because of it
        assert await worker.do(values) == [1, 2]

    working(check)


def test_who_looks_after_a_commit_may_object() -> None:
    def object_() -> NoReturn:
        raise Moved

    async def whole() -> None:
        connect: Any = Flaky
        worker = Worker("test", connect, Health(), writes=True, after=object_)
        with pytest.raises(StoreError, match="moved or deleted"):
            await worker.do(add(1))
        await worker.close()

    asyncio.run(whole())


def test_who_asked_on_a_loop_that_ended_stops_nobody() -> None:
    made: list[Flaky] = []

    def connect() -> Any:
        made.append(Flaky())
        return made[-1]

    worker = Worker("test", connect, Health(), writes=True)

    async def leave() -> None:
        task = asyncio.create_task(worker.do(add(1)))
        await asyncio.sleep(0)
        task.cancel()

    async def stay() -> None:
        assert await asyncio.wait_for(worker.do(values), PATIENCE_S) == [1]
        await worker.close()

    asyncio.run(leave())
    asyncio.run(stay())


class Locked(Flaky):
    """A connection that waits in vain for another program's lock, on a clock of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = 0.0
        self.may_wait = threading.Event()
        self._wait = 0.0

    def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
        if sql.startswith("PRAGMA busy_timeout"):
            self._wait = int(sql.rpartition("=")[2]) / 1000
        if sql == "BEGIN IMMEDIATE":
            self.may_wait.wait()
            self.clock += self._wait
            busy = sqlite3.OperationalError("database is locked")
            busy.sqlite_errorcode = sqlite3.SQLITE_BUSY
            raise busy
        return super().execute(sql, *values)


def test_writers_behind_a_lock_wait_no_longer_than_one_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    locked = Locked()
    monkeypatch.setattr(worker_module, "time", SimpleNamespace(monotonic=lambda: locked.clock))
    connect: Any = lambda: locked  # noqa: E731

    async def whole() -> None:
        worker = Worker("test", connect, Health(), writes=True)
        writes = [asyncio.create_task(worker.do(add(number))) for number in range(6)]
        await asyncio.sleep(0)
        locked.may_wait.set()
        for write in writes:
            with pytest.raises(StoreError, match="locked"):
                await write
        await worker.close()

    asyncio.run(whole())
    assert locked.clock == PATIENCE  # not six times as long

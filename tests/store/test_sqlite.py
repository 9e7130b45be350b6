"""What every store promises, and what SQLite adds to it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sqlite3
import subprocess
import sys
from collections.abc import Awaitable
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from tests.store.model import StoreModel
from tests.store.suite import StoreSuite
from tests.support.examples import examples
from tests.support.store import (
    DAY,
    NOW,
    Open,
    advance_clock,
    in_file,
    in_memory,
    new,
    rid,
    turn,
    using,
)
from tests.support.waiting import PATIENCE_S
from vivace.errors import StoreError
from vivace.store import pruning, sqlite_turns, worker
from vivace.store.base import Store, StoredTurn
from vivace.store.sqlite import SqliteStore

T = TypeVar("T")

STORES = {"in memory": in_memory, "in a file": in_file}


class TestSqlite(StoreSuite):
    @pytest.fixture(params=list(STORES.values()), ids=list(STORES))
    def opened(self, request: pytest.FixtureRequest) -> Open:
        found: Open = request.param
        return found

    async def elapse(self, store: SqliteStore, seconds: float) -> None:
        advance_clock(store, seconds)


@pytest.fixture(params=list(STORES.values()), ids=list(STORES))
def opened(request: pytest.FixtureRequest) -> Open:
    found: Open = request.param
    return found


def test_any_id_is_kept(opened: Open, tmp_path: Path) -> None:
    """Those of older versions told no time."""
    odd = turn("é'\"; --\x00", owner="")

    async def check(store: Store) -> None:
        await store.save(odd)
        assert await store.load(odd.id, "") == odd

    using(opened(tmp_path), check)


# -- forgetting -----------------------------------------------------------------------------------


def test_the_too_old_are_forgotten(opened: Open, tmp_path: Path) -> None:
    async def check(store: Store) -> None:
        for at in (100, 199, 200, 300):
            await store.save(turn(str(at), at=at))
        assert await store.prune(300) == 2
        assert await store.load("199", "me") is None
        assert await store.load("200", "me") is not None
        assert await store.prune(300) == 0

    using(opened(tmp_path, max_age=100), check)


def test_the_oldest_are_forgotten_when_there_is_too_much(opened: Open, tmp_path: Path) -> None:
    async def check(store: Store) -> None:
        for at in range(10):
            await store.save(turn(str(at), at=at))
        assert await store.prune(10) == 7
        assert [await store.load(str(at), "me") is not None for at in (6, 7, 8, 9)] == [
            False,
            True,
            True,
            True,
        ]

    using(opened(tmp_path, max_bytes=60), check)


def test_a_clock_that_leaps_a_month_ahead_costs_no_turn(opened: Open, tmp_path: Path) -> None:
    now = 1_800_000_000

    async def check(store: Store) -> None:
        for age in range(30):
            await store.save(turn(str(age), at=now - age * DAY))
        assert await store.prune(now) == 0
        assert await store.prune(now + 31 * DAY) == 0
        assert await store.prune(now + 31 * DAY) == 0
        assert await store.prune(now) == 0

    using(opened(tmp_path, max_age=30 * DAY), check)


def test_turns_are_saved_and_read_between_steps_of_forgetting_others(
    opened: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[int] = []

    def forget(*given: Any) -> int:
        steps.append(pruning.forget(*given))
        return steps[-1]

    monkeypatch.setattr("vivace.store.sqlite.forget", forget)

    async def check(store: Store) -> None:
        await asyncio.gather(*(store.save(turn(f"old {n}", at=0)) for n in range(1000)))
        forgetting = asyncio.create_task(store.prune(2 * DAY))
        for number in range(20):
            before = len(steps)
            await store.save(turn(str(number), at=2 * DAY))
            assert len(steps) - before <= 3  # the one that was under way, and the next
            assert await store.load(str(number), "me") is not None
        assert await forgetting == 1000
        assert len(steps) > 100

    using(opened(tmp_path), check)


# -- in any order ---------------------------------------------------------------------------------

OWNERS = ("me", "you")
MAX_AGE, MAX_BYTES = 50, 40
owners = st.sampled_from(OWNERS)
numbers = st.integers(0, 6)


class Model(RuleBasedStateMachine):
    """A store beside a dictionary that does the same."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.store = in_memory(Path(), max_age=MAX_AGE, max_bytes=MAX_BYTES)
        self.turns: dict[tuple[str, str], StoredTurn] = {}

    def do(self, work: Awaitable[T]) -> T:
        async def whole() -> T:
            return await work

        return self.runner.run(whole())

    @rule(
        owner=owners,
        number=numbers,
        back=st.integers(0, 3),
        at=st.integers(0, 4).map(lambda number: 25 * number),
        size=st.integers(0, 9),
    )
    def save(self, owner: str, number: int, back: int, at: int, size: int) -> None:
        """Parents have lower numbers: a response cannot continue one that comes after it."""
        previous = f"{owner}-{number - back}" if 0 < back <= number else None
        saved = turn(f"{owner}-{number}", previous, owner=owner, at=at, size=size)
        self.do(self.store.save(saved))
        self.turns.pop((owner, saved.id), None)
        self.turns[owner, saved.id] = saved

    @rule(asker=owners, owner=owners, number=numbers)
    def load(self, asker: str, owner: str, number: int) -> None:
        response_id = f"{owner}-{number}"
        found = self.do(self.store.load(response_id, asker))
        assert found == self.turns.get((asker, response_id))

    @rule(asker=owners, owner=owners, number=numbers)
    def chain(self, asker: str, owner: str, number: int) -> None:
        wanted: str | None = f"{owner}-{number}"
        chain: list[StoredTurn] | None = []
        found = self.do(self.store.chain(f"{owner}-{number}", asker))
        while wanted is not None and chain is not None:
            link = self.turns.get((asker, wanted))
            chain = [link, *chain] if link else None
            wanted = link.previous_id if link else None
        assert found == chain

    @rule(asker=owners, owner=owners, number=numbers)
    def delete(self, asker: str, owner: str, number: int) -> None:
        response_id = f"{owner}-{number}"
        gone = self.do(self.store.delete(response_id, asker))
        assert gone == (self.turns.pop((asker, response_id), None) is not None)

    @rule(now=st.integers(0, 150))
    def prune(self, now: int) -> None:
        """Of turns as old as each other, the one that was saved first is the older."""
        young = [each for each in self.turns.values() if each.created_at >= now - MAX_AGE]
        total, kept = 0, []
        for each in sorted(young, key=lambda each: each.created_at)[::-1]:
            total += len(each.input) + len(each.response)
            if total <= MAX_BYTES:
                kept.append(each)
        assert self.do(self.store.prune(now)) == len(self.turns) - len(kept)
        self.turns = {key: each for key, each in self.turns.items() if each in kept}

    def teardown(self) -> None:
        for owner, response_id in self.turns:
            assert self.do(self.store.load(response_id, owner)) is not None
        self.do(self.store.close())
        self.runner.close()


TestAnyOrder = Model.TestCase
TestAnyOrder.settings = settings(deadline=None, max_examples=examples(40), stateful_step_count=40)


class SqliteModel(StoreModel):
    async def open(self) -> Store:
        return in_memory(Path())


TestOpenTurns = SqliteModel.TestCase
TestOpenTurns.settings = settings(deadline=None, max_examples=examples(100), stateful_step_count=50)


# -- SQLite ---------------------------------------------------------------------------------------


def test_what_was_saved_survives_the_death_of_the_process(tmp_path: Path) -> None:
    program = """
import asyncio, os, sys
from pathlib import Path
from tests.support.store import in_file, turn

async def save():
    store = in_file(Path(sys.argv[1]))
    await asyncio.gather(*(store.save(turn(str(number))) for number in range(20)))
    os._exit(9)

asyncio.run(save())
"""
    died = subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=False)
    assert died.returncode == 9

    async def check(store: Store) -> None:
        found = [await store.load(str(number), "me") for number in range(20)]
        assert found == [turn(str(number)) for number in range(20)]

    using(in_file(tmp_path), check)


def test_what_was_saved_is_there_after_a_restart(tmp_path: Path) -> None:
    using(in_file(tmp_path), lambda store: store.save(turn("a")))
    assert using(in_file(tmp_path), lambda store: store.load("a", "me")) == turn("a")


def test_closing_waits_for_what_was_being_saved(tmp_path: Path) -> None:
    async def check() -> None:
        store = in_file(tmp_path)
        saving = [asyncio.create_task(store.save(turn(str(number)))) for number in range(100)]
        await asyncio.sleep(0)
        await store.close()
        await asyncio.gather(*saving)

    asyncio.run(check())
    assert using(in_file(tmp_path), lambda store: store.load("99", "me")) == turn("99")


def test_the_file_gives_back_the_space_of_what_was_forgotten(tmp_path: Path) -> None:
    async def check(store: Store) -> None:
        await asyncio.gather(*(store.save(turn(str(n), size=20_000)) for n in range(100)))
        await store.prune(1000 + 2 * DAY)

    path = tmp_path / "vivace.db"
    using(in_file(tmp_path), check)
    assert path.stat().st_size < 1_000_000


# -- SQLite in trouble ----------------------------------------------------------------------------


def bounded(store: SqliteStore, pages: int) -> None:
    """A disk that is full from so many pages on."""
    connection = store._writer._connection
    assert connection is not None
    connection.execute(f"PRAGMA max_page_count = {pages}")


def test_a_full_disk_fails_the_save_and_nothing_else(tmp_path: Path) -> None:
    async def check(store: SqliteStore) -> None:
        bounded(store, 60)
        large, *small = await asyncio.gather(
            store.save(turn("large", size=500_000)),
            *(store.save(turn(str(number))) for number in range(20)),
            return_exceptions=True,
        )
        assert isinstance(large, StoreError)
        assert "full disk" in str(large)
        assert small == [None] * 20
        assert await store.load("19", "me") == turn("19")
        assert await store.load("large", "me") is None

    using(in_file(tmp_path), check)


def test_a_full_disk_is_trouble_until_there_is_room_for_a_turn(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def check(store: SqliteStore) -> None:
        bounded(store, 60)
        with pytest.raises(StoreError):
            await store.save(turn("large", size=500_000))
        assert "full disk" in str(store.trouble)
        assert await store.delete("nothing", "me") is False
        with pytest.raises(StoreError, match="full disk"):
            await store.prune(1000)
        assert "full disk" in str(store.trouble)
        bounded(store, 10**6)
        await store.prune(1000)
        assert store.trouble is None

    with caplog.at_level(logging.INFO):
        using(in_file(tmp_path), check)
    assert [line for line in caplog.messages if line.startswith("the store")] == [
        "the store has a full disk; make room on it",
        "the store works again",
    ]


def test_a_long_conversation_is_deleted_in_steps_and_walked_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other writes come between the steps, and deleting the rest turn by turn costs little."""
    length, steps = 1100, list[int]()
    whole = sqlite_turns.break_following

    def counted(db: sqlite3.Connection, *, broken: list[str], owner: str) -> list[str]:
        before = db.total_changes
        rest = whole(db, broken=broken, owner=owner)
        steps.append(db.total_changes - before)
        return rest

    monkeypatch.setattr(sqlite_turns, "break_following", counted)

    async def check(store: SqliteStore) -> None:
        labels = [str(number) for number in range(length)]
        chain = zip(labels, [None, *labels], strict=False)
        await asyncio.gather(*(store.save(turn(each, before)) for each, before in chain))
        assert await store.delete("0", "me")
        assert len(steps) > 2
        assert max(steps) <= sqlite_turns._STEP
        assert sum(steps) == length - 1
        last = await store.find("1099", "me")
        assert last is not None
        assert last.broken
        steps.clear()
        assert await store.delete("1", "me")
        assert steps == [0]

    using(in_file(tmp_path), check)


def test_a_turn_that_is_kept_ends_the_trouble(tmp_path: Path) -> None:
    async def check(store: SqliteStore) -> None:
        bounded(store, 60)
        with pytest.raises(StoreError):
            await store.save(turn("large", size=500_000))
        await store.save(turn("small"))
        assert store.trouble is None

    using(in_file(tmp_path), check)


def test_a_damaged_file_is_trouble_until_it_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "vivace.db"

    async def fill(store: SqliteStore) -> None:
        await asyncio.gather(*(store.save(turn(str(n), size=3000)) for n in range(100)))

    using(in_file(tmp_path), fill)
    whole = path.read_bytes()
    path.write_bytes(whole[:8192] + b"\xff" * (len(whole) - 8192))

    async def check(store: SqliteStore) -> None:
        with pytest.raises(StoreError, match="is damaged"):
            await store.load("50", "me")
        assert "is damaged" in str(store.trouble)
        with contextlib.suppress(StoreError):
            await store.save(turn("new"))
        assert "is damaged" in str(store.trouble)

    using(in_file(tmp_path), check)


def test_a_file_that_was_taken_away_is_not_written_to_as_if_it_were_there(tmp_path: Path) -> None:
    async def check(store: SqliteStore) -> None:
        await store.save(turn("a"))
        for path in tmp_path.iterdir():
            path.unlink()
        with pytest.raises(StoreError, match="moved or deleted"):
            await store.save(turn("b"))
        assert "Start the server again" in str(store.trouble)

    using(in_file(tmp_path), check)
    using(in_file(tmp_path), lambda store: store.save(turn("c")))


def test_a_lock_of_another_program_stops_writers_and_no_reader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "PATIENCE", 2 * PATIENCE_S)

    async def check(store: SqliteStore) -> None:
        await store.save(turn("kept"))
        with contextlib.closing(sqlite3.connect(tmp_path / "vivace.db")) as other:
            other.execute("BEGIN IMMEDIATE")
            saves = [asyncio.create_task(store.save(turn(str(number)))) for number in range(6)]
            assert await store.load("kept", "me") == turn("kept")
            assert not any(save.done() for save in saves)
            other.execute("ROLLBACK")
            await asyncio.gather(*saves)
        assert await store.load("5", "me") == turn("5")

    using(in_file(tmp_path), check)


def test_a_lock_that_another_program_keeps_is_told_to_writers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def check(store: SqliteStore) -> None:
        with contextlib.closing(sqlite3.connect(tmp_path / "vivace.db")) as other:
            other.execute("BEGIN IMMEDIATE")
            with monkeypatch.context() as patched:
                patched.setattr(worker, "PATIENCE", 0.05)
                saves = [asyncio.create_task(store.save(turn(str(number)))) for number in range(6)]
                for save in saves:
                    with pytest.raises(StoreError, match="locked by another program"):
                        await save
            assert "locked by another program" in str(store.trouble)
        await store.save(turn("after"))
        assert store.trouble is None

    using(in_file(tmp_path), check)


def test_who_came_later_may_still_wait_when_the_first_has_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def check(store: SqliteStore) -> None:
        with contextlib.closing(sqlite3.connect(tmp_path / "vivace.db")) as other:
            other.execute("BEGIN IMMEDIATE")
            monkeypatch.setattr(worker, "PATIENCE", 0.2)
            early = asyncio.create_task(store.save(turn("early")))
            await asyncio.sleep(0)
            monkeypatch.setattr(worker, "PATIENCE", 2 * PATIENCE_S)
            late = asyncio.create_task(store.save(turn("late")))
            with pytest.raises(StoreError, match="locked"):
                await early
            other.execute("ROLLBACK")
            await late
        assert await store.load("early", "me") is None
        assert await store.load("late", "me") == turn("late")

    using(in_file(tmp_path), check)


def test_a_clock_that_was_set_back_hides_no_turn_of_an_earlier_gateway(tmp_path: Path) -> None:
    now = [float(NOW)]

    async def check(store: SqliteStore) -> None:
        await store.beat("g1")
        await store.accept(new("left"))
        now[0] -= 3600
        assert [each.id for each in await store.orphans("g2", 0)] == [rid("left")]
        assert await store.orphans("g1", 0) == []
        assert await store.orphans("g2", 60) == []

    using(in_file(tmp_path, clock=lambda: now[0]), check)

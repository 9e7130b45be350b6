"""What is forgotten is gone, what is not stays, and no clock can make it otherwise."""

from __future__ import annotations

import asyncio
import random
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.examples import examples
from tests.support.store import DAY, in_file, in_memory, turn, using
from vivace.store import pruning
from vivace.store.base import StoredTurn
from vivace.store.schema import prepare
from vivace.store.sqlite import SqliteStore

NOW = 1_800_000_000
HOUR = 3600


class Clock:
    """One that goes by itself and cannot be set."""

    def __init__(self) -> None:
        self.time = 0.0

    def __call__(self) -> float:
        return self.time


# -- traces ---------------------------------------------------------------------------------------


def secret(number: int, size: int) -> StoredTurn:
    text = (b"secret-%05d." % number) * (size // 13)
    return StoredTurn(
        id=str(number),
        owner="me",
        previous_id=None,
        created_at=NOW + number,
        tokens=1,
        input=text,
        response=b"{}" * 500 + text,
    )


def tells(folder: Path, number: int) -> bool:
    """Return whether any file has a trace of this turn."""
    return any(b"secret-%05d." % number in path.read_bytes() for path in folder.iterdir())


def told(folder: Path) -> set[int]:
    """The turns of which any file has a trace."""
    everything = b"".join(path.read_bytes() for path in folder.iterdir())
    return {n for n in range(600) if b"secret-%05d." % n in everything}


def test_what_was_deleted_or_forgotten_is_in_no_file_any_more(tmp_path: Path) -> None:
    dice = random.Random(1)
    turns = [secret(n, dice.choice((100, 400, 1000, 3000, 9000))) for n in range(600)]
    deleted = set(dice.sample(range(300, 600), 150))

    async def check(store: SqliteStore) -> None:
        await asyncio.gather(*(store.save(each) for each in turns))
        await store.prune(NOW)
        for number in deleted:
            assert await store.delete(str(number), "me")
        assert told(tmp_path) >= deleted  # in the file, or in the WAL
        store._max_age = 300
        assert await store.prune(NOW + 600) == 300
        assert told(tmp_path) == set(range(300, 600)) - deleted

    using(in_file(tmp_path, max_age=NOW), check)


def test_a_long_prune_does_not_keep_deleted_text_in_the_wal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    step = pruning.forget
    traces: list[bool] = []

    def forget(*arguments: Any) -> int:
        traces.append(tells(tmp_path, 1))
        clock.time += 60
        return step(*arguments)

    async def check(store: SqliteStore) -> None:
        await asyncio.gather(*(store.save(turn(str(n), at=0)) for n in range(200)))
        await store.save(secret(1, 9000))
        await store.delete("1", "me")
        await store.prune(2 * DAY)
        before, *later = traces
        assert before
        assert len(later) > 10
        assert not any(later)

    monkeypatch.setattr("vivace.store.sqlite.forget", forget)
    using(in_file(tmp_path, monotonic=clock), check)


# -- clocks ---------------------------------------------------------------------------------------


def month(store: SqliteStore) -> list[Any]:
    return [store.save(turn(str(age), at=NOW - age * DAY)) for age in range(30)]


def test_a_leap_is_not_believed_over_a_restart_either(tmp_path: Path) -> None:
    async def before(store: SqliteStore) -> None:
        await asyncio.gather(*month(store))
        assert await store.prune(NOW) == 0

    async def after(store: SqliteStore) -> None:
        assert await store.prune(NOW + 31 * DAY) == 0

    using(in_file(tmp_path, max_age=30 * DAY), before)
    for _ in range(3):
        using(in_file(tmp_path, max_age=30 * DAY), after)


def test_nor_in_a_file_that_was_never_pruned(tmp_path: Path) -> None:
    async def check(store: SqliteStore) -> None:
        await asyncio.gather(*month(store))
        assert await store.prune(NOW + 31 * DAY) == 0

    using(in_file(tmp_path, max_age=30 * DAY), check)


def test_a_clock_that_stays_where_it_is_comes_to_be_believed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clock = Clock()

    async def check(store: SqliteStore) -> None:
        await asyncio.gather(*month(store))
        await store.prune(NOW)
        ahead = NOW + 31 * DAY
        left = []
        for _ in range(32):
            clock.time += HOUR
            ahead += HOUR
            await store.prune(ahead)
            left.append(len([n for n in range(30) if await store.load(str(n), "me")]))
        assert left[0] >= 28  # a day in an hour
        assert left[14] >= 14
        assert left[-1] == 0

    using(in_file(tmp_path, max_age=30 * DAY, monotonic=clock), check)
    assert len([line for line in caplog.messages if "days ahead" in line]) == 1


def test_a_night_switched_off_is_made_up_for_within_the_hour(tmp_path: Path) -> None:
    clock = Clock()

    async def check(store: SqliteStore) -> None:
        await asyncio.gather(*month(store))
        await store.prune(NOW)
        clock.time += HOUR
        assert await store.prune(NOW + 16 * HOUR) == 1

    using(in_file(tmp_path, max_age=29.5 * DAY, monotonic=clock), check)


def test_pruning_often_is_as_good_as_pruning_seldom() -> None:
    db = prepare(":memory:")
    pruning.believe(db, NOW, 0)
    for _ in range(1000):
        believed = pruning.believe(db, NOW + DAY, 0.01)
    assert believed == pytest.approx(NOW + 240, abs=1)


@given(
    st.lists(
        st.tuples(st.integers(NOW - 90 * DAY, NOW + 90 * DAY), st.floats(0, 10 * DAY)), min_size=1
    )
)
def test_time_is_never_ahead_of_the_clock_nor_faster_than_a_day_in_an_hour(
    readings: list[tuple[int, float]],
) -> None:
    db = prepare(":memory:")
    highest = pruning.believe(db, NOW, 0)
    for now, ran in readings:
        believed = pruning.believe(db, now, ran)
        assert believed <= now
        assert believed <= highest + 24 * ran
        assert believed == now or believed >= highest
        highest = max(highest, believed)
    db.close()


def test_a_clock_that_was_never_set_is_believed_when_it_is(tmp_path: Path) -> None:
    """A small computer starts in 1970 and learns the time from the network."""

    async def check(store: SqliteStore) -> None:
        await store.save(turn("first", at=50))
        assert await store.prune(60) == 0
        assert await store.prune(NOW) == 1

    using(in_file(tmp_path, max_age=30 * DAY), check)


# -- the sum --------------------------------------------------------------------------------------


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("save"), st.integers(0, 5), st.integers(0, 99)),
            st.tuples(st.just("delete"), st.integers(0, 5), st.just(0)),
            st.tuples(st.just("prune"), st.integers(0, 5), st.just(0)),
        )
    )
)
@settings(max_examples=examples(40))
def test_the_ledger_has_the_sum_of_all_turns(steps: list[tuple[str, int, int]]) -> None:
    async def check(store: SqliteStore) -> None:
        for what, number, size in steps:
            if what == "save":
                await store.save(turn(str(number), at=number, size=size))
            elif what == "delete":
                await store.delete(str(number), "me")
            else:
                await store.prune(number)
        ledger, counted = await store._reader.do(
            lambda db: db.execute(
                "SELECT bytes, (SELECT coalesce(sum(length(input) + length(response)), 0) "
                "FROM turns) FROM ledger"
            ).fetchone()
        )
        assert ledger == counted

    using(in_memory(Path(), max_age=2, max_bytes=200), check)


def filled(*sizes: int) -> sqlite3.Connection:
    db = prepare(":memory:")
    row = (
        "INSERT INTO turns (id, owner, created_at, tokens, input, response) VALUES (?,'',0,1,'',?)"
    )
    db.executemany(row, ((str(n), b"r" * size) for n, size in enumerate(sizes)))
    return db


def test_a_step_is_small_however_much_there_is_to_do() -> None:
    with closing(filled(*[5000] * 1000)) as db:
        assert pruning.forget(db, 1, 0) == 8
        while pruning.forget(db, 1, 0):
            pass
        pages = db.execute("PRAGMA page_count").fetchone()[0]
        assert 1 <= pruning.give_back(db) <= 16
        assert db.execute("PRAGMA page_count").fetchone()[0] >= pages - 17


def test_a_step_takes_few_turns_if_they_are_large_but_always_one() -> None:
    with closing(filled(*[600_000] * 8)) as db:
        assert pruning.forget(db, 1, 0) == 2
    with closing(filled(*[2_000_000] * 3)) as db:
        assert [pruning.forget(db, 1, 0) for _ in range(4)] == [1, 1, 1, 0]


def test_a_step_takes_no_more_than_is_too_much() -> None:
    with closing(filled(*[1000] * 8)) as db:
        assert pruning.forget(db, 0, 8000) == 0
        assert pruning.forget(db, 0, 7999) == 1
        assert pruning.forget(db, 0, 4500) == 3
        assert pruning.forget(db, 0, 4500) == 0

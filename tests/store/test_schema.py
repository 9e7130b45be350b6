"""Files of older Vivaces are brought up to date; those of newer ones and of others are left."""

from __future__ import annotations

import contextlib
import sqlite3
import stat
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.support.store import NOW, ending, in_file, new, turn, using
from vivace.errors import StoreError
from vivace.store import schema
from vivace.store.base import Accepted, UnknownParent
from vivace.store.schema import MIGRATIONS
from vivace.store.sqlite import SqliteStore

VERSION_1 = """
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
"""As it was written when no version was ever read."""

KEPT = [turn(str(n), str(n - 1) if n else None, at=1000 + n, size=500 + n) for n in range(50)]


def version_1(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA auto_vacuum = FULL")
        db.execute("PRAGMA journal_mode = WAL")
        db.executescript(VERSION_1)
        for each in KEPT:
            row = (
                each.id,
                each.owner,
                each.previous_id,
                each.created_at,
                each.tokens,
                each.input,
                each.response,
            )
            db.execute("INSERT OR REPLACE INTO turns VALUES (?, ?, ?, ?, ?, ?, ?)", row)


def asked(path: Path, sql: str) -> list[tuple[object, ...]]:
    with contextlib.closing(sqlite3.connect(path)) as db:
        return db.execute(sql).fetchall()


def test_a_file_of_version_1_is_brought_up_to_date_with_all_it_holds(tmp_path: Path) -> None:
    path = tmp_path / "vivace.db"
    version_1(path)

    async def check(store: SqliteStore) -> None:
        assert await store.chain("49", "me") == KEPT
        assert await store.load("49", "you") is None
        await store.save(turn("new", "49", at=2000))
        assert await store.prune(2000) == 0

    using(in_file(tmp_path), check)
    assert asked(path, "PRAGMA user_version") == [(len(MIGRATIONS),)]
    counted = sum(len(each.input) + len(each.response) for each in [*KEPT, turn("new")])
    assert asked(path, "SELECT bytes FROM ledger") == [(counted,)]
    assert asked(path, "SELECT name FROM sqlite_master WHERE name = 'old'") == []
    assert asked(path, "PRAGMA integrity_check") == [("ok",)]

    async def prune(store: SqliteStore) -> None:
        assert await store.prune(2000) == 48  # the oldest first, as ever
        assert await store.load("new", "me") is not None

    using(in_file(tmp_path, max_bytes=3000), prune)


def test_a_file_of_version_2_is_brought_up_to_date_with_all_it_holds(tmp_path: Path) -> None:
    """It was written by the last Vivace that recorded turns at their end only."""
    path = tmp_path / "vivace.db"
    path.write_bytes((Path(__file__).parent / "recorded/version_2.sqlite").read_bytes())
    ids = [f"resp_{n:032x}" for n in range(19)]
    kept = [
        turn(each, ids[n - 1] if n else None, at=1000 + n, size=50 + n)
        for n, each in enumerate(ids)
    ]

    async def check(store: SqliteStore) -> None:
        assert await store.chain(ids[-1], "me") == kept
        assert await store.orphans("g1", 0) == []
        child = new("child")
        assert await store.accept(replace(child, previous_id=ids[-1])) == Accepted(child.id)
        await store.end(ending("child"))
        found = await store.find(child.id, "me")
        assert found is not None
        assert found.root_id == ids[-1]
        assert len(await store.chain(child.id, "me") or ()) == 20
        assert await store.delete(ids[0], "me")
        assert await store.accept(replace(new("other"), previous_id=ids[-1])) == UnknownParent(
            "broken"
        )

    using(in_file(tmp_path, max_age=10 * NOW), check)
    assert asked(path, "PRAGMA user_version") == [(len(MIGRATIONS),)]
    assert asked(path, "SELECT bytes FROM ledger") == asked(path, "SELECT sum(weight) FROM turns")
    assert asked(path, "PRAGMA integrity_check") == [("ok",)]


def test_an_update_that_fails_leaves_the_file_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "vivace.db"
    version_1(path)
    broken = (MIGRATIONS[0], (*MIGRATIONS[1], "INSERT INTO missing VALUES (1)"))
    monkeypatch.setattr(schema, "MIGRATIONS", broken)
    with pytest.raises(StoreError, match="cannot be opened"):
        in_file(tmp_path)
    assert asked(path, "PRAGMA user_version") == [(1,)]
    assert asked(path, "SELECT count(*) FROM turns") == [(50,)]
    monkeypatch.undo()
    assert using(in_file(tmp_path), lambda store: store.chain("49", "me")) == KEPT


def test_a_file_of_a_newer_version_is_refused_with_words_and_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "vivace.db"
    using(in_file(tmp_path), lambda store: store.save(turn("a")))
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA user_version = 99")
    before = path.read_bytes()
    with pytest.raises(StoreError, match="newer Vivace: it has version 99") as caught:
        in_file(tmp_path)
    assert "another path" in str(caught.value)
    assert path.read_bytes() == before


def test_the_database_of_another_program_is_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "vivace.db"
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE bookmarks (url)")
    path.chmod(0o644)
    before = path.read_bytes()
    with pytest.raises(StoreError, match="another program"):
        in_file(tmp_path)
    assert path.read_bytes() == before
    assert stat.S_IMODE(path.stat().st_mode) == 0o644


def test_a_new_file_has_the_newest_version(tmp_path: Path) -> None:
    using(in_file(tmp_path), lambda store: store.save(turn("a")))
    assert asked(tmp_path / "vivace.db", "PRAGMA user_version") == [(len(MIGRATIONS),)]

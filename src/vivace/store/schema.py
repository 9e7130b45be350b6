"""What lies in the SQLite file, and how a file of an older Vivace becomes one of this.

``PRAGMA user_version`` is the number of migrations a file has seen. Each is done in a transaction
of its own, so a process that dies in the middle leaves the version before. To change the schema,
add a migration at the end; those that were released stay as they are.
"""

from __future__ import annotations

import logging
import sqlite3
from pathlib import Path

from vivace.errors import StoreError
from vivace.store.files import restrict

__all__ = ["LONG_WAL", "MEMORY", "MIGRATIONS", "connect", "prepare"]

log = logging.getLogger("vivace.store")

MEMORY = ":memory:"

LONG_WAL = 64_000_000
"""Bytes; a longer one is copied into the file."""

MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        """CREATE TABLE IF NOT EXISTS turns (
            id TEXT PRIMARY KEY,
            owner TEXT NOT NULL,
            previous_id TEXT,
            created_at INTEGER NOT NULL,
            tokens INTEGER NOT NULL,
            input BLOB NOT NULL,
            response BLOB NOT NULL
        ) WITHOUT ROWID""",
        "CREATE INDEX IF NOT EXISTS turns_by_age ON turns (created_at)",
    ),
    # Turns in the order they came. Without that, SQLite moves rows between pages to keep them
    # sorted, which doubles the file, slows pruning down, and leaves copies of rows in the gaps of
    # pages, where secure_delete does not find them. The ledger saves counting.
    (
        "ALTER TABLE turns RENAME TO old",
        "DROP INDEX turns_by_age",
        """CREATE TABLE turns (
            seq INTEGER PRIMARY KEY,
            id TEXT NOT NULL UNIQUE,
            owner TEXT NOT NULL,
            previous_id TEXT,
            created_at INTEGER NOT NULL,
            tokens INTEGER NOT NULL,
            bytes INTEGER NOT NULL AS (length(input) + length(response)) STORED,
            input BLOB NOT NULL,
            response BLOB NOT NULL
        )""",
        "CREATE INDEX turns_by_age ON turns (created_at)",
        "CREATE TABLE ledger (bytes INTEGER NOT NULL, clock REAL, room BLOB)",
        "INSERT INTO ledger (bytes) VALUES (0)",
        """CREATE TRIGGER turn_came AFTER INSERT ON turns BEGIN
            UPDATE ledger SET bytes = bytes + new.bytes;
        END""",
        """CREATE TRIGGER turn_went AFTER DELETE ON turns BEGIN
            UPDATE ledger SET bytes = bytes - old.bytes;
        END""",
        """INSERT INTO turns (id, owner, previous_id, created_at, tokens, input, response)
            SELECT id, owner, previous_id, created_at, tokens, input, response
            FROM old ORDER BY created_at""",
        "DROP TABLE old",
    ),
    # Turns are on record from their beginning on. Columns are added rather than the table made
    # anew, so that a file of a gigabyte is not copied: turns that are there have ended, their
    # response stays NOT NULL and is empty while a new one is open, and root_id is null in them.
    (
        "ALTER TABLE turns ADD COLUMN root_id TEXT",
        "ALTER TABLE turns ADD COLUMN epoch INTEGER NOT NULL DEFAULT 1",
        "ALTER TABLE turns ADD COLUMN attempt INTEGER NOT NULL DEFAULT 1",
        "ALTER TABLE turns ADD COLUMN holder TEXT",
        "ALTER TABLE turns ADD COLUMN engine TEXT",
        "ALTER TABLE turns ADD COLUMN status TEXT DEFAULT 'recorded'",
        "ALTER TABLE turns ADD COLUMN end_op TEXT",
        "ALTER TABLE turns ADD COLUMN background INTEGER NOT NULL DEFAULT 0",
        "ALTER TABLE turns ADD COLUMN parked_until REAL",
        "ALTER TABLE turns ADD COLUMN broken INTEGER NOT NULL DEFAULT 0",
        "ALTER TABLE turns ADD COLUMN ended_at REAL",
        "ALTER TABLE turns ADD COLUMN request BLOB",
        "ALTER TABLE turns ADD COLUMN said BLOB",
        "ALTER TABLE turns ADD COLUMN cuts BLOB",
        """ALTER TABLE turns ADD COLUMN weight INTEGER AS (
            bytes + ifnull(length(request), 0) + ifnull(length(said), 0) + ifnull(length(cuts), 0)
        ) VIRTUAL""",
        "DROP TRIGGER turn_came",
        "DROP TRIGGER turn_went",
        """CREATE TRIGGER turn_came AFTER INSERT ON turns BEGIN
            UPDATE ledger SET bytes = bytes + new.weight;
        END""",
        """CREATE TRIGGER turn_changed AFTER UPDATE OF input, response, request, said, cuts ON turns
        BEGIN
            UPDATE ledger SET bytes = bytes + new.weight - old.weight;
        END""",
        """CREATE TRIGGER turn_went AFTER DELETE ON turns BEGIN
            UPDATE ledger SET bytes = bytes - old.weight;
        END""",
        "CREATE INDEX turns_open ON turns (holder) WHERE status IS NULL",
        "CREATE INDEX turns_children ON turns (previous_id) WHERE previous_id IS NOT NULL",
        """CREATE TABLE once (
            owner TEXT NOT NULL,
            key TEXT NOT NULL,
            turn_id TEXT NOT NULL,
            request_hash BLOB NOT NULL,
            until REAL NOT NULL,
            PRIMARY KEY (owner, key)
        ) WITHOUT ROWID""",
        """CREATE TABLE orders (
            id TEXT PRIMARY KEY,
            turn_id TEXT NOT NULL,
            owner TEXT NOT NULL,
            kind TEXT NOT NULL,
            input BLOB,
            state TEXT NOT NULL,
            applied_by TEXT,
            at REAL NOT NULL
        )""",
        """CREATE INDEX orders_open ON orders (turn_id)
            WHERE state IN ('accepted', 'pending')""",
        "CREATE TABLE gateways (id TEXT PRIMARY KEY, seen REAL NOT NULL, version TEXT NOT NULL)",
    ),
    # Orders that come from another gateway than the turn's, and what is answered to them.
    (
        "ALTER TABLE orders ADD COLUMN at_item_end INTEGER NOT NULL DEFAULT 0",
        "ALTER TABLE orders ADD COLUMN reply BLOB",
        "DROP INDEX orders_open",
        """CREATE INDEX orders_open ON orders (turn_id)
            WHERE state IN ('asked', 'accepted', 'pending')""",
    ),
)


def connect(path: str) -> sqlite3.Connection:
    """A connection for a thread; it waits for nobody unless told to."""
    connection = sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False)
    # WAL with NORMAL loses nothing when the process dies; only a power cut may take the newest
    # transactions, and then the file is still whole.
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute("PRAGMA secure_delete = ON")  # what is deleted is overwritten
    connection.execute("PRAGMA recursive_triggers = ON")  # a row that is replaced counts as gone
    # Checkpoints have a thread of their own; this is for when it cannot follow.
    connection.execute("PRAGMA wal_autocheckpoint = 64000")
    return connection


def prepare(path: str) -> sqlite3.Connection:
    """The connection that writes, to a file that is ready for it; or why it cannot be."""
    connection = connect(path)
    try:
        connection.execute("PRAGMA busy_timeout = 5000")
        _recognise(connection, path)
        if path != MEMORY:
            restrict(Path(path))
        # Pages that become free are given back in small steps, not within a commit.
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        connection.execute("PRAGMA journal_mode = WAL")
        _migrate(connection)
        connection.execute("PRAGMA busy_timeout = 0")
    except BaseException:
        connection.close()
        raise
    return connection


def _migrate(connection: sqlite3.Connection) -> None:
    for number in range(_version(connection), len(MIGRATIONS)):
        if number:
            log.info("bringing the store from version %d to %d", number, number + 1)
        connection.execute("BEGIN IMMEDIATE")
        try:
            for statement in MIGRATIONS[number]:
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {number + 1}")
            connection.execute("COMMIT")
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")


def _recognise(connection: sqlite3.Connection, path: str) -> None:
    version = _version(connection)
    if version > len(MIGRATIONS):
        raise StoreError(
            f"The store {path} was written by a newer Vivace: it has version {version}, and this "
            f"one knows versions up to {len(MIGRATIONS)}. Start the newer one, or name another "
            "path in [store]."
        )
    tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master")}
    if tables and "turns" not in tables:
        raise StoreError(
            f"{path} is the SQLite file of another program and was left as it is. Name another "
            "path in [store]."
        )


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])

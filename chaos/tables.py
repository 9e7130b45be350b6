"""What the store has on record, as the last entries of a history."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterable
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any

import asyncpg

from chaos.history import Table
from chaos.lives import ENDED

__all__ = ["dump_postgres", "dump_sqlite", "open_turns"]

_TABLES = {
    "turns": "SELECT * FROM turns",
    "orders": "SELECT * FROM orders",
    "once": "SELECT * FROM once",
}
_JSON = frozenset({"input", "response"})


def dump_sqlite(path: Path) -> list[Table]:
    """All tables that are there; a store may have fewer of them."""
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=10)) as connection:
        connection.row_factory = sqlite3.Row
        found = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        names = {row["name"] for row in found}
        return [
            Table(time.monotonic(), name, [_plain(dict(row)) for row in connection.execute(query)])
            for name, query in _TABLES.items()
            if name in names
        ]


async def dump_postgres(url: str) -> list[Table]:
    connection = await asyncpg.connect(url)
    try:
        return [
            Table(time.monotonic(), name, [_plain(dict(row)) for row in found])
            for name, query in _TABLES.items()
            if (found := await connection.fetch(query)) is not None
        ]
    finally:
        await connection.close()


def open_turns(tables: Iterable[Table]) -> list[str]:
    """The turns on record that have no end there."""
    turns = [row for table in tables if table.name == "turns" for row in table.rows]
    return [row["id"] for row in turns if row["status"] is None]


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    """What is JSON decoded, times as seconds since 1970, what is no JSON left out; the status where
    only the response has it."""
    row = {
        name: value.timestamp() if isinstance(value, datetime) else value
        for name, value in row.items()
    }
    plain = {
        name: json.loads(value) if name in _JSON and value else None if name in _JSON else value
        for name, value in row.items()
        if name in _JSON or isinstance(value, str | int | float | None)
    }
    response = plain.get("response")
    if "status" not in plain and response is not None:
        plain["status"] = response["status"] if response["status"] in ENDED else None
    return plain

"""What the store has on record, as the last entries of a history."""

from __future__ import annotations

import json
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any

from chaos.history import Table
from chaos.lives import ENDED

__all__ = ["dump_sqlite"]

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


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    """What is JSON decoded, other bytes left out; the status where only the response has it."""
    plain = {
        name: json.loads(value) if name in _JSON and value is not None else value
        for name, value in row.items()
        if name in _JSON or not isinstance(value, bytes)
    }
    response = plain.get("response")
    if "status" not in plain and response is not None:
        plain["status"] = response["status"] if response["status"] in ENDED else None
    return plain

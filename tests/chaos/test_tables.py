"""What a store has on record is read from its file, whichever of the tables there are."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from chaos.tables import dump_sqlite


def _make(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()


def test_turns_are_rows_with_their_input_and_their_end(tmp_path: Path) -> None:
    items = '[{"type": "message", "role": "user", "content": "hi"}]'
    rows = [
        f"""INSERT INTO turns VALUES ('{name}', 'alice', CAST('{items}' AS BLOB),
            CAST('{{"id": "{name}", "status": "{status}"}}' AS BLOB))"""
        for name, status in (("resp_1", "completed"), ("resp_2", "in_progress"))
    ]
    _make(tmp_path / "one.db", "CREATE TABLE turns (id, owner, input BLOB, response BLOB)", *rows)
    [turns] = dump_sqlite(tmp_path / "one.db")
    assert turns.name == "turns"
    assert [(row["id"], row["owner"], row["status"]) for row in turns.rows] == [
        ("resp_1", "alice", "completed"),
        ("resp_2", "alice", None),
    ]
    assert turns.rows[0]["input"][0]["content"] == "hi"
    assert turns.rows[0]["response"]["id"] == "resp_1"


def test_tables_of_orders_and_keys_are_read_if_they_are_there(tmp_path: Path) -> None:
    _make(
        tmp_path / "other.db",
        "CREATE TABLE orders (id, turn_id, state, applied_by, input BLOB)",
        "CREATE TABLE once (owner, key, turn_id, request_hash BLOB)",
        "INSERT INTO orders VALUES ('s', 'r', 'applied', 'q', NULL)",
        "INSERT INTO once VALUES ('alice', 'k', 'r', x'00ff')",
    )
    orders, once = dump_sqlite(tmp_path / "other.db")
    assert orders.rows == [
        {"id": "s", "turn_id": "r", "state": "applied", "applied_by": "q", "input": None}
    ]
    assert once.rows == [{"owner": "alice", "key": "k", "turn_id": "r"}]

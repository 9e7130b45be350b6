"""Orders and keys in SQLite; as in ``sqlite_turns``, each write is done in the writing thread."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from typing import Any

from vivace.store.values import (
    OPEN_ORDERS,
    Fenced,
    Key,
    KeyReused,
    NotOpen,
    Order,
    Ordered,
    OrderState,
)

__all__ = [
    "asked_of",
    "claim",
    "close_orders",
    "find_order",
    "keep_key",
    "key_used",
    "mark",
    "open_orders",
    "open_steers",
    "order",
    "reply",
    "withdraw",
]

_COLUMNS = "id, turn_id, owner, kind, input, state, applied_by, at_item_end, reply"
_UNDONE = "('asked', 'accepted', 'pending')"

_FIND = f"SELECT {_COLUMNS} FROM orders WHERE id = ? AND owner = ?"  # noqa: S608

_ASKED = """
SELECT orders.id, turn_id, orders.owner, kind, orders.input, state, applied_by, at_item_end, reply
FROM orders JOIN turns ON turns.id = turn_id
WHERE turns.holder = ? AND turns.status IS NULL AND state = 'asked'
ORDER BY orders.rowid
"""

_OPEN = f"""
SELECT {_COLUMNS} FROM orders
WHERE turn_id IN (SELECT value FROM json_each(?)) AND state IN {_UNDONE}
ORDER BY rowid
"""  # noqa: S608


def order(
    db: sqlite3.Connection, order: Order, key: Key | None, now: float, epoch: int | None
) -> Ordered | NotOpen | KeyReused | Fenced:
    if key is not None:
        used = key_used(db, order.owner, key, now)
        if used is not None:
            return used if isinstance(used, KeyReused) else Ordered(used)
    if find_order(db, order.id, order.owner) is not None:
        return Ordered(order.id)
    sql = "SELECT status, epoch FROM turns WHERE id = ? AND owner = ?"
    turn = db.execute(sql, (order.turn_id, order.owner)).fetchone()
    if turn is None or turn[0] is not None:
        return NotOpen(ended=turn is not None)
    if epoch is not None and turn[1] != epoch:
        return Fenced()
    if key is not None:
        keep_key(db, order.owner, key, order.id, now)
    db.execute(
        f"INSERT INTO orders ({_COLUMNS}, at) VALUES (?, ?, ?, ?, ?, ?, NULL, ?, ?, ?)",  # noqa: S608
        (
            *(order.id, order.turn_id, order.owner, order.kind, order.input, order.state),
            *(order.at_item_end, order.reply, now),
        ),
    )
    return Ordered(order.id)


def mark(db: sqlite3.Connection, order_id: str, owner: str, state: OrderState) -> Order | None:
    db.execute(
        "UPDATE orders SET state = ? WHERE id = ? AND owner = ? "
        "AND state IN ('accepted', 'pending')",
        (state, order_id, owner),
    )
    return find_order(db, order_id, owner)


def asked_of(db: sqlite3.Connection, holder: str) -> list[Order]:
    return [_order(row) for row in db.execute(_ASKED, (holder,))]


def claim(db: sqlite3.Connection, order_id: str, owner: str, holder: str) -> Order | None:
    db.execute(
        "UPDATE orders SET state = 'accepted' WHERE id = ? AND owner = ? AND state = 'asked' AND "
        "EXISTS (SELECT 1 FROM turns WHERE id = turn_id AND holder = ? AND status IS NULL)",
        (order_id, owner, holder),
    )
    return find_order(db, order_id, owner)


def withdraw(db: sqlite3.Connection, order_id: str, owner: str) -> Order | None:
    db.execute(
        "UPDATE orders SET state = CASE kind WHEN 'steer' THEN 'returned' ELSE 'done' END "
        "WHERE id = ? AND owner = ? AND state = 'asked'",
        (order_id, owner),
    )
    return find_order(db, order_id, owner)


def reply(
    db: sqlite3.Connection, order_id: str, owner: str, reply: bytes, state: OrderState | None
) -> None:
    db.execute(
        "UPDATE orders SET reply = ?, "
        "state = CASE WHEN state IN ('asked', 'accepted') THEN ifnull(?, state) ELSE state END "
        "WHERE id = ? AND owner = ? AND ifnull(length(reply), 0) = 0",
        (reply, state, order_id, owner),
    )


def find_order(db: sqlite3.Connection, order_id: str, owner: str) -> Order | None:
    row = db.execute(_FIND, (order_id, owner)).fetchone()
    return _order(row) if row else None


def open_orders(db: sqlite3.Connection, turn_ids: Sequence[str]) -> list[Order]:
    return [_order(row) for row in db.execute(_OPEN, (json.dumps([*turn_ids]),))]


def open_steers(db: sqlite3.Connection, steers: Sequence[str], turn_id: str | None) -> bool:
    """Whether all of them are open, and this turn's."""
    sql = "SELECT state FROM orders WHERE id = ? AND turn_id = ?"
    found = [db.execute(sql, (steer, turn_id)).fetchone() for steer in steers]
    return all(row is not None and row[0] in OPEN_ORDERS for row in found)


def close_orders(db: sqlite3.Connection, turn_id: str, keep: Sequence[str] = ()) -> None:
    """The turn has ended: what nobody applied goes back, but for what waits for a later turn."""
    sql = f"SELECT id, kind FROM orders WHERE turn_id = ? AND state IN {_UNDONE}"  # noqa: S608
    for order_id, kind in db.execute(sql, (turn_id,)).fetchall():
        state = "pending" if order_id in keep else "returned" if kind == "steer" else "done"
        db.execute("UPDATE orders SET state = ? WHERE id = ?", (state, order_id))


def key_used(db: sqlite3.Connection, owner: str, key: Key, now: float) -> str | KeyReused | None:
    """By which turn or order it was used for the same request, if it was and is still known."""
    sql = "SELECT turn_id, request_hash FROM once WHERE owner = ? AND key = ? AND until > ?"
    row = db.execute(sql, (owner, key.key, now)).fetchone()
    if row is None:
        return None
    return str(row[0]) if row[1] == key.request_hash else KeyReused(row[0])


def keep_key(db: sqlite3.Connection, owner: str, key: Key, used_by: str, now: float) -> None:
    row = (owner, key.key, used_by, key.request_hash, now + key.seconds)
    db.execute("INSERT OR REPLACE INTO once VALUES (?, ?, ?, ?, ?)", row)


def _order(row: tuple[object, ...]) -> Order:
    values: dict[str, Any] = dict(zip(Order.__struct_fields__, row, strict=True))
    return Order(**values | {"at_item_end": bool(values["at_item_end"])})

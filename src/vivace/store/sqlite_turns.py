"""The life of a turn in SQLite: each function is one write, done in the store's writing thread.

There is one writer, so what was looked at before a write is still so when it is done. A function
that refuses has written nothing: it shares its transaction with others.
"""

from __future__ import annotations

import json
import sqlite3
from collections import deque
from collections.abc import Sequence
from typing import Any

from vivace.store.sqlite_orders import close_orders, keep_key, key_used, open_steers
from vivace.store.values import (
    RECORDED,
    Accepted,
    Done,
    Ended,
    Fenced,
    KeyReused,
    NewTurn,
    OpenTurn,
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

__all__ = [
    "accept",
    "attempt",
    "beat",
    "break_following",
    "chain",
    "company",
    "delete",
    "end",
    "find",
    "held",
    "load",
    "may_be_continued",
    "open_turns",
    "orphans",
    "park",
    "response",
    "save",
    "stat",
    "take",
    "weight",
]

_COLUMNS = "id, owner, previous_id, created_at, tokens, input, response"

_SAVE = f"INSERT OR REPLACE INTO turns ({_COLUMNS}, status) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"  # noqa: S608

_STAT = """
SELECT status, length(input), length(response), length(cuts) FROM turns WHERE id = ? AND owner = ?
"""

_RESPONSE = """
SELECT status, response, cuts FROM turns WHERE id = ? AND owner = ? AND status IS NOT NULL
"""

_LOAD = f"SELECT {_COLUMNS} FROM turns WHERE id = ? AND owner = ? AND status IS NOT NULL"  # noqa: S608

_CHAIN = f"""
WITH RECURSIVE chain AS (
    SELECT 0 AS depth, {_COLUMNS} FROM turns WHERE id = ? AND owner = ? AND status IS NOT NULL
    UNION ALL
    SELECT chain.depth + 1, turns.id, turns.owner, turns.previous_id, turns.created_at,
           turns.tokens, turns.input, turns.response
    FROM turns JOIN chain ON turns.id = chain.previous_id AND turns.owner = chain.owner
    WHERE turns.status IS NOT NULL
)
SELECT {_COLUMNS} FROM chain ORDER BY depth DESC
"""  # noqa: S608 - the columns are a constant of this module

_WEIGHT = """
WITH RECURSIVE chain AS (
    SELECT owner, previous_id, length(input) + length(response) AS size
    FROM turns WHERE id = ? AND owner = ?
    UNION ALL
    SELECT turns.owner, turns.previous_id, length(turns.input) + length(turns.response)
    FROM turns JOIN chain ON turns.id = chain.previous_id AND turns.owner = chain.owner
)
SELECT total(size) FROM chain
"""

_RECORD = (
    "SELECT id, owner, previous_id, coalesce(root_id, id), epoch, attempt, holder, engine, said, "
    "request, input, status, response, cuts, tokens, background, broken, parked_until, created_at "
    "FROM turns WHERE id = ?"
)

_BREAK = """
UPDATE turns SET broken = 1 WHERE seq IN (
    SELECT seq FROM turns WHERE previous_id = ? AND owner = ? AND NOT broken LIMIT ?
) RETURNING id
"""

_STEP = 500
"""Turns that are broken in one transaction, which takes a few milliseconds."""

_ORPHANS = """
SELECT turns.id, owner, epoch, background, parked_until
FROM turns LEFT JOIN gateways ON gateways.id = turns.holder
WHERE status IS NULL AND holder IS NOT ? AND ifnull(gateways.seen, 0) < ?
AND turns.id NOT IN (SELECT value FROM json_each(?))
LIMIT ?
"""

_OPEN_TURNS = """
WITH RECURSIVE line (id) AS (
    SELECT ?1
    UNION
    SELECT orders.applied_by FROM line JOIN orders ON orders.turn_id = line.id
    WHERE orders.owner = ?2 AND orders.state = 'applied'
)
SELECT turns.id, turns.owner, epoch, holder, background, request, ?3 - seen
FROM line JOIN turns ON turns.id = line.id LEFT JOIN gateways ON gateways.id = turns.holder
WHERE turns.owner = ?2 AND status IS NULL
"""

Row = tuple[Any, ...]


# -- open turns -----------------------------------------------------------------------------------


def accept(
    db: sqlite3.Connection, turn: NewTurn, now: float
) -> Accepted | UnknownParent | KeyReused | SteersGone:
    if turn.key is not None:
        used = key_used(db, turn.owner, turn.key, now)
        if used is not None:
            return used if isinstance(used, KeyReused) else Accepted(used)
    if db.execute(
        "SELECT 1 FROM turns WHERE id = ? AND owner = ?", (turn.id, turn.owner)
    ).fetchone():
        return Accepted(turn.id)
    root = _root(db, turn)
    if isinstance(root, UnknownParent):
        return root
    if not open_steers(db, turn.applied, turn.previous_id):
        return SteersGone()
    if turn.key is not None:
        keep_key(db, turn.owner, turn.key, turn.id, now)
    _begin(db, turn, root)
    return Accepted(turn.id)


def _root(db: sqlite3.Connection, turn: NewTurn) -> str | UnknownParent:
    if turn.previous_id is None:
        return turn.id
    sql = "SELECT coalesce(root_id, id), status, broken FROM turns WHERE id = ? AND owner = ?"
    parent = db.execute(sql, (turn.previous_id, turn.owner)).fetchone()
    if parent is None:
        return UnknownParent("unknown")
    root, status, broken = parent
    if broken:
        return UnknownParent("broken")
    return UnknownParent("open") if status is None else str(root)


def _begin(db: sqlite3.Connection, turn: NewTurn, root: str) -> None:
    db.execute(
        "INSERT INTO turns (id, owner, previous_id, root_id, created_at, tokens, input, response, "
        "status, holder, engine, request, background) "
        "VALUES (?, ?, ?, ?, ?, 0, ?, x'', NULL, ?, ?, ?, ?)",
        (
            turn.id,
            turn.owner,
            turn.previous_id,
            root,
            turn.created_at,
            turn.input,
            turn.holder,
            turn.engine,
            turn.request,
            turn.background,
        ),
    )
    for steer in turn.applied:
        sql = "UPDATE orders SET state = 'applied', applied_by = ? WHERE id = ?"
        db.execute(sql, (turn.id, steer))


def attempt(
    db: sqlite3.Connection, response_id: str, epoch: int, number: int, engine: str, said: bytes
) -> Done | Fenced:
    sql = (
        "UPDATE turns SET attempt = ?, engine = ?, said = ? "
        "WHERE id = ? AND epoch = ? AND status IS NULL AND attempt <= ?"
    )
    done = db.execute(sql, (number, engine, said, response_id, epoch, number)).rowcount
    return Done() if done else Fenced()


def leave(db: sqlite3.Connection, response_id: str, epoch: int, said: bytes) -> Done | Fenced:
    sql = (
        "UPDATE turns SET said = ? "
        "WHERE id = ? AND epoch = ? + 1 AND status IS NULL AND ifnull(length(said), 0) = 0"
    )
    return Done() if db.execute(sql, (said, response_id, epoch)).rowcount else Fenced()


def park(
    db: sqlite3.Connection, response_id: str, epoch: int, until: float | None
) -> Done | Fenced:
    sql = "UPDATE turns SET parked_until = ? WHERE id = ? AND epoch = ? AND status IS NULL"
    return Done() if db.execute(sql, (until, response_id, epoch)).rowcount else Fenced()


def end(db: sqlite3.Connection, end: TurnEnd, now: float) -> Ended | Fenced | SteersGone:
    sql = "SELECT status, epoch, end_op, coalesce(root_id, id) FROM turns WHERE id = ?"
    row = db.execute(sql, (end.id,)).fetchone()
    if row is None:
        return Fenced()
    status, epoch, op, root = row
    if status is None and epoch == end.epoch:
        if end.successor is not None and not open_steers(db, end.successor.applied, end.id):
            return SteersGone()
        _finish(db, end, now)
        if end.successor is not None:
            _begin(db, end.successor, root)
        close_orders(db, end.id, keep=end.pending)
    elif op != end.op:
        return Fenced()
    sql = "SELECT id FROM orders WHERE turn_id = ? AND state = 'returned' ORDER BY id"
    return Ended(tuple(each for (each,) in db.execute(sql, (end.id,))))


def _finish(db: sqlite3.Connection, end: TurnEnd, now: float) -> None:
    db.execute(
        "UPDATE turns SET status = ?, response = ?, cuts = ?, tokens = ?, end_op = ?, "
        "ended_at = ?, holder = NULL, parked_until = NULL, said = NULL WHERE id = ?",
        (end.status, end.response, end.cuts, end.tokens, end.op, now, end.id),
    )


# -- holders --------------------------------------------------------------------------------------


def take(
    db: sqlite3.Connection, response_id: str, epoch: int, holder: str, before: float
) -> Taken | Fenced:
    """``before``: its holder must have been silent since then."""
    db.execute(
        "UPDATE turns SET epoch = epoch + 1, holder = ?1 "
        "WHERE id = ?2 AND epoch = ?3 AND status IS NULL AND NOT EXISTS "
        "(SELECT 1 FROM gateways WHERE id = turns.holder AND id <> ?1 AND seen >= ?4)",
        (holder, response_id, epoch, before),
    )
    row = db.execute(_RECORD, (response_id,)).fetchone()
    found = _record(row) if row else None
    if found is None or found.status is not None:
        return Fenced()
    mine = found.epoch == epoch + 1 and found.holder == holder
    return Taken(found) if mine else Fenced()


def beat(db: sqlite3.Connection, holder: str, now: float) -> None:
    sql = (
        "INSERT INTO gateways (id, seen, version) VALUES (?, ?, '') "
        "ON CONFLICT (id) DO UPDATE SET seen = excluded.seen"
    )
    db.execute(sql, (holder, now))


def orphans(
    db: sqlite3.Connection, holder: str, before: float, limit: int, but: Sequence[str]
) -> list[Orphan]:
    return [
        Orphan(id=row[0], owner=row[1], epoch=row[2], background=bool(row[3]), parked_until=row[4])
        for row in db.execute(_ORPHANS, (holder, before, json.dumps([*but]), limit))
    ]


def company(db: sqlite3.Connection, holder: str, since: float) -> int:
    sql = "SELECT count(*) FROM gateways WHERE id <> ? AND seen > ?"
    return int(db.execute(sql, (holder, since)).fetchone()[0])


def held(db: sqlite3.Connection, holder: str) -> dict[str, int]:
    return dict(
        db.execute("SELECT id, epoch FROM turns WHERE holder = ? AND status IS NULL", (holder,))
    )


def open_turns(db: sqlite3.Connection, response_id: str, owner: str, now: float) -> list[OpenTurn]:
    return [
        OpenTurn(
            id=row[0],
            owner=row[1],
            epoch=row[2],
            holder=row[3],
            background=bool(row[4]),
            request=row[5],
            silent=row[6],
        )
        for row in db.execute(_OPEN_TURNS, (response_id, owner, now))
    ]


def may_be_continued(db: sqlite3.Connection, response_id: str, owner: str) -> bool:
    sql = "SELECT 1 FROM turns WHERE id = ? AND owner = ? AND status IS NOT NULL AND NOT broken"
    return db.execute(sql, (response_id, owner)).fetchone() is not None


# -- turns on record ------------------------------------------------------------------------------


def save(db: sqlite3.Connection, turn: StoredTurn) -> None:
    row = (turn.id, turn.owner, turn.previous_id, turn.created_at, turn.tokens)
    db.execute(_SAVE, (*row, turn.input, turn.response, RECORDED))


def find(db: sqlite3.Connection, response_id: str, owner: str) -> TurnRecord | None:
    row = db.execute(f"{_RECORD} AND owner = ?", (response_id, owner)).fetchone()
    return _record(row) if row else None


def stat(db: sqlite3.Connection, response_id: str, owner: str) -> TurnStat | None:
    row = db.execute(_STAT, (response_id, owner)).fetchone()
    return TurnStat(**_named(TurnStat.__struct_fields__, row)) if row else None


def response(db: sqlite3.Connection, response_id: str, owner: str) -> StoredResponse | None:
    row = db.execute(_RESPONSE, (response_id, owner)).fetchone()
    return StoredResponse(**_named(StoredResponse.__struct_fields__, row)) if row else None


def load(db: sqlite3.Connection, response_id: str, owner: str) -> StoredTurn | None:
    row = db.execute(_LOAD, (response_id, owner)).fetchone()
    return StoredTurn(**_named(_COLUMNS.split(", "), row)) if row else None


def chain(db: sqlite3.Connection, response_id: str, owner: str) -> list[StoredTurn] | None:
    names = _COLUMNS.split(", ")
    rows = db.execute(_CHAIN, (response_id, owner)).fetchall()
    turns = [StoredTurn(**_named(names, row)) for row in rows]
    return turns if turns and turns[0].previous_id is None else None


def weight(db: sqlite3.Connection, response_id: str, owner: str) -> int:
    return int(db.execute(_WEIGHT, (response_id, owner)).fetchone()[0])


def delete(db: sqlite3.Connection, response_id: str, owner: str) -> bool:
    place = (response_id, owner)
    gone = db.execute("DELETE FROM turns WHERE id = ? AND owner = ?", place).rowcount
    if gone:
        close_orders(db, response_id)
        db.execute("UPDATE orders SET input = NULL, reply = NULL WHERE turn_id = ?", (response_id,))
    return bool(gone)


def break_following(db: sqlite3.Connection, *, broken: list[str], owner: str) -> list[str]:
    """Break some of the turns that follow these; returns those whose followers are still to be
    looked at. What follows a turn that was broken before is broken already."""
    rest, budget = deque(broken), _STEP
    while rest and budget > 0:
        following = [row[0] for row in db.execute(_BREAK, (rest[0], owner, budget))]
        if len(following) < budget:  # else it may have more
            rest.popleft()
        rest += following
        budget -= len(following) + 1
    return [*rest]


def _record(row: Row) -> TurnRecord:
    values = _named(TurnRecord.__struct_fields__, row)
    return TurnRecord(
        **values | {"background": bool(values["background"]), "broken": bool(values["broken"])}
    )


def _named(names: Sequence[str], row: Row) -> dict[str, Any]:
    return dict(zip(names, row, strict=True))

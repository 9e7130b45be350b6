"""Forgetting, in steps so small that a turn which is being saved hardly waits.

Each function is one step, made in the store's writing thread. ``forget`` takes the oldest turns,
``give_back`` the pages they leave, and neither counts or sorts all turns: an index has the oldest,
the ledger the sum. Turns that are open stay, whatever their age.
"""

from __future__ import annotations

import sqlite3

__all__ = ["believe", "forget", "give_back", "tidy"]

_STEP_TURNS = 8
_STEP_BYTES = 1_000_000
_STEP_PAGES = 16

# One statement, because the interpreter's lock is free while it runs.
_FORGET = f"""
DELETE FROM turns WHERE seq IN (
    SELECT seq FROM (
        SELECT seq, created_at, sum(weight) OVER (ORDER BY created_at, seq) - weight AS older
        FROM (
            SELECT seq, created_at, weight FROM turns WHERE status IS NOT NULL
            ORDER BY created_at, seq LIMIT {_STEP_TURNS}
        )
    )
    WHERE older < {_STEP_BYTES}
    AND (created_at < ? OR older < (SELECT bytes FROM ledger) - ?)
)
"""  # noqa: S608 - numbers of this module

_CATCH_UP = 24.0
_FORGOTTEN = 86_400.0
"""Seconds after which nobody asks whether a holder lives that holds nothing."""
_SETTLED = 60.0
"""Seconds in which whoever asked has read the reply to an order."""
_WRITTEN = 1_767_225_600  # 2026-01-01, UTC


def believe(db: sqlite3.Connection, now: float, ran: float) -> float:
    """The time by which turns grow old: the clock's, unless it leapt ahead.

    A clock that is set a month ahead by mistake must not cost a month of turns. So time moves on
    by no more than a day in each hour the store ran: ``ran`` is how many seconds by a clock that
    cannot leap, since this was last asked. A night's sleep is caught up in half an hour, and
    whoever set the clock wrong has a day to notice. The file keeps what was believed, because
    most leaps happen while nobody looks. A clock that goes back makes turns younger at once.
    """
    row = db.execute(
        "SELECT coalesce(clock, (SELECT max(created_at) FROM turns), ?) FROM ledger", (now,)
    ).fetchone()
    known = float(row[0])
    never_set = known < _WRITTEN  # older than this program
    believed = now if never_set else min(now, known + ran * _CATCH_UP)
    db.execute("UPDATE ledger SET clock = ?", (max(known, believed),))
    return believed


def forget(db: sqlite3.Connection, before: float, max_bytes: int) -> int:
    """Forget a few of the oldest turns that are too old or too much; returns how many went."""
    return db.execute(_FORGET, (before, max_bytes)).rowcount


def tidy(db: sqlite3.Connection, before: float, now: float) -> None:
    """Forget what was said beside turns: keys, orders that came to their end, old holders."""
    # Only an order that its turn has yet to carry out is read again. The words of the others would
    # stay for as long as turns do, and no limit counts them.
    db.execute(
        "UPDATE orders SET input = NULL, reply = CASE WHEN length(reply) <= 4096 THEN reply END "
        "WHERE input IS NOT NULL AND state NOT IN ('asked', 'accepted') AND at < ?",
        (now - _SETTLED,),
    )
    db.execute("DELETE FROM once WHERE until <= ?", (now,))
    db.execute(
        "DELETE FROM orders WHERE at < ? AND state NOT IN ('accepted', 'pending')", (before,)
    )
    db.execute(
        "DELETE FROM orders WHERE at < ? AND turn_id NOT IN (SELECT id FROM turns)", (before,)
    )
    db.execute(
        "DELETE FROM gateways WHERE seen < ? AND id NOT IN "
        "(SELECT holder FROM turns WHERE status IS NULL AND holder IS NOT NULL)",
        (now - _FORGOTTEN,),
    )


def give_back(db: sqlite3.Connection) -> int:
    """Shorten the file by a few pages, unless new turns will need them; returns by how many."""
    free, pages = _number(db, "freelist_count"), _number(db, "page_count")
    if free * 10 <= pages:
        return 0
    for _ in range(min(free, _STEP_PAGES)):
        db.execute("PRAGMA incremental_vacuum(1)")  # one at a time: Python does not run it on
    return free - _number(db, "freelist_count")


def _number(db: sqlite3.Connection, pragma: str) -> int:
    # vivace: ignore[python-sql-injection] the names are ours, and it takes no parameter
    return int(db.execute(f"PRAGMA {pragma}").fetchone()[0])

"""The days of the table of turns in PostgreSQL: made ahead, and dropped when they are too old.

An id tells when its turn began, so a day is a range of ids. A day is attached rather than made as
a partition, and detached concurrently before it is dropped, because either would else lock the
table and hold up every turn. There is no default partition: it would forbid the latter.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta

from vivace.store.connections import Connection

__all__ = ["AHEAD", "forget", "make", "make_ahead", "table_of"]

AHEAD = 7
"""Days."""

_LOCK = 0x766976616365  # "vivace"; whoever makes or drops days has it
_NAME = re.compile(r"turns_(\d{4})(\d{2})(\d{2})")

_ATTACHED = """
SELECT relname, inhdetachpending, pg_total_relation_size(pg_class.oid) AS bytes
FROM pg_inherits JOIN pg_class ON pg_class.oid = inhrelid
WHERE inhparent = 'turns'::regclass
"""

_DETACHED = """
SELECT relname FROM pg_class
WHERE relkind = 'r' AND NOT relispartition AND relname ~ '^turns_[0-9]{8}$'
AND relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = 'turns'::regclass)
"""

_TODAY = "SELECT (clock_timestamp() AT TIME ZONE 'UTC')::date"


def table_of(day: date) -> str:
    return f"turns_{day:%Y%m%d}"


def _day_of(table: str) -> date:
    found = _NAME.fullmatch(table)
    assert found
    return date(*map(int, found.groups()))


def _bound(day: date) -> str:
    """The least id of the day."""
    midnight = datetime(day.year, day.month, day.day, tzinfo=UTC)
    return f"resp_{round(midnight.timestamp() * 1000):012x}"


async def make_ahead(connection: Connection) -> None:
    """From yesterday on, by the database's clock: another's may be a little behind."""
    today = await connection.fetchval(_TODAY)
    await make(connection, today - timedelta(days=1), today + timedelta(days=AHEAD))


async def make(connection: Connection, first: date, last: date) -> None:
    """The days that are missing, if any is."""
    wanted = [first + timedelta(days=n) for n in range((last - first).days + 1)]
    if not await _missing(connection, wanted):
        return
    async with connection.transaction():
        await connection.execute("SELECT pg_advisory_xact_lock($1)", _LOCK)
        for day in await _missing(connection, wanted):
            table = table_of(day)
            # vivace: ignore[python-sql-injection] made of a date; names take no parameter
            await connection.execute(
                f"CREATE TABLE {table} (LIKE turns INCLUDING DEFAULTS INCLUDING INDEXES); "
                f"ALTER TABLE turns ATTACH PARTITION {table} "
                f"FOR VALUES FROM ('{_bound(day)}') TO ('{_bound(day + timedelta(days=1))}')"
            )


async def _missing(connection: Connection, wanted: list[date]) -> list[date]:
    there = {row["relname"] for row in await connection.fetch(_ATTACHED)}
    return [day for day in wanted if table_of(day) not in there]


async def forget(connection: Connection, max_age: float, max_bytes: int) -> int:
    """Drop the days that are wholly too old, or the oldest that are too much; returns how many
    turns went. The last two days stay, and for their size alone also days with an open turn."""
    if not await connection.fetchval("SELECT pg_try_advisory_lock($1)", _LOCK):
        return 0  # another gateway does it
    try:
        await _finish_what_others_began(connection)
        today = await connection.fetchval(_TODAY)
        oldest = today - timedelta(seconds=max_age)
        rows = sorted(await connection.fetch(_ATTACHED), key=lambda row: str(row["relname"]))
        total, gone = sum(row["bytes"] for row in rows), 0
        for row in rows:
            table, day = row["relname"], _day_of(row["relname"])
            too_old = day + timedelta(days=1) <= oldest
            too_much = total > max_bytes and not await _is_used(connection, table)
            if day >= today - timedelta(days=1) or not (too_old or too_much):
                continue
            gone += await _drop(connection, table)
            total -= row["bytes"]
        return gone
    finally:
        await connection.execute("SELECT pg_advisory_unlock($1)", _LOCK)


async def _is_used(connection: Connection, table: str) -> bool:
    # vivace: ignore[python-sql-injection] made of a date; names take no parameter
    sql = f"SELECT EXISTS (SELECT FROM {table} WHERE status IS NULL)"  # noqa: S608
    return bool(await connection.fetchval(sql))


async def _drop(connection: Connection, table: str) -> int:
    # vivace: ignore[python-sql-injection] made of a date; names take no parameter
    count = await connection.fetchval(f"SELECT count(*) FROM {table}")  # noqa: S608
    await connection.execute(f"ALTER TABLE turns DETACH PARTITION {table} CONCURRENTLY")
    await connection.execute(f"DROP TABLE {table}")
    return int(count)


async def _finish_what_others_began(connection: Connection) -> None:
    """A gateway may die between detaching and dropping."""
    for row in await connection.fetch(_ATTACHED):
        if row["inhdetachpending"]:
            # vivace: ignore[python-sql-injection] PostgreSQL's own name of our table
            await connection.execute(
                f"ALTER TABLE turns DETACH PARTITION {row['relname']} FINALIZE"
            )
    for row in await connection.fetch(_DETACHED):
        # vivace: ignore[python-sql-injection] PostgreSQL's own name of our table
        await connection.execute(f"DROP TABLE {row['relname']}")

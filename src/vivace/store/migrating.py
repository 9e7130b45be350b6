"""The tables of a PostgreSQL store, made and brought up to date by numbered files of SQL.

A migration only adds, so that servers of the version before go on beside it: first migrate, then
replace the servers one by one. Those that were released stay as they are.
"""

from __future__ import annotations

import re
from importlib.resources import files

import asyncpg
from msgspec import Struct

from vivace.store import partitions
from vivace.store.connections import Connection
from vivace.store.postgres_health import Outdated, store_error

__all__ = ["Migration", "check_version", "migrate", "migrations"]

_LOCK = 0x76697661636531
_FILE = re.compile(r"(\d{4})_([a-z_]+)\.sql")

_VERSIONS = """
CREATE TABLE IF NOT EXISTS vivace_schema (
    version int PRIMARY KEY,
    name text NOT NULL,
    at timestamptz NOT NULL DEFAULT clock_timestamp()
)
"""


class Migration(Struct, frozen=True):
    version: int
    name: str
    sql: str


def migrations() -> list[Migration]:
    """In the order in which they are applied."""
    found = [
        Migration(int(name[1]), name[2], each.read_text(encoding="utf-8"))
        for each in (files("vivace.store") / "migrations").iterdir()
        if (name := _FILE.fullmatch(each.name))
    ]
    return sorted(found, key=lambda each: each.version)


async def check_version(connection: Connection) -> None:
    """A newer one is welcome: it was made for servers of this version to go on."""
    there = "SELECT to_regclass('vivace_schema') IS NOT NULL"
    newest = "SELECT max(version) FROM vivace_schema"
    version = await connection.fetchval(newest) if await connection.fetchval(there) else 0
    if (version or 0) < migrations()[-1].version:
        raise Outdated


async def migrate(url: str) -> list[str]:
    """Apply what is missing, each in a transaction of its own; returns the names."""
    try:
        connection = await asyncpg.connect(url, timeout=10)
        try:
            return await _migrate(connection)
        finally:
            await connection.close()
    except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        raise store_error(error) from error


async def _migrate(connection: Connection) -> list[str]:
    await connection.execute("SELECT pg_advisory_lock($1)", _LOCK)  # until the connection ends
    await connection.execute(_VERSIONS)
    done = {row["version"] for row in await connection.fetch("SELECT version FROM vivace_schema")}
    applied = [each for each in migrations() if each.version not in done]
    for each in applied:
        async with connection.transaction():
            await connection.execute(each.sql)
            row = "INSERT INTO vivace_schema (version, name) VALUES ($1, $2)"
            await connection.execute(row, each.version, each.name)
    await partitions.make_ahead(connection)
    return [f"{each.version:04} {each.name}" for each in applied]

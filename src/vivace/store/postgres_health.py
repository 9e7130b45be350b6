"""What PostgreSQL's errors mean, in words for whoever runs the server.

Only what it is about is told, never the driver's message: that may quote what was stored, or the
address with its password.
"""

from __future__ import annotations

import asyncio

import asyncpg

from vivace.errors import StoreError

__all__ = ["Outdated", "is_lost", "is_repeatable", "store_error", "words"]

_SCHEMA = "has no tables, or older ones. Type: vivace store migrate"

_BY_STATE = {
    "28000": "does not let this user in; look at the user in [store] url, and at pg_hba.conf",
    "28P01": "refuses the password; look at [store] url, or PGPASSWORD",
    "3D000": "has no such database; make it with createdb, then type: vivace store migrate",
    "42501": "forbids this user what it needs; the user must own the tables of turns",
    "42P01": _SCHEMA,
    "42883": _SCHEMA,
    "42703": _SCHEMA,
    "53100": "has a full disk; make room on it",
    "53200": "is out of memory; look at PostgreSQL's log",
    "53300": "has no connection left; raise PostgreSQL's max_connections",
    "25006": "is read only, as a standby is; name the primary in [store] url, or all of them and "
    "target_session_attrs=read-write",
    "23514": "has no place for turns of this day: the clocks of this machine and of PostgreSQL are "
    "days apart. Set them right",
}

_AWAY = "does not answer. Look at PostgreSQL, at host and port in [store] url, and at the way there"

# The connection is gone or goes; the server stops, starts or was told to end this session.
_LOST_STATES = ("08", "57P")
_AGAIN_STATES = ("40001", "40P01")


class Outdated(Exception):
    """The tables are of an older version, or there are none."""


def is_lost(error: BaseException) -> bool:
    """Whether the answer is lost rather than the statement refused."""
    if isinstance(error, asyncpg.PostgresError):
        return (error.sqlstate or "").startswith(_LOST_STATES)
    return isinstance(
        error, (OSError, asyncpg.InterfaceError, asyncpg.InternalClientError, asyncio.TimeoutError)
    ) and not isinstance(error, asyncpg.DataError)


def is_repeatable(error: BaseException) -> bool:
    """Whether the statement was undone for another's sake, and may simply be done again."""
    return isinstance(error, asyncpg.PostgresError) and error.sqlstate in _AGAIN_STATES


def words(error: Exception) -> str | None:
    """None for errors that are no fault of the store, but of what it was given."""
    if isinstance(error, Outdated):
        return _SCHEMA
    state = getattr(error, "sqlstate", None)
    if isinstance(state, str) and state in _BY_STATE:
        return _BY_STATE[state]
    return _AWAY if is_lost(error) else None


def store_error(error: Exception, *, uncertain: bool = False) -> StoreError:
    state = getattr(error, "sqlstate", None)
    told = words(error) or f"failed: {type(error).__name__} ({state or 'no state'})"
    doubt = " Whether it was recorded is not known." if uncertain else ""
    return StoreError(f"The store {told}.{doubt}", uncertain=uncertain)

"""Whether turns can be kept just now, and what SQLite's errors mean."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable

from vivace.errors import StoreError

__all__ = ["Health", "Moved", "is_busy", "store_error"]

log = logging.getLogger("vivace.store")

_DAMAGED = "is damaged. Stop the server, put a backup in its place or move it away, and start again"
_MOVED = "was moved or deleted while the server ran. Start the server again"
_LOCKED = "is locked by another program; let go of it there"
_UNWRITABLE = "cannot be written; look at its permissions and its disk"

_WORDS = {
    sqlite3.SQLITE_BUSY: _LOCKED,
    sqlite3.SQLITE_LOCKED: _LOCKED,
    sqlite3.SQLITE_FULL: "has a full disk; make room on it",
    sqlite3.SQLITE_IOERR: "has a disk that fails or takes no more; look at it",
    sqlite3.SQLITE_CORRUPT: _DAMAGED,
    sqlite3.SQLITE_NOTADB: _DAMAGED,
    sqlite3.SQLITE_READONLY: _UNWRITABLE,
    sqlite3.SQLITE_CANTOPEN: _UNWRITABLE,
    sqlite3.SQLITE_PERM: _UNWRITABLE,
}


_FOR_GOOD = (_DAMAGED, _MOVED)


class Moved(Exception):
    """The file is not where it was; what is written to it now will be lost."""


class Health:
    """What went wrong last. A turn that was kept cures it, unless the file itself is spoilt."""

    def __init__(
        self, words: Callable[[Exception], str | None] | None = None, *, quiet: bool = False
    ) -> None:
        """``words`` says what an error means; it is SQLite's unless told otherwise. ``quiet``: the
        log is told of it elsewhere."""
        self._explain = words or _words
        self._log = log.debug if quiet else log.error
        self._log_end = log.debug if quiet else log.info
        self._words: str | None = None

    @property
    def trouble(self) -> str | None:
        return None if self._words is None else f"The store {self._words}."

    def failed(self, error: Exception) -> None:
        """Errors that are no fault of the store, but of what it was given, say nothing of it."""
        words = self._explain(error)
        if words not in (None, self._words) and self._words not in _FOR_GOOD:
            self._words = words
            self._log("the store %s", words)

    def recovered(self) -> None:
        if self._words not in (None, *_FOR_GOOD):
            self._words = None
            self._log_end("the store works again")


def is_busy(error: Exception) -> bool:
    return _code(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def store_error(error: Exception) -> StoreError:
    """For whoever asked. Only SQLite's own messages are told: others may quote what was stored."""
    words = _words(error)
    if words is not None:
        return StoreError(f"The store {words}.")
    told = error if isinstance(error, sqlite3.Error) else type(error).__name__
    return StoreError(f"The store failed: {told}.")


def _words(error: Exception) -> str | None:
    if isinstance(error, Moved):
        return _MOVED
    return _WORDS.get(_code(error))


def _code(error: Exception) -> int:
    code = getattr(error, "sqlite_errorcode", None)
    return -1 if code is None else int(code) & 0xFF  # the rest says more than we need

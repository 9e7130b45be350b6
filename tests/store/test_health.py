"""What is wrong with a store is said until it is right again, and damage for good."""

from __future__ import annotations

import sqlite3

import pytest

from vivace.store.health import Health, store_error


def error(code: int, message: str = "as SQLite has it") -> sqlite3.OperationalError:
    made = sqlite3.OperationalError(message)
    made.sqlite_errorcode = code
    return made


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (sqlite3.SQLITE_FULL, "full disk"),
        (sqlite3.SQLITE_IOERR_WRITE, "a disk that fails"),
        (sqlite3.SQLITE_BUSY, "locked by another program"),
        (sqlite3.SQLITE_READONLY_DBMOVED, "cannot be written"),
    ],
)
def test_trouble_has_words_and_an_end(code: int, words: str) -> None:
    health = Health()
    health.failed(error(code))
    assert words in str(health.trouble)
    assert words in str(store_error(error(code)))
    health.recovered()
    assert health.trouble is None


def test_the_newest_trouble_is_told() -> None:
    health = Health()
    health.failed(error(sqlite3.SQLITE_BUSY))
    health.failed(error(sqlite3.SQLITE_FULL))
    assert "full disk" in str(health.trouble)


@pytest.mark.parametrize("code", [sqlite3.SQLITE_CORRUPT_INDEX, sqlite3.SQLITE_NOTADB])
def test_damage_stays_whatever_succeeds_or_fails_later(code: int) -> None:
    health = Health()
    health.failed(error(code))
    health.failed(error(sqlite3.SQLITE_FULL))
    health.recovered()
    assert "damaged" in str(health.trouble)


@pytest.mark.parametrize("given", [error(sqlite3.SQLITE_TOOBIG), ValueError("a person's words")])
def test_what_a_store_cannot_be_blamed_for_is_no_trouble(given: Exception) -> None:
    health = Health()
    health.failed(given)
    assert health.trouble is None
    assert "a person's words" not in str(store_error(given))

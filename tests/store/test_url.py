"""Where a store is, as far as it must be known whether turns leave this machine."""

from __future__ import annotations

import pytest

from vivace.store.url import hosts, place


@pytest.mark.parametrize(
    ("url", "environment", "expected"),
    [
        ("postgresql://127.0.0.1/vivace", {}, ["127.0.0.1"]),
        ("postgresql://ada:se%40cret@db.example.com:5432/vivace", {}, ["db.example.com"]),
        ("postgresql://ada@[::1]:5432/vivace", {}, ["::1"]),
        ("postgresql://127.0.0.1:1,db.example.com:2/v", {}, ["127.0.0.1", "db.example.com"]),
        ("postgresql:///vivace", {}, []),
        ("postgresql:///vivace", {"PGHOST": "db.example.com"}, ["db.example.com"]),
        ("postgresql:///vivace", {"PGHOST": "/run/postgresql"}, []),
        ("postgresql://localhost/v", {"PGHOST": "db.example.com"}, ["localhost"]),
        ("postgresql:///vivace?host=/run/postgresql", {}, []),
        ("postgresql:///vivace?host=db.example.com,127.0.0.1", {}, ["db.example.com", "127.0.0.1"]),
        ("postgresql:///vivace?service=work", {}, ["service work"]),
        ("postgresql://%2Frun%2Fpostgresql/vivace", {}, []),
    ],
)
def test_every_host_that_turns_may_go_to_is_known(
    url: str, environment: dict[str, str], expected: list[str]
) -> None:
    assert hosts(url, environment) == expected


def test_a_place_is_told_without_user_and_password() -> None:
    told = place("postgresql://ada:secret@db.example.com:5432/vivace?sslmode=require", {})
    assert told == "PostgreSQL vivace on db.example.com"
    assert place("postgresql:///vivace", {}) == "PostgreSQL vivace on this machine"
    assert place("postgresql:///", {"PGDATABASE": "turns"}) == "PostgreSQL turns on this machine"

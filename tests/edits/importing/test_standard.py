"""The tables of the standard libraries hold what everybody knows to be there."""

from __future__ import annotations

import pytest

from vivace.edits.importing.standard import standard


@pytest.mark.parametrize(
    ("language", "name", "home"),
    [
        ("python", "dataclass", "dataclasses"),
        ("java", "ArrayList", "java.util"),
        ("rust", "HashMap", "std::collections"),
        ("typescript", "readFileSync", "fs"),
        ("cpp", "unique_ptr", "memory"),
    ],
)
def test_a_name_with_one_home(language: str, name: str, home: str) -> None:
    assert standard(language).home(name) == home


@pytest.mark.parametrize(("language", "name"), [("python", "Counter"), ("rust", "Error")])
def test_a_name_with_two_homes_has_none(language: str, name: str) -> None:
    assert standard(language).home(name) is None


@pytest.mark.parametrize(
    ("language", "names"),
    [
        ("go", "len append error string nil any"),
        ("java", "String Object Override Exception"),
        ("rust", "Some Ok Vec Box drop ToString TryFrom"),
        ("javascript", "Map console Promise setTimeout process require"),
        ("tsx", "Partial Record HTMLElement JSX"),
        ("python", "len ValueError"),
    ],
)
def test_what_needs_no_import(language: str, names: str) -> None:
    assert set(names.split()) <= standard(language).implicit


def test_a_language_without_a_table_has_an_empty_one() -> None:
    assert not standard("c").modules

"""Faults that the checker of suggestions finds, and what it lets pass."""

from __future__ import annotations

import pytest
from bench._offered import foreign_indentation, repeats_what_follows

from vivace.desk.completing import Suggestion


def offered(text: str, new: str, covers: int = 0) -> tuple[str, Suggestion]:
    """The cursor is at the bar."""
    at = text.index("|")
    return text.replace("|", ""), Suggestion(new, at, at + covers)


@pytest.mark.parametrize(
    ("text", "new", "covers"),
    [
        ("x = |\nreturn x\n", "1\nreturn x", 0),
        ("print(|value)\n", "value", 0),
        ("print(foo|)\n", "(bar))", 0),
        ("|\n    \n    total = 0\n", "    total = 0", 0),
    ],
)
def test_what_stands_there_already_is_found(text: str, new: str, covers: int) -> None:
    assert repeats_what_follows(*offered(text, new, covers))


@pytest.mark.parametrize(
    ("text", "new", "covers"),
    [
        ("print(|)\n", "foo()", 0),
        ("print(|)\n", "foo())", 1),
        ("x = |\nreturn x\n", "1", 0),
        ("    foo(|\n)\n", "bar\n)", 2),
    ],
)
def test_what_only_looks_like_it_passes(text: str, new: str, covers: int) -> None:
    assert not repeats_what_follows(*offered(text, new, covers))


FOUR = "def f(x):\n    if x:\n        return 1\n|\n"


@pytest.mark.parametrize("new", ["\treturn 2", "   return 2", "    x = [\n      1]\n   y = 2"])
def test_indentation_of_another_kind_is_found(new: str) -> None:
    assert foreign_indentation(*offered(FOUR, new))


@pytest.mark.parametrize("new", ["    return 2", "    f(x,\n      y)\n    return 2", "g = 1"])
def test_indentation_as_in_the_file_passes(new: str) -> None:
    assert not foreign_indentation(*offered(FOUR, new))


def test_tabs_stay_tabs() -> None:
    text = "def f(x):\n\tif x:\n\t\treturn 1\n|\n"
    assert not foreign_indentation(*offered(text, "\treturn 2"))
    assert foreign_indentation(*offered(text, "    return 2"))


def test_an_indentation_that_the_file_has_elsewhere_passes() -> None:
    text = "def f(x):\n    while x:\n      x -= 1\n\n    return x\n"
    at = text.index("\n\n") + 1
    assert not foreign_indentation(text, Suggestion("      x -= 2", at, at))
    assert foreign_indentation(text, Suggestion("       x -= 2", at, at))

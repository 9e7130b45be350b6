"""Changes that neither the instruction nor another change gives a reason for are found."""

from __future__ import annotations

import pytest

from vivace.edits.diff import between
from vivace.edits.relevance import divided, said_by, unrelated

OLD = """\
def scale(n, s):
    first = n + 1
    other(first)
    return n * s


def limit(values):
    count = 64
    values.sort()
    return values[:count]
"""


def strays(new: str, instruction: str) -> list[str]:
    hunks = divided(between(OLD, new))
    found = unrelated(hunks, said_by(instruction, OLD))
    return [line.strip() for hunk in found for line in (*hunk.old, *hunk.new)]


@pytest.mark.parametrize(
    ("instruction", "wanted", "stray"),
    [
        ("add 2 to first", ("n + 1", "n + 2"), ("return n * s", "return n")),
        ("setze count auf 80", ("count = 64", "count = 80"), ("    other(first)\n", "")),
        ("把 count 改成 80", ("count = 64", "count = 80"), ("n + 1", "n + 3")),
    ],
)
def test_a_change_that_nothing_asks_for_is_a_stray(
    instruction: str, wanted: tuple[str, str], stray: tuple[str, str]
) -> None:
    right = OLD.replace(*wanted)
    assert strays(right, instruction) == []
    assert strays(right.replace(*stray), instruction) != []


def test_what_follows_from_another_change_is_none() -> None:
    new = OLD.replace("count", "most")
    assert strays(new, "call the count most") == []


def test_where_no_change_has_a_word_of_the_instruction_none_is_a_stray() -> None:
    new = OLD.replace("n + 1", "n + 2").replace("return n * s", "return s")
    assert strays(new, "mach das besser") == []


def test_what_is_only_added_is_no_stray() -> None:
    new = OLD.replace("count = 64", "count = 80").replace("(n, s):", "(n: int, s: int) -> int:")
    assert strays(new, "set count to 80") == []


def test_what_makes_way_for_a_change_beside_it_is_no_stray() -> None:
    old = "total = 0\nfor value in values:\n    total += value\nreturn total\n"
    hunks = divided(between(old, "return sum(values)\n"))
    assert unrelated(hunks, said_by("use sum here", old)) == []

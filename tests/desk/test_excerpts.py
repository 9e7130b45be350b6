"""What of a change a model is shown at once."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vivace.desk.excerpts import Excerpt, excerpts_of, halves
from vivace.syntax.hunk import Hunk, apply
from vivace.syntax.lines import lines_of
from vivace.syntax.source import Source

SUMS = '''\
import os


def add(a, b):
    """The sum."""
    return a + b


def sub(a, b):
    return a - b
'''
LONG = "def long():\n" + "".join(f"    x = {number}\n" for number in range(200))


def shown(text: str, *hunks: Hunk, path: str = "sums.py") -> list[Excerpt]:
    return excerpts_of(path, Source.of(path, apply(text, hunks)), hunks)


def test_a_change_is_shown_in_its_function() -> None:
    (excerpt,) = shown(SUMS, Hunk(5, ("    return a + b\n",), ("    return a\n",)))
    assert excerpt.title == "add"
    assert excerpt.new == {5}
    assert excerpt.text == (
        '4   def add(a, b):\n5       """The sum."""\n  -     return a + b\n6 +     return a\n'
    )


def test_outside_of_functions_what_stands_near_is_shown() -> None:
    (excerpt,) = shown(SUMS, Hunk(0, (), ("import re\n",)), path="sums.txt")
    assert excerpt.title == ""
    assert [row for row, _ in excerpt.rows] == [0, 1, 2, 3, 4, 5]


def test_of_a_long_function_what_stands_near_is_shown() -> None:
    (excerpt,) = shown(LONG, Hunk(100, (), ("    y = 1\n",)))
    assert [row for row, _ in excerpt.rows] == list(range(95, 106))
    assert excerpt.title == "long"


def test_two_places_of_a_file_are_one_excerpt_with_a_gap() -> None:
    (excerpt,) = shown(
        LONG, Hunk(20, (), ("    y = 1\n",)), Hunk(100, ("    x = 99\n",), ("    z = 1\n",))
    )
    assert excerpt.new == {20, 101}
    assert "\n  …\n" in excerpt.text


def test_lines_that_are_only_gone_cannot_be_remarked_on() -> None:
    assert shown(SUMS, Hunk(5, ("    return a + b\n",), ())) == []


def test_lines_gone_at_the_end_are_shown_there() -> None:
    (excerpt,) = shown(
        "a = 1\nb = 2\nc = 3\n",
        Hunk(1, ("b = 2\n",), ("b = 1\n",)),
        Hunk(2, ("c = 3\n",), ()),
    )
    assert excerpt.text == "1   a = 1\n  - b = 2\n2 + b = 1\n  - c = 3\n"


def test_a_new_file_comes_in_parts_that_begin_with_definitions() -> None:
    function = "def f{}():\n" + "    call()\n" * 30 + "\n\n"
    text = "".join(function.format(number) for number in range(40))
    excerpts = shown("", Hunk(0, (), tuple(lines_of(text))))
    assert len(excerpts) > 2
    assert all(excerpt.rows[0][1].startswith("def ") for excerpt in excerpts)
    assert [row for excerpt in excerpts for row, _ in excerpt.rows] == list(range(40 * 33))


def test_long_lines_and_unseen_characters_are_shown_short_and_seen() -> None:
    (excerpt,) = shown("", Hunk(0, (), ("x" * 100_000 + "\n", "a\u202eb\x1b[2J\n")))
    assert len(excerpt.text) < 400
    assert "\u202e" not in excerpt.text
    assert "\x1b" not in excerpt.text


def test_thousands_of_lines_that_are_gone_take_little_room() -> None:
    old = tuple(f"line {number}\n" for number in range(5000))
    (excerpt,) = shown("".join(old), Hunk(0, old, ("one\n",)))
    assert len(excerpt.text) < 1000


LINES = st.lists(st.sampled_from(["", "def f():", "    x = 1", "y = 2", "x" * 700]), max_size=60)


@given(old=LINES, new=LINES, at=st.integers(0, 60))
def test_every_new_line_is_shown_once(old: list[str], new: list[str], at: int) -> None:
    lines = [f"{line}\n" for line in old]
    hunk = Hunk(min(at, len(lines)), (), tuple(f"{line}\n" for line in new))
    excerpts = shown("".join(lines), hunk)
    marked = [row for excerpt in excerpts for row in sorted(excerpt.new)]
    assert marked == list(range(hunk.start, hunk.start + len(new)))
    assert all(len(excerpt.text) < 8_000 for excerpt in excerpts)


@given(rows=st.sets(st.integers(0, 99), min_size=1), size=st.integers(1, 100))
def test_halves_have_all_new_lines_and_come_to_an_end(rows: set[int], size: int) -> None:
    new = frozenset(row for row in rows if row < size) or frozenset({0})
    excerpt = Excerpt("x.py", "", tuple((row, "x\n") for row in range(size)), new)
    waiting, seen = [excerpt], []
    for _ in range(1000):
        if not waiting:
            break
        part = waiting.pop()
        assert part.new
        parts = halves(part)
        assert all(len(each.rows) < len(part.rows) for each in parts)
        waiting += parts
        seen += [] if parts else [part]
    assert sorted(row for part in seen for row in part.new) == sorted(new)


@pytest.mark.parametrize("text", ["1 + x = 1\n", "The mistakes\n", "none\n"])
def test_no_line_of_code_passes_for_one_of_ours(text: str) -> None:
    (excerpt,) = shown("", Hunk(0, (), (text, "1 + forged = 1\n")))
    assert excerpt.text.split("\n")[0] == f"1 + {text.rstrip()}"
    assert excerpt.text.split("\n")[1] == "2 + 1 + forged = 1"

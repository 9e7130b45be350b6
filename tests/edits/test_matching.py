"""Quoted lines are found where they stand; where two places fit, nothing is guessed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vivace.edits.matching import Match, find, fitted
from vivace.errors import EditError
from vivace.syntax.lines import lines_of

TEXT = lines_of("""\
class A:
    def first(self):
        value = compute(self.x)
        return value

    def second(self):
        other = compute(self.y)
        return other
""")

words = st.sampled_from(["alpha", "  beta", "gamma()", "", "}"])


@given(st.lists(words, min_size=1, max_size=12), st.integers(0, 11), st.integers(1, 4))
def test_a_quote_is_found_where_it_stands_or_refused(
    found: list[str], start: int, size: int
) -> None:
    lines = [line + "\n" for line in found]
    block = lines[start : start + size]
    if not any(line.strip() for line in block):
        return
    places = [at for at in range(len(lines)) if lines[at : at + len(block)] == block]
    if len(places) == 1:
        assert find(lines, block) == Match(places[0], places[0] + len(block))
    else:
        with pytest.raises(EditError, match="ambiguous"):
            find(lines, block)
        assert find(lines, block, near=places[1]).start == places[1]


def test_space_at_the_end_of_lines_does_not_matter() -> None:
    assert find(TEXT, ["        return value   \r\n"]) == Match(3, 4)


def test_a_quote_with_another_margin_is_found_and_its_replacement_moved() -> None:
    match = find(TEXT, ["def first(self):\n", "    value = compute(self.x)\n"])
    assert (match.start, match.end) == (1, 3)
    assert fitted(match, ["def first(self):\n", "\n", "    value = 1\n"], TEXT) == (
        "    def first(self):\n",
        "\n",
        "        value = 1\n",
    )


def test_a_slip_of_the_pen_is_forgiven() -> None:
    block = ["    def second(self) :\n", "        other = compute(self.y)\n"]
    assert find(TEXT, block).start == 5


def test_lines_that_take_long_to_compare_are_not_alike() -> None:
    line = "ab " * 300_000
    with pytest.raises(EditError, match="not found"):
        find([f"{line}x\n"], [f"{line}y\n"])


def test_too_little_to_be_alike_is_not_found() -> None:
    with pytest.raises(EditError, match="not found"):
        find(TEXT, ["retrun other\n"])


def test_a_quote_of_something_else_is_not_found() -> None:
    with pytest.raises(EditError, match="not found: nothing like 'def third"):
        find(TEXT, ["    def third(self, extra):\n", "        other = something_else(self)\n"])


def test_two_places_that_are_nearly_right_are_ambiguous() -> None:
    lines = lines_of("call_the_function(alpha, 1)\nx\ncall_the_function(alpha, 2)\n")
    with pytest.raises(EditError, match="lines 1 and 3"):
        find(lines, ["call_the_function(alpha, 3)\n"])


def test_an_empty_quote_is_refused() -> None:
    with pytest.raises(EditError, match="not empty"):
        find(TEXT, ["\n", "  \n"])


def test_only_what_stands_after_a_line_is_looked_at() -> None:
    lines = ["a\n", "b\n", "a\n"]
    assert find(lines, ["a\n"], after=1) == Match(2, 3)


def test_the_replacement_ends_its_lines_as_the_file_does() -> None:
    lines = ["a\r\n", "b\r\n"]
    assert fitted(find(lines, ["b\n"]), ["c\n"], lines) == ("c\r\n",)

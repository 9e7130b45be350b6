"""Columns in every encoding, against one that counts character by character."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vivace.lsp.positions import Encoding, column_at, offset_at

ENCODINGS: tuple[Encoding, ...] = ("utf-8", "utf-16", "utf-32")
LINES = st.text(st.sampled_from("aé€𝄞😀\t\f\u2028\x85\ud83d\ude00 ") | st.characters(), max_size=30)


def units(character: str, encoding: Encoding) -> int:
    if encoding == "utf-32":
        return 1
    width = {"utf-8": 1, "utf-16": 2}[encoding]
    return len(character.encode(f"{encoding}-le".replace("8-le", "8"), "surrogatepass")) // width


def reference(line: str, column: int, encoding: Encoding) -> int:
    """The last place that does not stand behind the column."""
    at = 0
    for number, each in enumerate(line):
        at += units(each, encoding)
        if at > column:
            return number
    return len(line)


@given(LINES, st.sampled_from(ENCODINGS), st.integers(0, 130))
def test_a_column_is_found_as_by_counting_one_by_one(
    line: str, encoding: Encoding, column: int
) -> None:
    assert offset_at(line, column, encoding) == reference(line, column, encoding)


@given(LINES, st.sampled_from(ENCODINGS), st.integers(0, 30))
def test_a_place_becomes_a_column_and_comes_back(
    line: str, encoding: Encoding, offset: int
) -> None:
    offset = min(offset, len(line))
    column = column_at(line, offset, encoding)
    assert column == sum(units(each, encoding) for each in line[:offset])
    assert offset_at(line, column, encoding) == offset


@pytest.mark.parametrize(("encoding", "behind"), [("utf-8", 5), ("utf-16", 3), ("utf-32", 2)])
def test_within_a_character_is_before_it(encoding: Encoding, behind: int) -> None:
    assert offset_at("a😀b", behind, encoding) == 2
    if encoding != "utf-32":
        assert offset_at("a😀b", behind - 1, encoding) == 1


def test_behind_the_end_is_the_end() -> None:
    assert [offset_at("aé😀", 99, encoding) for encoding in ENCODINGS] == [3, 3, 3]

"""Margins and line ends, as lines have them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vivace.syntax.lines import dedented, line_end, margin_of

lines = st.lists(st.text(" \tab", max_size=8).map(lambda text: text + "\n"), max_size=8)


@given(lines)
def test_every_filled_line_begins_with_the_margin(found: list[str]) -> None:
    margin = margin_of(found)
    filled = [line for line in found if line.strip()]
    assert all(line == margin + dedented(line, margin) for line in filled)
    assert margin_of([dedented(line, margin) for line in filled]) == ""


@pytest.mark.parametrize(
    ("found", "end"),
    [([], "\n"), (["a"], "\n"), (["a\r\n", "b\r\n", "c\n"], "\r\n"), (["a\r\n", "b\n"], "\n")],
)
def test_lines_end_as_most_do(found: list[str], end: str) -> None:
    assert line_end(found) == end

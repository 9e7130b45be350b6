"""What becomes of the shown text becomes of the file, in the pieces it came from."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from vivace.edits.diff import between
from vivace.edits.placing.excerpt import Excerpt
from vivace.edits.placing.region import Region
from vivace.errors import EditError
from vivace.syntax.hunk import apply
from vivace.syntax.source import Source

TEXT = "".join(f"line {number}\n" for number in range(12))
SOURCE = Source(TEXT, None)
TWO = Excerpt(SOURCE, [Region(7, 9), Region(1, 3)])


def after(shown: Excerpt, new: str) -> str:
    return apply(shown.source.text, shown.in_file(between(shown.text, new)))


def test_pieces_stand_in_the_order_of_the_file_with_a_gap_between() -> None:
    assert TWO.text == "line 1\nline 2\n\nline 7\nline 8\n"
    assert len(TWO) == 4


def test_pieces_that_touch_are_one() -> None:
    assert Excerpt(SOURCE, [Region(1, 3), Region(3, 5)]).regions == (Region(1, 5),)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("line 2\n", "line 2\nmore\n"),
        ("line 7\n", "more\nline 7\n"),
        ("line 2\n\nline 7\n", "line two\n\nline seven\n"),
        ("line 2\n\nline 7\n", "line two\n\n\nline 7\n"),
        ("line 8\n", "line 8\nmore\n"),
        ("line 1\n", ""),
    ],
)
def test_each_piece_takes_its_own_changes(old: str, new: str) -> None:
    found = after(TWO, TWO.text.replace(old, new))
    kept = [line for line in TEXT.splitlines() if line not in TWO.text.splitlines()]
    assert [line for line in found.splitlines() if line in kept] == kept
    for line in new.splitlines():
        assert line in found


def test_what_runs_pieces_together_is_refused() -> None:
    with pytest.raises(EditError):
        TWO.in_file(between(TWO.text, "line 1\nline two-seven\nline 8\n"))


@given(st.lists(st.sampled_from(["line 1\n", "line 2\n", "\n", "line 7\n", "x\n"]), max_size=8))
def test_nothing_outside_the_pieces_ever_changes(lines: list[str]) -> None:
    try:
        found = after(TWO, "".join(lines)).splitlines()
    except EditError:
        assume(False)
    assert found[0] == "line 0"
    assert found[-3:] == ["line 9", "line 10", "line 11"]
    assert all(f"line {number}" in found for number in range(3, 7))

"""What was typed between two texts, as hunks."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from vivace.lsp.typed import difference, typed
from vivace.syntax.hunk import Hunk, apply

TEXTS = st.text(alphabet="ab\r\n😀", max_size=40)


@given(TEXTS, TEXTS)
def test_what_was_typed_turns_one_text_into_the_other(old: str, new: str) -> None:
    assert apply(old, typed(old, new)) == new
    start, end, come = difference(old, new)
    assert old[:start] + come + old[end:] == new


@given(TEXTS, TEXTS, TEXTS)
def test_what_was_typed_is_found_between_long_texts_too(old: str, new: str, line: str) -> None:
    around = f"{line}\n" * 300
    before, after = around + old + around, around + new + around
    assert apply(before, typed(before, after)) == after


def test_a_key_is_a_hunk_of_its_line() -> None:
    assert typed("a\nb\nc\n", "a\nbx\nc\n") == [Hunk(1, ("b\n",), ("bx\n",))]


def test_a_new_line_leaves_the_others_alone() -> None:
    assert typed("a\nc\n", "a\nb\nc\n") == [Hunk(1, (), ("b\n",))]


def test_places_far_apart_are_two_hunks() -> None:
    between = "same\n" * 300
    found = typed(f"a\n{between}b\n", f"x\n{between}y\n")
    assert [hunk.start for hunk in found] == [0, 301]


def test_texts_that_are_the_same_have_no_hunks() -> None:
    assert typed("a\n", "a\n") == []

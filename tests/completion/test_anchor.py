"""Where typing began, and what was typed since."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vivace.completion.anchor import Anchor, Typed, anchored, typed_since
from vivace.completion.healing import held_back

LETTERS = st.text("ab_.( \n\t1é😀", max_size=30)


@given(LETTERS, LETTERS, st.text("xyz. (", max_size=10))
def test_what_is_typed_at_the_cursor_is_known(before: str, after: str, typed: str) -> None:
    anchor = anchored(before + after, len(before))
    since = typed_since(anchor, before + typed + after, len(before) + len(typed))
    assert since is not None
    assert anchor.before + since.text == before + typed


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("x = foo(|\ny = 1\n", "the rest is another"),
        ("z = |\ny = 2\n", "what stands before is another"),
        ("x =|\ny = 2\n", "the cursor went before the anchor"),
    ],
)
def test_a_change_elsewhere_or_another_place_needs_a_new_anchor(text: str, why: str) -> None:
    offset = text.index("|")
    assert typed_since(Anchor("x = ", "\ny = 2\n"), text.replace("|", ""), offset) is None, why


def test_brackets_that_the_editor_closes_are_not_told() -> None:
    anchor = Anchor("x = ", "\ny\n")
    assert typed_since(anchor, "x = f(a['b'])\ny\n", 10) == Typed("f(a['b", "'])")


@pytest.mark.parametrize(
    ("line", "held"),
    [
        ("x = so", " so"),
        ("x = sort_ke", "_ke"),
        ("foo.ba", ".ba"),
        ("foo(", "("),
        ("foo(bar, ", " "),
        ("x = 12", ""),
        ("    ", "    "),
        ("    re", "    re"),
        ("", ""),
        ("    return x)", ")"),
        ("a == ", " "),
        ("größe", "größe"),
    ],
)
def test_the_last_piece_of_a_line_is_held_back(line: str, held: str) -> None:
    assert held_back(line) == held


@given(st.text("ab_.( \t1é😀\"'", max_size=30))
def test_what_is_held_back_is_the_end_of_the_line(line: str) -> None:
    assert line.endswith(held_back(line))

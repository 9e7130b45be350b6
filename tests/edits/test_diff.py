"""The difference of two texts is right, and no longer than it must be."""

from __future__ import annotations

from difflib import SequenceMatcher

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vivace.edits import diff
from vivace.edits.diff import between, changes
from vivace.syntax.hunk import Hunk, apply

lists = st.lists(st.integers(0, 5), max_size=25)
texts = st.lists(st.sampled_from(["a\n", "b\n", "c\n", "\n", "d\r\n"]), max_size=25).map("".join)


def common(old: list[int], new: list[int]) -> int:
    """The length of a longest common subsequence, by the book."""
    row = [0] * (len(new) + 1)
    for x in old:
        above = row[:]
        for at, y in enumerate(new):
            row[at + 1] = above[at] + 1 if x == y else max(above[at + 1], row[at])
    return row[-1]


def size(found: list[tuple[int, int, int, int]]) -> int:
    return sum(b - a + d - c for a, b, c, d in found)


@given(texts, texts)
def test_the_edit_turns_one_text_into_the_other(old: str, new: str) -> None:
    assert apply(old, between(old, new)) == new


@given(lists, lists)
def test_nothing_shorter_does_the_same(old: list[int], new: list[int]) -> None:
    assert size(changes(old, new)) == len(old) + len(new) - 2 * common(old, new)


@given(lists, lists)
def test_texts_too_different_to_search_are_divided(old: list[int], new: list[int]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(diff, "_MOST", 2)
        found = changes(old, new)
    kept_old = [x for at, x in enumerate(old) if not any(a <= at < b for a, b, _, _ in found)]
    kept_new = [x for at, x in enumerate(new) if not any(c <= at < d for _, _, c, d in found)]
    assert kept_old == kept_new


def test_a_long_text_with_many_changes_is_still_divided_at_what_stays() -> None:
    old = [f"old {n}\n" if n % 2 else f"same {n}\n" for n in range(1200)]
    new = [line.replace("old", "new") for line in old]
    hunks = between("".join(old), "".join(new))
    assert len(hunks) == 600
    assert all(len(hunk.old) == len(hunk.new) == 1 for hunk in hunks)


def test_it_takes_out_less_than_difflib_does() -> None:
    old, new = "aba", "bda"
    loose = SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    assert sum(b - a + d - c for kind, a, b, c, d in loose if kind != "equal") == 4
    assert size(changes(old, new)) == 2


def test_a_new_function_is_one_piece_with_the_empty_line_after_it() -> None:
    old = "def a():\n    pass\n\ndef c():\n    pass\n"
    new = "def a():\n    pass\n\ndef b():\n    pass\n\ndef c():\n    pass\n"
    assert between(old, new) == [Hunk(3, (), ("def b():\n", "    pass\n", "\n"))]

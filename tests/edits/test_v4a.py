"""V4A patches: what is written is read back, in whatever pieces it comes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vivace.edits.diff import between
from vivace.edits.v4a import hunks_for, write
from vivace.errors import EditError
from vivace.protocol.patches import Patch, Piece
from vivace.syntax.hunk import apply

OLD = """\
class A:
    def f(self):
        x = 1
        return x

class B:
    def f(self):
        x = 1
        return x
"""
words = st.lists(
    st.sampled_from(["a", " b", "-c", "+d", "@@ e", "*** End Patch", "", "f"]), max_size=20
)
texts = words.map(lambda found: "".join(word + "\n" for word in found))


def read(patch: str) -> list[Piece]:
    reader = Patch()
    return reader.feed(patch) + reader.finish()


@given(texts, texts, st.lists(st.integers(1, 9), max_size=40))
def test_what_is_written_is_read_back_in_whatever_pieces(
    old: str, new: str, cuts: list[int]
) -> None:
    hunks = between(old, new)
    if not hunks:
        return
    patch = write("a.py", old, hunks)
    reader = Patch()
    pieces: list[Piece] = []
    start = 0
    for cut in [*cuts, len(patch)]:
        pieces += reader.feed(patch[start : start + cut])
        start += cut
    pieces += reader.finish()
    assert {piece.path for piece in pieces} == {"a.py"}
    assert apply(old, hunks_for(old, pieces)) == new


@pytest.mark.parametrize("ends", ["\r\n", "\n"])
def test_line_ends_and_an_unfinished_last_line_stay(ends: str) -> None:
    old, new = ends.join(["a", "b", "c"]), ends.join(["a", "x", "c", "d"])
    patch = write("f", old, between(old, new))
    assert "\r" not in patch
    assert apply(old, hunks_for(old, read(patch))) == new


def test_what_the_form_cannot_say_is_refused() -> None:
    with pytest.raises(EditError, match="unified diff"):
        write("f", "a\n", between("a\n", "a"))


def test_context_tells_two_places_apart() -> None:
    patch = (
        "*** Begin Patch\n*** Update File: a.py\n@@ class B:\n@@     def f(self):\n"
        "-        x = 1\n+        x = 2\n*** End Patch\n"
    )
    found = apply(OLD, hunks_for(OLD, read(patch)))
    assert found == OLD[: OLD.rindex("x = 1")] + "x = 2\n        return x\n"


def test_two_places_that_fit_are_refused() -> None:
    patch = (
        "*** Begin Patch\n*** Update File: a.py\n@@\n-        x = 1\n+        x = 2\n*** End Patch"
    )
    with pytest.raises(EditError, match="lines 3 and 8"):
        hunks_for(OLD, read(patch))


def test_the_end_of_the_file_tells_two_places_apart() -> None:
    patch = (
        "*** Begin Patch\n*** Update File: a.py\n@@\n         x = 1\n-        return x\n"
        "+        return 2\n*** End of File\n*** End Patch\n"
    )
    assert apply(OLD, hunks_for(OLD, read(patch))).endswith("        return 2\n")


def test_a_piece_is_out_as_soon_as_the_next_begins() -> None:
    reader = Patch()
    assert reader.feed("*** Begin Patch\n*** Update File: a\n@@\n-x\n+y\n") == []
    assert reader.feed("@@\n") == [Piece(path="a", action="update", old=("x\n",), new=("y\n",))]


def test_files_are_added_deleted_and_moved() -> None:
    patch = (
        "*** Begin Patch\n*** Add File: new.txt\n+hello\n+\n*** Delete File: old.txt\n"
        "*** Update File: a\n*** Move to: b\n@@\n-x\n+y\n*** Update File: c\n*** Move to: d\n"
        "*** End Patch\n"
    )
    assert read(patch) == [
        Piece(path="new.txt", action="add", new=("hello\n", "\n")),
        Piece(path="old.txt", action="delete"),
        Piece(path="a", action="update", moved_to="b", old=("x\n",), new=("y\n",)),
        Piece(path="c", action="update", moved_to="d"),
    ]
    assert apply("", hunks_for("", read(patch)[:1])) == "hello\n\n"


@pytest.mark.parametrize(
    ("patch", "reason"),
    [
        ("*** Begin Patch\n*** Update File: a\n@@\n-x\n", "cut off"),
        ("no patch at all", "cut off"),
        ("*** Begin Patch\n+x\n*** End Patch", "names no file"),
        ("*** Begin Patch\n*** Update File: a\n?x\n*** End Patch", "neither"),
    ],
)
def test_a_broken_patch_is_refused(patch: str, reason: str) -> None:
    with pytest.raises(EditError, match=reason):
        read(patch)

"""Search/replace blocks come out as they close, and change no more than they must."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vivace.edits.blocks import Block, Blocks, hunks_for
from vivace.errors import EditError
from vivace.syntax.hunk import Hunk, apply

lines = st.lists(
    st.sampled_from(["a\n", "  b\n", "\n", "```\n", "path/x.py\n", "<<<<<<\n"]), max_size=6
).map(tuple)
blocks = st.lists(
    st.builds(Block, st.sampled_from(["a.py", "src/b.ts"]), lines, lines), min_size=1, max_size=4
)


def written(block: Block) -> str:
    """As a model is to write it."""
    search, replace = "".join(block.search), "".join(block.replace)
    return f"{block.path}\n<<<<<<< SEARCH\n{search}=======\n{replace}>>>>>>> REPLACE\n"


def read(answer: str) -> list[Block]:
    reader = Blocks()
    return reader.feed(answer) + reader.finish()


@given(blocks, st.lists(st.integers(1, 9), max_size=60))
def test_what_is_written_is_read_back_in_whatever_pieces(
    wanted: list[Block], cuts: list[int]
) -> None:
    answer = "".join(map(written, wanted))
    reader = Blocks()
    found: list[Block] = []
    start = 0
    for cut in [*cuts, len(answer)]:
        found += reader.feed(answer[start : start + cut])
        start += cut
    assert found + reader.finish() == wanted


def test_a_block_is_out_as_soon_as_it_is_closed() -> None:
    reader = Blocks()
    assert reader.feed("a.py\n<<<<<<< SEARCH\nx\n=======\ny\n") == []
    assert reader.feed(">>>>>>> REPLACE\n") == [Block("a.py", ("x\n",), ("y\n",))]


@pytest.mark.parametrize(
    "head",
    ["a.py", "`a.py`", "**a.py**", "File: a.py", "### a.py:", "Sure, here:\n\na.py\n```python"],
)
def test_the_file_is_named_in_many_ways(head: str) -> None:
    answer = f"{head}\n<<<<<<< SEARCH\nx\n=======\ny\n>>>>>>> REPLACE\n```\n"
    assert read(answer) == [Block("a.py", ("x\n",), ("y\n",))]


def test_a_block_without_a_path_is_about_the_file_that_was_shown() -> None:
    answer = "Here is the change:\n<<<<<<< SEARCH\nx\n=======\ny\n>>>>>>> REPLACE\n"
    assert read(answer)[0].path is None


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("<<<<<<< SEARCH\nx\n", "cut off"),
        ("<<<<<<< SEARCH\nTitle\n=======\nx\n=======\ny\n>>>>>>> REPLACE\n", "nobody can tell"),
    ],
)
def test_a_broken_block_is_refused(answer: str, reason: str) -> None:
    with pytest.raises(EditError, match=reason):
        read(answer)


def test_lines_that_are_only_quoted_are_not_changed() -> None:
    text = "a\nb\nc\nd\n"
    hunks = hunks_for(text, Block(None, ("b\n", "c\n", "d\n"), ("b\n", "x\n", "d\n")))
    assert hunks == [Hunk(2, ("c\n",), ("x\n",))]


def test_an_empty_search_fills_an_empty_file_and_no_other() -> None:
    block = Block(None, (), ("a\n",))
    assert apply("", hunks_for("", block)) == "a\n"
    with pytest.raises(EditError):
        hunks_for("b\n", block)

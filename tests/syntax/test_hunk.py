"""Hunks go where they were made for, or nowhere."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vivace.edits.diff import between
from vivace.errors import EditError
from vivace.syntax.hunk import Hunk, apply, shifted, unified
from vivace.syntax.lines import lines_of

texts = st.lists(st.sampled_from(["a\n", "b\n", "\n", "c\r\n", "d"]), max_size=30).map("".join)


@given(st.text())
def test_lines_put_together_are_the_text(text: str) -> None:
    lines = lines_of(text)
    assert "".join(lines) == text
    assert all(line.endswith("\n") for line in lines[:-1])
    assert "" not in lines


def test_only_a_newline_ends_a_line() -> None:
    assert lines_of("a\x0cb\u2028c\rd\r\ne") == ["a\x0cb\u2028c\rd\r\n", "e"]


def test_hunks_replace_insert_and_remove() -> None:
    hunks = [Hunk(0, ("a\n",), ("x\n",)), Hunk(1, (), ("y\n",)), Hunk(2, ("c\n",), ())]
    assert apply("a\nb\nc\n", hunks) == "x\ny\nb\n"


def test_a_hunk_for_another_text_is_refused() -> None:
    with pytest.raises(EditError, match="line 2"):
        apply("a\nb\n", [Hunk(1, ("c\n",), ())])
    with pytest.raises(EditError, match="line 3"):
        apply("a\nb\n", [Hunk(2, ("c\n",), ())])


def test_hunks_that_overlap_are_refused() -> None:
    with pytest.raises(EditError, match="twice"):
        apply("a\nb\n", [Hunk(0, ("a\n", "b\n"), ()), Hunk(1, ("b\n",), ())])


def test_shifted_hunks_fit_a_text_with_more_before() -> None:
    hunks = [Hunk(0, ("a\n",), ("b\n",))]
    assert apply("x\na\n", shifted(hunks, 1)) == "x\nb\n"


def test_nothing_changed_is_no_diff() -> None:
    assert unified("a.py", "a\n", []) == ""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("a\nb\nc\n", "a\nx\nc\n"),
        ("", "a\n"),
        ("a\n", ""),
        ("a\nb", "a\nb\n"),
        ("a\nb\n", "a\nb"),
        ("".join(f"{n}\n" for n in range(40)), "".join(f"{n}\n" for n in range(40) if n % 13)),
    ],
)
def test_git_reads_the_diff(tmp_path: Path, old: str, new: str) -> None:
    file = tmp_path / "file"
    file.write_bytes(old.encode())
    diff = unified("file", old, between(old, new))
    subprocess.run(["git", "apply", "-"], input=diff.encode(), cwd=tmp_path, check=True)
    assert file.read_bytes().decode() == new


@given(texts, texts)
def test_a_diff_says_all_that_changed(old: str, new: str) -> None:
    hunks = between(old, new)
    marks = [line[0] for line in lines_of(unified("f", old, hunks))[2:]]
    assert marks.count("-") == sum(len(hunk.old) for hunk in hunks)
    assert marks.count("+") == sum(len(hunk.new) for hunk in hunks)

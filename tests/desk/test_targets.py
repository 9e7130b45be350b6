"""Which file, and which lines of it, a person means."""

from __future__ import annotations

from pathlib import Path

import pytest

from vivace.desk.targets import names_a_file, open_target, split_lines
from vivace.workspace.errors import WorkspaceError
from vivace.workspace.paths import Workspace


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.py").write_text("one\ntwo\nthree\n")
    return tmp_path


@pytest.mark.parametrize(
    ("given", "path", "selection"),
    [
        ("a.py", "a.py", None),
        ("a.py:2", "a.py", (1, 2)),
        ("a.py:2-3", "a.py", (1, 3)),
        ("dir/a.py:10-20", "dir/a.py", (9, 20)),
        ("a.py:", "a.py:", None),
        ("a.py:x", "a.py:x", None),
        ("a.py:1-", "a.py:1-", None),
        ("a:b.py:7", "a:b.py", (6, 7)),
        (":7", ":7", None),
    ],
)
def test_lines_are_counted_from_one_and_include_the_last(
    root: Path, given: str, path: str, selection: tuple[int, int] | None
) -> None:
    assert split_lines(given) == (path, selection)


def test_a_file_whose_name_looks_like_lines_is_meant_as_it_is(root: Path) -> None:
    (root / "a.py:2").write_text("x\n")
    assert split_lines("a.py:2") == ("a.py:2", None)


@pytest.mark.parametrize(
    ("word", "is_one"),
    [("a.py", True), ("a.py:2-3", True), ("fix it", False), ("x" * 5000, False), ("a\0b", False)],
)
def test_an_instruction_is_told_from_a_file(root: Path, word: str, is_one: bool) -> None:
    assert names_a_file(word) is is_one


@pytest.mark.parametrize("given", ["a.py:0", "a.py:3-2", "a.py:4", "a.py:2-4", "b.py", "."])
def test_what_is_not_there_is_refused(root: Path, given: str) -> None:
    with pytest.raises(WorkspaceError):
        open_target(Workspace(root), given)


def test_a_target_is_what_was_read(root: Path) -> None:
    target = open_target(Workspace(root), "a.py:2-3")
    assert (str(target.path), target.text, target.selection) == (
        "a.py",
        "one\ntwo\nthree\n",
        (1, 3),
    )

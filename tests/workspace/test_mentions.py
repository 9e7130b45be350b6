from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from vivace.workspace.mentions import files_with, words_elsewhere
from vivace.workspace.paths import Workspace


@pytest.fixture(params=["git", "no git"])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    (tmp_path / "a.py").write_text("def load(): ...\n")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "b.py").write_text("from a import load\nreload = 1\n")
    if request.param == "git":
        subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    return tmp_path


def test_a_word_is_found_in_other_files_and_only_as_a_word(root: Path) -> None:
    path = Workspace(root).resolve("a.py")
    assert sorted(files_with(root, "load") or ()) == ["a.py", "sub/b.py"]
    assert words_elsewhere(path, ["load", "reload", "oad"]) == frozenset({"load", "reload"})
    assert words_elsewhere(Workspace(root).resolve("sub/b.py"), ["reload"]) == frozenset()


def test_of_too_many_files_nothing_is_said(tmp_path: Path) -> None:
    for number in range(501):
        (tmp_path / f"{number}.txt").write_text("")
    assert files_with(tmp_path, "load") is None

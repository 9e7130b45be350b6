"""AGENTS.md, from the root to the file."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from vivace.workspace import instructions as module
from vivace.workspace.instructions import Instructions, instructions_for
from vivace.workspace.paths import Workspace


def put(root: Path, texts: dict[str, str]) -> None:
    for name, text in texts.items():
        folder = root / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "AGENTS.md").write_text(text)


def found(root: Path, path: str) -> list[Instructions]:
    workspace = Workspace(root)
    return instructions_for(workspace, workspace.resolve(path))


def test_they_come_from_the_root_down_and_the_nearest_is_last(root: Path) -> None:
    put(root, {".": "general\n", "a/b": "special\n", "other": "not for us\n"})
    assert found(root, "a/b/c/x.py") == [
        Instructions("AGENTS.md", "general"),
        Instructions("a/b/AGENTS.md", "special"),
    ]
    assert found(root, "x.py") == [Instructions("AGENTS.md", "general")]


def test_none_is_no_trouble(root: Path) -> None:
    assert found(root, "a/x.py") == []


def test_what_does_not_fit_is_cut_from_the_farthest(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_MOST_BYTES", 13)
    put(root, {".": "far away", "a": "né" * 2, "a/b": "nearest"})
    assert found(root, "a/b/x.py") == [
        Instructions("a/AGENTS.md", "néné"),
        Instructions("a/b/AGENTS.md", "nearest"),
    ]
    monkeypatch.setattr(module, "_MOST_BYTES", 9)
    assert found(root, "a/b/x.py") == [
        Instructions("a/AGENTS.md", "n", cut=True),
        Instructions("a/b/AGENTS.md", "nearest"),
    ]


def test_a_link_is_followed_inside_and_not_outside(root: Path, tmp_path: Path) -> None:
    (root / "CLAUDE.md").write_text("inside")
    (root / "AGENTS.md").symlink_to("CLAUDE.md")
    assert found(root, "x.py") == [Instructions("AGENTS.md", "inside")]
    (tmp_path / "passwords").write_text("outside")
    (root / "AGENTS.md").unlink()
    (root / "AGENTS.md").symlink_to(tmp_path / "passwords")
    assert found(root, "x.py") == []


def test_what_is_ignored_secret_or_no_text_is_left_out(root: Path) -> None:
    put(root, {".": "-----BEGIN " + "PRIVATE KEY-----", "a": "private notes"})
    (root / "a" / "b").mkdir()
    (root / "a" / "b" / "AGENTS.md").write_bytes(b"\xff\xfe\0")
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    (root / ".gitignore").write_text("a/AGENTS.md\n")
    assert found(root, "a/b/x.py") == []

"""``vivace undo``: what a person sees and gets."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from vivace.cli.main import commands
from vivace.cli.places import state_root
from vivace.errors import VivaceError
from vivace.workspace.document import read
from vivace.workspace.errors import CannotUndo
from vivace.workspace.journal import Change, Journal
from vivace.workspace.paths import Workspace


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(folder)
    return folder


def edit(root: Path, name: str, after: bytes | None, title: str = "an edit") -> None:
    workspace = Workspace(root)
    path = workspace.resolve(name)
    version = read(path).version if path.absolute.exists() else None
    Journal(workspace, state_root()).apply([Change(path, version, after)], title)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(commands, ["undo", *arguments])


def done(*arguments: str) -> Result:
    ran = run(*arguments)
    assert ran.exit_code == 0, ran.output
    return ran


def complaint(*arguments: str) -> str:
    error = run(*arguments).exception
    assert isinstance(error, VivaceError)
    return str(error)


def test_the_last_edit_is_taken_back_and_said_in_files_and_lines(root: Path) -> None:
    (root / "a.py").write_bytes(b"one\ntwo\nthree\n")
    edit(root, "a.py", b"one\n2\n2.5\nthree\n", "make it numbers")
    ran = done()
    assert (root / "a.py").read_bytes() == b"one\ntwo\nthree\n"
    assert "a.py  +1 -2" in ran.stdout
    assert "make it numbers" in ran.stderr
    assert "--redo" in ran.stderr


def test_new_and_removed_files_are_said_to_go_and_come_back(root: Path) -> None:
    (root / "old.py").write_bytes(b"old\n")
    edit(root, "new.py", b"new\n")
    edit(root, "old.py", None)
    shown = done("--steps", "2").stdout
    assert "new.py  +0 -1  (removed)" in shown
    assert "old.py  +1 -0  (back again)" in shown
    assert [path.name for path in root.iterdir()] == ["old.py"]


def test_a_dry_run_and_a_listing_touch_nothing(root: Path) -> None:
    edit(root, "a.py", b"1\n", "first")
    edit(root, "a.py", b"2\n", "second")
    assert "a.py  +1 -1" in done("--dry-run").stdout
    titles = [line.split("  ")[1] for line in done("--list").stdout.splitlines()[::2]]
    assert titles == ["second", "first"]
    assert (root / "a.py").read_bytes() == b"2\n"


def test_what_was_changed_since_is_lost_only_by_force_and_comes_back_by_redo(root: Path) -> None:
    edit(root, "a.py", b"1\n")
    (root / "a.py").write_bytes(b"typed\n")
    assert "a.py" in complaint()
    assert (root / "a.py").read_bytes() == b"typed\n"
    assert "changed since" in done("--force").stdout
    assert not (root / "a.py").exists()
    done("--redo")
    assert (root / "a.py").read_bytes() == b"typed\n"


def test_nothing_to_take_back_is_said(root: Path) -> None:
    assert isinstance(run().exception, CannotUndo)
    assert "no edit" in complaint()
    assert "no edit" in done("--list").stderr


def test_a_title_cannot_play_tricks_on_the_terminal(root: Path) -> None:
    edit(root, "a.py", b"1\n", "harmless\x1b[2J\nand more " * 9)
    (line, *_) = done("--list").stdout.splitlines()
    assert "\x1b" not in line
    assert line.endswith("…")


@pytest.mark.parametrize("wrong", [["--steps", "0"], ["--redo", "--list"], ["--redo", "-n", "2"]])
def test_wrong_use_is_told_as_such(root: Path, wrong: list[str]) -> None:
    assert run(*wrong).exit_code == 2


def test_it_works_from_anywhere_in_the_work_tree(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    edit(root, "sub/a.py", b"1\n")
    edit(root, "sub/a.py", b"2\n")
    monkeypatch.chdir(root / "sub")
    done()
    assert (root / "sub" / "a.py").read_bytes() == b"1\n"


def test_files_of_repeated_lines_are_counted_in_no_time(root: Path) -> None:
    (root / "a.txt").write_bytes(b"".join(b"%d\n" % (line % 199) for line in range(20_000)))
    edit(root, "a.txt", b"".join(b"%d\n" % (line * 7 % 199) for line in range(20_000)))
    assert "a.txt  +" in done().output

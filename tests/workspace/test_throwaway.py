"""Copies to try things in, of which nothing stays."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from vivace.workspace.errors import CannotWrite
from vivace.workspace.throwaway import throwaway


def git(root: Path, *arguments: str) -> str:
    who = ["-c", "user.name=A", "-c", "user.email=a@example.org"]
    command = ["git", *who, "-C", str(root), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def files(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): path.read_text()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and ".git" not in path.parts
    }


@pytest.fixture
def repository(root: Path) -> Path:
    git(root, "init", "-q")
    for name in ("same.py", "changed.py", "removed.py", "staged.py"):
        (root / name).write_text(f"{name} committed\n")
    (root / ".gitignore").write_text("*.log\nnode_modules\n")
    git(root, "add", ".")
    git(root, "commit", "-q", "-m", "first")
    (root / "changed.py").write_text("changed\n")
    (root / "removed.py").unlink()
    (root / "staged.py").write_text("staged\n")
    (root / "added é.py").write_text("added\n")
    git(root, "add", "staged.py", "added é.py")
    (root / "sub").mkdir()
    (root / "sub" / "untracked.py").write_text("untracked\n")
    (root / "ignored.log").write_text("ignored\n")
    return root


def test_it_is_the_work_tree_as_it_is_without_what_is_ignored(repository: Path) -> None:
    expected = files(repository)
    del expected["ignored.log"]
    with throwaway(repository) as copy:
        assert files(copy) == expected
        assert git(copy, "rev-parse", "HEAD") == git(repository, "rev-parse", "HEAD")


def test_git_finds_in_it_what_was_changed_and_no_more(repository: Path) -> None:
    """Programs that ask by diff-index whether a tree is clean look at no contents."""
    with throwaway(repository) as copy:
        found = git(copy, "diff-index", "--name-only", "HEAD").split()
    assert found == ["changed.py", "removed.py", "staged.py"]


def test_a_folder_that_was_replaced_by_a_link_is_a_link(repository: Path, tmp_path: Path) -> None:
    git(repository, "add", "sub")
    git(repository, "commit", "-q", "-m", "second")
    (repository / "sub").rename(tmp_path / "elsewhere")
    (repository / "sub").symlink_to(tmp_path / "elsewhere")
    with throwaway(repository) as copy:
        assert (copy / "sub").readlink() == tmp_path / "elsewhere"


def test_what_is_done_in_it_does_not_reach_the_original(repository: Path) -> None:
    before, status = files(repository), git(repository, "status", "--porcelain")
    with throwaway(repository) as copy:
        (copy / "same.py").write_text("tried\n")
        (copy / "new.py").write_text("tried\n")
    assert files(repository) == before
    assert git(repository, "status", "--porcelain") == status


def test_it_is_gone_afterwards_even_when_something_fails(repository: Path) -> None:
    kept: list[Path] = []

    def fail() -> None:
        with throwaway(repository) as copy:
            kept.append(copy)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert not kept[0].parent.exists()
    assert len(git(repository, "worktree", "list").splitlines()) == 1


def test_several_at_once_are_several(repository: Path) -> None:
    with throwaway(repository) as one, throwaway(repository) as two:
        (one / "same.py").write_text("one\n")
        assert (two / "same.py").read_text() == "same.py committed\n"


def test_hooks_do_not_run(repository: Path) -> None:
    hook = repository / ".git" / "hooks" / "post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {repository}/ran\n")
    hook.chmod(0o755)
    with throwaway(repository):
        pass
    assert not (repository / "ran").exists()


def test_installed_packages_are_there(repository: Path) -> None:
    (repository / "node_modules" / "left-pad").mkdir(parents=True)
    with throwaway(repository) as copy:
        assert (copy / "node_modules" / "left-pad").is_dir()
    assert (repository / "node_modules" / "left-pad").is_dir()


def test_a_repository_without_a_commit_is_copied_too(root: Path) -> None:
    git(root, "init", "-q")
    (root / "a.py").write_text("a\n")
    (root / "b.py").write_text("b\n")
    git(root, "add", "a.py")
    with throwaway(root) as copy:
        assert files(copy) == {"a.py": "a\n", "b.py": "b\n"}


def test_without_git_it_is_a_copy(root: Path) -> None:
    (root / "sub").mkdir()
    (root / "sub" / "a.py").write_text("a\n")
    (root / "link").symlink_to("sub")
    os.mkfifo(root / "pipe")
    with throwaway(root) as copy:
        assert files(copy)["sub/a.py"] == "a\n"
        assert (copy / "link").is_symlink()
        assert not (copy / "pipe").exists()
        (copy / "sub" / "a.py").write_text("tried\n")
    assert not copy.exists()
    assert (root / "sub" / "a.py").read_text() == "a\n"


@pytest.mark.parametrize("with_git", [True, False])
def test_code_that_was_compiled_before_an_edit_is_not_run_after_it(
    root: Path, with_git: bool
) -> None:
    """Python would not notice: same second, same size."""
    if with_git:
        git(root, "init", "--quiet")
    module = root / "sums.py"
    module.write_text("SIGN = '-'\n")
    show = [sys.executable, "-c", "import sums; print(sums.SIGN)"]
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}
    subprocess.run(show, cwd=root, env=environment, check=True, capture_output=True)
    saved = module.stat()
    assert list(root.rglob("*.pyc"))

    with throwaway(root) as copy:
        (copy / "sums.py").write_text("SIGN = '+'\n")
        os.utime(copy / "sums.py", ns=(saved.st_atime_ns, saved.st_mtime_ns))
        ran = subprocess.run(show, cwd=copy, env=environment, check=True, capture_output=True)

    assert ran.stdout == b"+\n"


def test_no_room_is_said_so(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "none"))
    with pytest.raises(CannotWrite, match="throwaway"), throwaway(root):
        pass

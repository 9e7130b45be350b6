"""A copy of the work tree to try an edit in, gone afterwards.

With git it is a work tree of the same repository, at the same commit and with the same uncommitted
and untracked files. What git ignores is not copied; installed packages beside the code are linked,
because tests need them. What is run in it gets the environment of ``installed.environment_for``, so
that it finds the copy and not the original.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

from vivace.workspace.errors import CannotWrite, GitFailed, reason
from vivace.workspace.git import run_git
from vivace.workspace.installed import INSTALLED, link_installed
from vivace.workspace.redirect.sitecustomize import Trees

__all__ = ["throwaway"]

_COMPILED = "__pycache__"
"""Python takes what it compiled for the code of a file by second and size: of an edit right after a
save it would run what was there before."""


@contextlib.contextmanager
def throwaway(root: Path) -> Iterator[Path]:
    """A copy of the work tree at ``root``, removed at the end whatever happens."""
    try:
        above = Path(tempfile.mkdtemp(prefix="vivace-try-"))
        copy = above / root.resolve().name
    except OSError as error:
        raise CannotWrite(f"No throwaway copy could be made: {reason(error)}.") from error
    try:
        try:
            _fill(root.resolve(), copy)
        except OSError as error:  # shutil.Error is one
            raise CannotWrite(f"{root} could not be copied: {reason(error)}.") from error
        yield copy
    finally:
        shutil.rmtree(above, ignore_errors=True)
        if (root / ".git").exists():
            with contextlib.suppress(GitFailed):
                run_git(root, "worktree", "prune")


def _fill(root: Path, copy: Path) -> None:
    if not (root / ".git").exists():
        shutil.copytree(root, copy, symlinks=True, ignore=_left_out)
        return
    if _has_commit(root):
        run_git(root, "worktree", "add", "--quiet", "--detach", str(copy), "HEAD")
        changed = run_git(root, "diff", "--no-ext-diff", "--name-only", "-z", "HEAD")
    else:
        copy.mkdir()
        changed = run_git(root, "ls-files", "--cached", "-z")
    untracked = run_git(root, "ls-files", "--others", "--exclude-standard", "-z")
    for name in os.fsdecode(changed + untracked).split("\0"):
        if name and _COMPILED not in Path(name).parts:
            _take_over(root / name, copy / name)
    trees = Trees(os.path.realpath(root), os.path.realpath(copy))
    for name in _installed(root):
        if (copy / name).parent.is_dir() and not os.path.lexists(copy / name):
            link_installed(root / name, copy / name, trees)


def _installed(root: Path) -> set[str]:
    """Folders with installed packages, at the root or beside a part of the project."""
    listed = run_git(
        root, "ls-files", "--others", "--ignored", "--exclude-standard", "--directory", "-z"
    )
    ignored = {name.rstrip("/") for name in os.fsdecode(listed).split("\0")}
    return {
        name
        for name in ignored | INSTALLED
        if name.rpartition("/")[2] in INSTALLED and (root / name).is_dir()
    }


def _has_commit(root: Path) -> bool:
    return bool(run_git(root, "rev-parse", "--quiet", "--verify", "HEAD", accept=(0, 1)))


def _take_over(source: Path, target: Path) -> None:
    """Make one file of the copy what it is in the original, which may be nothing."""
    if target.is_symlink() or target.is_file():
        target.unlink()
    if not os.path.lexists(source) or (source.is_dir() and not source.is_symlink()):
        return  # removed, or a repository of its own
    if source.is_symlink() or source.is_file():
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, target, follow_symlinks=False)


def _left_out(folder: str, names: list[str]) -> set[str]:
    """Also pipes, sockets and devices, at which copying would wait or fail."""
    plain = (stat.S_ISREG, stat.S_ISDIR, stat.S_ISLNK)
    modes = {name: (Path(folder) / name).lstat().st_mode for name in names}
    special = {name for name, mode in modes.items() if not any(kind(mode) for kind in plain)}
    return special | {_COMPILED}

"""A copy of the work tree to try an edit in, gone afterwards.

With git it is a work tree of the same repository, at the same commit, and its files are copied from
the original as they are: a checkout would run filters. What git ignores is not copied; installed
packages beside the code are linked, because tests need them. What is run in it gets the environment
of ``installed.environment_for``, so that it finds the copy and not the original.
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
    committed = bool(run_git(root, "rev-parse", "--quiet", "--verify", "HEAD", accept=(0, 1)))
    if committed:
        run_git(root, "worktree", "add", "--quiet", "--no-checkout", "--detach", str(copy), "HEAD")
        run_git(copy, "read-tree", "HEAD")
    else:
        copy.mkdir()
    known = ("--cached", "--others", "--exclude-standard", "--deduplicate")
    behind_link: dict[Path, bool] = {root: False}
    for name in os.fsdecode(run_git(root, "ls-files", "-z", *known)).split("\0"):
        path = root / name
        if name and _COMPILED not in path.parts and not _is_behind_link(path.parent, behind_link):
            _take_over(path, copy / name)
    if committed:  # or else whatever is run there finds every file changed
        run_git(copy, "update-index", "-q", "--refresh", accept=(0, 1))
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


def _is_behind_link(folder: Path, known: dict[Path, bool]) -> bool:
    """Return whether a folder of the work tree was replaced by a link, or one above it was."""
    if folder not in known:
        known[folder] = folder.is_symlink() or _is_behind_link(folder.parent, known)
    return known[folder]


def _take_over(source: Path, target: Path) -> None:
    """Copy one file, unless it was removed; of a repository of its own, the empty folder."""
    if source.is_symlink() or source.is_file():
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, target, follow_symlinks=False)
    elif source.is_dir():
        target.mkdir(parents=True, exist_ok=True)


def _left_out(folder: str, names: list[str]) -> set[str]:
    """Also pipes, sockets and devices, at which copying would wait or fail."""
    plain = (stat.S_ISREG, stat.S_ISDIR, stat.S_ISLNK)
    modes = {name: (Path(folder) / name).lstat().st_mode for name in names}
    special = {name for name, mode in modes.items() if not any(kind(mode) for kind in plain)}
    return special | {_COMPILED}

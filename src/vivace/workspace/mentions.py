"""Which other files have a name in them: whoever uses it has to write it down."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from vivace.workspace.errors import GitFailed
from vivace.workspace.git import run_git
from vivace.workspace.ignore import own_folders
from vivace.workspace.paths import SafePath, top_level

__all__ = ["files_with", "words_elsewhere"]

_FILES = 500
_BYTES = 16_000_000
"""So much is read where no git knows the files; of more, nothing is said."""


def words_elsewhere(path: SafePath, words: Iterable[str]) -> frozenset[str] | None:
    """Those of the words that files beside this one have; None where that cannot be known."""
    found: set[str] = set()
    for word in words:
        files = files_with(path.root, word)
        if files is None:
            return None
        if any(each != str(path) for each in files):
            found.add(word)
    return frozenset(found)


def files_with(root: Path, word: str) -> list[str] | None:
    """The files below a folder that have the word, but for those that git ignores; None where there
    are too many to look at."""
    if top_level(root) is None:
        return _read(root, word)
    options = ("--untracked", "--text", "-l", "-z", "-w", "-F")
    try:
        said = run_git(root, "grep", *options, "-e", word, "--", ".", accept=(0, 1))
    except GitFailed:
        return None
    return [each.decode("utf-8", "surrogateescape") for each in said.split(b"\0") if each]


def _read(root: Path, word: str) -> list[str] | None:
    wanted = re.compile(rb"(?<!\w)" + re.escape(word).encode() + rb"(?!\w)")
    found: list[str] = []
    left = _BYTES
    for count, path in enumerate(_below(root)):
        try:
            left -= path.stat().st_size
            if count >= _FILES or left < 0:
                return None
            if wanted.search(path.read_bytes()):
                found.append(path.relative_to(root).as_posix())
        except OSError:
            return None
    return found


def _below(root: Path) -> Iterator[Path]:
    for folder, folders, files in os.walk(root):
        folders[:] = own_folders(folders)
        yield from (path for each in files if (path := Path(folder, each)).is_file())

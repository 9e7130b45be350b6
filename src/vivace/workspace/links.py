"""Everyday files that a protected name leads to by a symbolic link.

A hook is often a link to a script of the project, and an editor's settings may be one to a folder
that looks like any other. What is written there is run or obeyed all the same.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from vivace.workspace.protected import may_hold_links, plain_name, why_protected

__all__ = ["why_linked"]

_INSTRUCTIONS = frozenset({"agents.md", "claude.md", "gemini.md"})
"""Text that agents are told. Each agent has a hidden name of its own for it, often as a link."""
_MAX_ENTRIES = 1_000
"""Entries of a folder and those below it that are searched for links."""


def why_linked(root: Path, parts: Sequence[str]) -> str | None:
    """Return why a file is protected, if a link with a protected name leads to it or above it."""
    if plain_name(parts[-1]) in _INSTRUCTIONS:
        return None
    file = root.joinpath(*parts)
    for depth in range(len(parts)):
        for link in _links(root, tuple(parts[:depth])):
            why = why_protected(link)
            if why is not None and file.is_relative_to(os.path.realpath(root.joinpath(*link))):
                return f"{'/'.join(link)} is a link to it, and {why}"
    return None


def _links(root: Path, folder: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Yield the links in a folder, and those in its folders for settings."""
    for entry in _entries(root.joinpath(*folder)):
        path = (*folder, entry.name)
        if entry.is_symlink():
            yield path
        elif plain_name(entry.name) == ".git":
            yield from _below(root, (*path, "hooks"))
        elif may_hold_links(entry.name):
            yield from _below(root, path)


def _below(root: Path, folder: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Yield the links below a folder, as far as few enough entries are there."""
    folders = [folder]
    left = _MAX_ENTRIES
    while folders and left > 0:
        above = folders.pop()
        for entry in _entries(root.joinpath(*above)):
            left -= 1
            if entry.is_symlink():
                yield (*above, entry.name)
            elif entry.is_dir(follow_symlinks=False):
                folders.append((*above, entry.name))


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
        return []  # not a folder, or one that the person may not read either

"""How much memory this process may still take, of what the machine has and a container leaves."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

from vivace.cgroups import groups

__all__ = ["free_memory", "total_memory"]

_FILES = (("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes"))
"""The limit of a group and what it uses, as version 2 and version 1 name them."""


def total_memory(root: Path = Path("/")) -> int:
    """What the system has, or what a container was given of it. ``root`` is where ``proc`` and
    ``sys`` are found."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([total, *(limit for limit, _ in _limits(root))])


def free_memory(root: Path = Path("/")) -> int:
    """What can be had without anything being killed for it; all there is where the system does not
    say."""
    found = [limit - used for limit, used in _limits(root)]
    return max(0, min([total_memory(root), *_available(root), *found]))


def _available(root: Path) -> Iterator[int]:
    try:
        lines = (root / "proc/meminfo").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        if line.startswith("MemAvailable:"):
            yield int(line.split()[1]) * 1024


def _limits(root: Path) -> Iterator[tuple[int, int]]:
    """Of every group around us: how much it may use, and how much of that is not to be had."""
    for folder in groups("memory", root) if sys.platform == "linux" else ():
        for limit, used in _FILES:
            try:
                most, taken = int((folder / limit).read_text()), int((folder / used).read_text())
            except (OSError, ValueError):
                continue  # no such group here, or "max": no limit
            yield most, taken - _cached(folder)


def _cached(folder: Path) -> int:
    """Bytes of files that are only kept because nobody needs the room."""
    try:
        rows = [line.split() for line in (folder / "memory.stat").read_text().splitlines()]
        return sum(int(row[1]) for row in rows if row[0] in ("active_file", "inactive_file"))
    except (OSError, ValueError, IndexError):
        return 0

"""How many processors this process may really use.

A machine has more than a process is given: some systems pin it to a few (affinity), a container has
a share of their time (cgroups). Threads beyond that only wait for each other.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterator
from pathlib import Path

__all__ = ["usable_cpus"]


def usable_cpus(root: Path = Path("/")) -> int:
    """At least one. ``root`` is where ``proc`` and ``sys`` are found."""
    if sys.platform != "linux":
        return os.cpu_count() or 1
    pinned = len(os.sched_getaffinity(0))
    return max(1, math.ceil(min([pinned, *_shares(root)])))


def _shares(root: Path) -> Iterator[float]:
    """What every group around us may use, in processors; a group without a limit says nothing."""
    base = root / "sys/fs/cgroup"
    try:
        groups = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in groups:
        _, controllers, path = line.split(":", 2)
        if not controllers:  # version 2 has one tree for all
            yield from _up(base, path, "cpu.max")
        elif "cpu" in controllers.split(","):
            yield from _up(base / "cpu", path, "cpu.cfs_quota_us", "cpu.cfs_period_us")


def _up(base: Path, path: str, *files: str) -> Iterator[float]:
    """From our group to the outermost; in a container the path may be the host's, and absent."""
    own = base / path.strip("/")
    for folder in (own, *own.parents):
        if not folder.is_relative_to(base):
            return
        try:
            quota, period = " ".join((folder / name).read_text() for name in files).split()
            if int(quota) > 0:
                yield int(quota) / int(period)
        except (OSError, ValueError, ZeroDivisionError):
            continue  # no such group here, or "max": no limit

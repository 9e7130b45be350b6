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

from vivace.cgroups import groups

__all__ = ["usable_cpus"]

_FILES = (("cpu.max",), ("cpu.cfs_quota_us", "cpu.cfs_period_us"))
"""Quota and period of a group, as version 2 and version 1 name them."""


def usable_cpus(root: Path = Path("/")) -> int:
    """At least one. ``root`` is where ``proc`` and ``sys`` are found."""
    if sys.platform != "linux":
        return os.cpu_count() or 1
    pinned = len(os.sched_getaffinity(0))
    return max(1, math.ceil(min([pinned, *_shares(root)])))


def _shares(root: Path) -> Iterator[float]:
    """What every group around us may use, in processors; a group without a limit says nothing."""
    for folder in groups("cpu", root):
        for files in _FILES:
            try:
                quota, period = " ".join((folder / name).read_text() for name in files).split()
                if int(quota) > 0:
                    yield int(quota) / int(period)
            except (OSError, ValueError, ZeroDivisionError):
                continue  # no such group here, or "max": no limit

"""The control groups this process is in: where a container's limits are written."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

__all__ = ["groups"]


def groups(controller: str, root: Path = Path("/")) -> Iterator[Path]:
    """The folder of our group and of every one around it, for ``cpu`` or ``memory``.

    In a container the path may be the host's, and absent here: not all of them exist. ``root`` is
    where ``proc`` and ``sys`` are found.
    """
    base = root / "sys/fs/cgroup"
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if not controllers:  # version 2 has one tree for all
            yield from _up(base, path)
        elif controller in controllers.split(","):
            yield from _up(base / controller, path)


def _up(base: Path, path: str) -> Iterator[Path]:
    own = base / path.strip("/")
    for folder in (own, *own.parents):
        if not folder.is_relative_to(base):
            return
        yield folder

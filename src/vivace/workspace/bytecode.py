"""Python's compiled files that would hide a change of the source they were made from.

Python takes a compiled file for up to date if it names the second and the size of the source. Of a
file that is written twice within one second with texts of equal length, it goes on to run the
first.
"""

from __future__ import annotations

import contextlib
import os
import stat
import struct

__all__ = ["discard_bytecode"]

_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)
_FILE = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
_HEADER = struct.Struct("<4sIII")
"""Magic number, flags, and of the source the second and the size (PEP 552)."""


def discard_bytecode(folder: int, name: str) -> None:
    """Remove what Python would run instead of the source ``name`` in this open folder.

    Call it right after a change. What was compiled since then goes too, and is compiled again. What
    cannot be read or removed stays: the worst that it does is what Python does by itself.
    """
    stem, _, suffix = name.rpartition(".")
    if suffix != "py":
        return
    with contextlib.suppress(OSError):
        source = os.stat(name, dir_fd=folder, follow_symlinks=False)
        expected = (0, int(source.st_mtime) & 0xFFFFFFFF, source.st_size & 0xFFFFFFFF)
        cache = os.open("__pycache__", _FOLDER, dir_fd=folder)
        try:
            for each in os.listdir(cache):  # noqa: PTH208 - a handle
                ours = each.startswith(f"{stem}.") and each.endswith(".pyc")
                if ours and _named_source(cache, each) == expected:
                    os.unlink(each, dir_fd=cache)
        finally:
            os.close(cache)


def _named_source(cache: int, name: str) -> tuple[int, int, int] | None:
    """Return flags, second and size in the head of a compiled file; None if it is none."""
    handle = os.open(name, _FILE, dir_fd=cache)
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            return None
        head = os.read(handle, _HEADER.size)
    finally:
        os.close(handle)
    if len(head) < _HEADER.size:
        return None
    _, flags, second, size = _HEADER.unpack(head)
    return flags, second, size

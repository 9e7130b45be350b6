"""How far a download is, for a person who watches."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

__all__ = ["Progress", "megabytes", "progress_line"]

Progress = Callable[[int, int], None]
"""Gets the bytes that are there and the whole size, 0 if unknown. May raise to stop."""


def megabytes(size: int) -> str:
    return f"{size / 1e6:.1f} MB"


@contextmanager
def progress_line(name: str, stream: TextIO | None = None) -> Iterator[Progress | None]:
    """One line that is rewritten on a terminal; nothing in a log."""
    out = stream or sys.stderr
    if not out.isatty():
        yield None
        return
    shown_at = 0.0

    def show(done: int, total: int) -> None:
        nonlocal shown_at
        if (now := time.monotonic()) - shown_at > 0.1:
            shown_at = now
            line = f"{100 * done // total:3d}%  " if total else ""
            line += megabytes(done) + (f" of {megabytes(total)}" if total else "")
            out.write(f"\r{name}: {line}\x1b[K")
            out.flush()

    try:
        yield show
    finally:
        if shown_at:
            out.write("\r\x1b[K")
            out.flush()

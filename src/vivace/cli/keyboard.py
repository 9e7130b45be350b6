"""Keys typed while something else is being shown: no waiting for Enter, no echo.

Only where there is a real terminal; elsewhere nothing is ever typed.
"""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import os
import re
import sys
from collections.abc import Callable, Iterator

__all__ = ["ESCAPE", "available", "keys"]

ESCAPE = "\x1b"
_KEY = re.compile(r"\x1b(?:\[[0-9;?]*[@-~]|O[^\x1b]|[^\x1b])?|[^\x1b]", re.DOTALL)
"""One key: a character, Escape, or the sequence of another key (an arrow, Alt with a letter)."""


def available() -> bool:
    return sys.platform != "win32" and sys.stdin.isatty() and sys.stdout.isatty()


@contextlib.contextmanager
def keys(typed: Callable[[str], None]) -> Iterator[None]:
    """Call ``typed`` with each character, or with ``ESCAPE``; other keys' sequences are left out.

    Ctrl-C stays what it is. The terminal is put back as it was.
    """
    if not available():
        yield
        return
    import termios
    import tty

    file = sys.stdin.fileno()
    before = termios.tcgetattr(file)
    decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def read() -> None:
        for key in _KEY.findall(decoder.decode(os.read(file, 4096))):
            if key == ESCAPE or not key.startswith(ESCAPE):
                typed(key)

    loop = asyncio.get_running_loop()
    tty.setcbreak(file)
    loop.add_reader(file, read)
    try:
        yield
    finally:
        loop.remove_reader(file)
        termios.tcsetattr(file, termios.TCSADRAIN, before)

"""Questions at the terminal, and Ctrl-C while an answer is written."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Callable, Iterator

from vivace.cli.output import say

__all__ = ["ask_line", "on_interrupt"]


async def ask_line(prompt: str) -> str | None:
    """A line that the person types; None when they have nothing more to say (Ctrl-D).

    The terminal does the editing, and the connection lives on meanwhile.
    """
    say(prompt, nl=False)
    loop = asyncio.get_running_loop()
    typed: asyncio.Future[bytes] = loop.create_future()
    file = sys.stdin.fileno()

    def read() -> None:
        loop.remove_reader(file)
        if not typed.done():
            typed.set_result(os.read(file, 65536))

    loop.add_reader(file, read)
    try:
        line = await typed
    finally:
        loop.remove_reader(file)
    if not line:
        say()
        return None
    return line.decode(errors="replace").strip()


@contextlib.contextmanager
def on_interrupt(act: Callable[[], None]) -> Iterator[None]:
    """Do this at the first Ctrl-C; the second is what it always was."""
    loop = asyncio.get_running_loop()
    before = signal.getsignal(signal.SIGINT)

    def first(*_: object) -> None:
        signal.signal(signal.SIGINT, before)
        loop.call_soon_threadsafe(act)

    signal.signal(signal.SIGINT, first)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)

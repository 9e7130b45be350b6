"""Questions at the terminal, and Ctrl-C while an answer is written.

What is pasted is one thing, however many lines it has: as an instruction it is taken whole, and it
is no answer to a question. Nor is what was typed before the question was seen.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import signal
import sys
from collections.abc import Callable, Iterator

from vivace.cli.output import say

__all__ = ["ask_answer", "ask_line", "on_interrupt"]

_PASTED_S = 0.05
"""Whoever types has not begun another line so soon after Enter."""


async def ask_line(prompt: str) -> str | None:
    """A line that the person types, or the lines that they paste; None when they have nothing more
    to say (Ctrl-D).

    The terminal does the editing, and the connection lives on meanwhile.
    """
    say(prompt, nl=False)
    said = await _line()
    if not said:
        say()
        return None
    await asyncio.sleep(_PASTED_S)
    while select.select([sys.stdin], [], [], 0)[0] and (more := await _line()):
        said += more
    return said.decode(errors="replace").strip()


async def _line() -> bytes:
    loop = asyncio.get_running_loop()
    typed: asyncio.Future[bytes] = loop.create_future()
    file = sys.stdin.fileno()

    def read() -> None:
        loop.remove_reader(file)
        if not typed.done():
            typed.set_result(os.read(file, 65536))

    loop.add_reader(file, read)
    try:
        return await typed
    finally:
        loop.remove_reader(file)


async def ask_answer(question: str) -> str | None:
    """What the person answers, who has seen the question."""
    _forget_typed()
    return await ask_line(question)


def _forget_typed() -> None:
    if sys.stdin.isatty():
        import termios  # Windows has none

        termios.tcflush(sys.stdin, termios.TCIFLUSH)


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

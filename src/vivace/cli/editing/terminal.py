"""Questions at the terminal, and Ctrl-C while an answer is written.

A line may be typed or pasted; an answer is typed. What was typed before its question was seen, or
comes with more lines than one, is no answer: it was meant for something else.
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


async def ask_answer(question: str) -> str | None:
    """What the person answers; empty when it was pasted."""
    _forget_typed()
    answer = await ask_line(question)
    if answer is None:
        return None
    await asyncio.sleep(_PASTED_S)
    if not select.select([sys.stdin], [], [], 0)[0]:
        return answer
    _forget_typed()
    return ""


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

"""An answer on the terminal that can be talked to while it is being written.

A typed line redirects the answer, Esc stops it. From the first key to Enter the answer is held
back, so that the line stays whole on the screen.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine
from typing import Any, Protocol

from vivace.cli.keyboard import ESCAPE, keys
from vivace.cli.output import Control, put, say, styled
from vivace.client.connection import Connection

__all__ = ["Dialogue", "Listener", "Printed"]

_PROMPT = "> "
_ERASE = ("\x7f", "\b")
_BACK = Control("\b \b")


class Listener(Protocol):
    """Whom the answer is for."""

    def show(self, text: str) -> None:
        """More of the answer."""

    def pause(self) -> None:
        """The person begins to type: nothing comes before ``show`` or ``turned``."""

    def turned(self, line: str) -> str:
        """The answer begins again in this direction; returns what to tell the model."""


class Printed:
    """The answer as it is, on standard output; in a terminal, without what would steer it."""

    def show(self, text: str) -> None:
        put(text)

    def pause(self) -> None:
        say()

    def turned(self, line: str) -> str:
        return line


class Dialogue:
    def __init__(
        self, connection: Connection, listener: Listener | None = None, *, typing: bool = True
    ) -> None:
        """``typing``: whether keys are listened to, where there is a terminal."""
        self.stopped = False
        self._connection = connection
        self._listener = listener or Printed()
        self._listens = typing
        self._line = ""
        self._typing = False
        self._held: list[str] = []
        self._left_behind = 0
        """How many directions the person has turned away from."""
        self._over = False
        self._follow_up: str | None = None
        self._line_done = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    async def answer(self, **body: Any) -> None:
        """Ask and show. A line that was begun before the end is still a word to this answer."""
        with keys(self.typed) if self._listens else contextlib.nullcontext():
            asked: dict[str, Any] | None = body
            while asked is not None:
                self._over = False
                self._left_behind = 0
                async for text in self._connection.turn(**asked):
                    self.show(text)
                self._over = True
                asked = await self._next(asked)

    async def _next(self, asked: dict[str, Any]) -> dict[str, Any] | None:
        if self._typing:
            self._line_done.clear()
            await self._line_done.wait()
        said, self._follow_up = self._follow_up, None
        response = self._connection.response
        if said is None or response is None or self.stopped:
            return None
        return {**asked, "input": said, "previous_response_id": response["id"]}

    def show(self, text: str) -> None:
        if self._connection.redirects < self._left_behind:
            return  # still the old direction
        if self._typing:
            self._held.append(text)
        else:
            self._listener.show(text)

    def typed(self, key: str) -> None:
        if key == ESCAPE:
            self._escape()
        elif key in ("\r", "\n"):
            self._enter()
        elif key in _ERASE:
            if self._line:
                self._line = self._line[:-1]
                say(_BACK, nl=False)
        elif key.isprintable():
            if not self._typing:
                self._typing = True
                self._listener.pause()
                say(styled(_PROMPT, bold=True), nl=False)
            self._line += key
            say(key, nl=False)

    def _enter(self) -> None:
        line, self._line = self._line.strip(), ""
        if not self._typing:
            return
        self._typing = False
        say()
        if not line:
            self._go_on()
        elif self._over:
            self._go_on()
            self._follow_up = self._listener.turned(line)
        else:
            self._held.clear()
            self._left_behind = self._connection.redirects + 1
            self._do(self._connection.steer(self._listener.turned(line)))
        self._line_done.set()

    def _escape(self) -> None:
        if self._typing:
            self._typing, self._line = False, ""
            say()
            self._go_on()
            self._line_done.set()
        else:
            self.stop()

    def stop(self) -> None:
        """Stop the answer, and what is being typed to it."""
        if self._typing:
            self._typing, self._line = False, ""
            self._line_done.set()
        if not self.stopped:
            self.stopped = True
            if not self._over:
                self._do(self._connection.interrupt())

    def _go_on(self) -> None:
        if self._held:
            self._listener.show("".join(self._held))
        self._held.clear()

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

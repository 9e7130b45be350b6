"""An answer that can be talked to while it is being written.

A line that is said redirects it. While a person is about to say something (``hold``), what comes is
held back, so that nothing moves under their hands.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Protocol

from vivace.client.connection import Connection

__all__ = ["Dialogue", "Listener"]


class Listener(Protocol):
    """Whom the answer is for."""

    @property
    def complete(self) -> bool:
        """Whether all that is wanted of the answer has come."""

    def show(self, text: str) -> None:
        """More of the answer."""

    def turned(self, line: str) -> str:
        """The answer begins again in this direction; returns what to tell the model."""


class Dialogue:
    def __init__(self, connection: Connection, listener: Listener) -> None:
        self.stopped = False
        self._connection = connection
        self._listener = listener
        self._holding = False
        self._held: list[str] = []
        self._left_behind = 0
        """How many directions the person has turned away from."""
        self._over = False
        self._enough = False
        """Whether the rest of the answer was given up, because nothing of it is wanted."""
        self._follow_up: str | None = None
        self._said = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    async def answer(self, **body: Any) -> None:
        """Ask and show. A line that was begun before the end is still a word to this answer."""
        asked: dict[str, Any] | None = body
        while asked is not None:
            self._over = self._enough = False
            self._left_behind = 0
            async for text in self._connection.turn(**asked):
                self._show(text)
            self._over = True
            asked = await self._next(asked)

    async def _next(self, asked: dict[str, Any]) -> dict[str, Any] | None:
        if self._holding:
            self._said.clear()
            await self._said.wait()
        said, self._follow_up = self._follow_up, None
        response = self._connection.response
        if said is None or response is None or self.stopped:
            return None
        return {**asked, "input": said, "previous_response_id": response.id}

    def _show(self, text: str) -> None:
        if self._connection.redirects < self._left_behind:
            return  # still the old direction
        if self._holding:
            self._held.append(text)
        elif not self._listener.complete:
            self._listener.show(text)
        elif text.strip() and not self._enough:
            self._enough = True
            self._do(self._connection.interrupt())

    # -- what the person does ---------------------------------------------------------------------

    def hold(self) -> None:
        """They are about to say something: nothing is shown before they have."""
        self._holding = True

    def say(self, line: str) -> None:
        """They have said it; nothing, if they thought better of it."""
        self._holding = False
        if not line:
            self._go_on()
        elif self._over:
            self._go_on()
            self._follow_up = self._listener.turned(line)
        else:
            self._held.clear()
            self._enough = False
            self._left_behind = self._connection.redirects + 1
            self._do(self._connection.steer(self._listener.turned(line)))
        self._said.set()

    def stop(self) -> None:
        """Stop the answer, and what is about to be said to it."""
        self._holding = False
        self._said.set()
        if not self.stopped:
            self.stopped = True
            if not self._over:
                self._do(self._connection.interrupt())

    def answer_now(self) -> None:
        """Let it think no longer."""
        if self._connection.thinking and not self._over and not self.stopped:
            self._do(self._connection.end_thinking())

    def _go_on(self) -> None:
        if self._held:
            self._listener.show("".join(self._held))
        self._held.clear()

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

"""The tasks of one connection, some of which may become another's."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

__all__ = ["Tasks"]


class Tasks:
    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()
        self._empty = asyncio.Event()
        self._empty.set()

    def __contains__(self, task: asyncio.Task[None]) -> bool:
        return task in self._tasks

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        self.add(asyncio.create_task(work))

    def add(self, task: asyncio.Task[None]) -> None:
        self._tasks.add(task)
        self._empty.clear()
        task.add_done_callback(self.discard)

    def discard(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not self._tasks:
            self._empty.set()

    def give(self, task: asyncio.Task[None], to: Tasks) -> None:
        if task in self._tasks:
            to.add(task)
            self.discard(task)

    def give_all(self, to: Tasks) -> None:
        for task in list(self._tasks):
            self.give(task, to)

    async def finished(self) -> None:
        """Wait until none is left here."""
        while self._tasks:
            await self._empty.wait()

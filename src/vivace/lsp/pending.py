"""What is under way, one thing for each document: who does it, and how it is stopped."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Generic, Protocol, TypeVar

__all__ = ["Pending", "Stoppable"]


class Stoppable(Protocol):
    def stop(self) -> bool:
        """Whether it ends by itself now; else it is ended from outside."""


By = TypeVar("By", bound=Stoppable)
T = TypeVar("T")


class _Work(Generic[By]):
    def __init__(self, task: asyncio.Task[Any]) -> None:
        self.task = task
        self.by: By | None = None


class Pending(Generic[By]):
    def __init__(self) -> None:
        self._works: dict[str, _Work[By]] = {}

    def __contains__(self, uri: str) -> bool:
        return uri in self._works

    def get(self, uri: str) -> By | None:
        """Who works on a document, if anybody does by now."""
        return self._works[uri].by if uri in self._works else None

    def taken_up(self, uri: str, by: By) -> None:
        """What was begun is now done by somebody, who is asked first when it is to stop."""
        self._works[uri].by = by

    async def run(self, uri: str, work: Coroutine[Any, Any, T]) -> T | None:
        """What comes of it; None where it was stopped. It ends with whoever waits for it, and is
        under way until it has ended."""
        task = asyncio.create_task(work)
        self._works[uri] = _Work(task)
        task.add_done_callback(lambda _: self._works.pop(uri))
        try:
            await asyncio.wait([task])
        finally:
            task.cancel()
            await asyncio.wait([task])
        return None if task.cancelled() else task.result()

    def stop(self, uri: str) -> None:
        """Asked once more, it ends at once."""
        if uri in self._works:
            work = self._works[uri]
            if work.by is None or not work.by.stop():
                work.task.cancel()

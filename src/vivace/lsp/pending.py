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


class Pending(Generic[By]):
    def __init__(self) -> None:
        self._works: dict[str, tuple[By, asyncio.Task[Any]]] = {}

    def get(self, uri: str) -> By | None:
        """Who works on a document, if anybody does."""
        return self._works[uri][0] if uri in self._works else None

    async def run(self, uri: str, by: By, work: Coroutine[Any, Any, T]) -> T | None:
        """What comes of it; None where it was stopped. It ends with whoever waits for it."""
        task = asyncio.create_task(work)
        self._works[uri] = (by, task)
        try:
            await asyncio.wait([task])
        finally:
            del self._works[uri]
            task.cancel()
        return None if task.cancelled() else task.result()

    def stop(self, uri: str) -> None:
        """Asked once more, it ends at once."""
        if uri in self._works:
            by, task = self._works[uri]
            if not by.stop():
                task.cancel()

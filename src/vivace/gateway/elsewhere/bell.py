"""Nobody rings: who waits to be woken looks when its time is over."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator

__all__ = ["SilentBell"]


class SilentBell:
    up = False

    async def ring(self, holder: str | None, turn_id: str) -> None:
        pass

    async def answered(self, turn_id: str) -> None:
        pass

    async def heard(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    @contextlib.contextmanager
    def listening(self, turn_id: str) -> Iterator[SilentBell]:
        yield self

    async def watch(self) -> None:
        pass

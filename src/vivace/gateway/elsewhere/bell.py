"""Nobody rings: who waits to be woken looks when its time is over."""

from __future__ import annotations

import asyncio

__all__ = ["SilentBell"]


class SilentBell:
    async def ring(self, holder: str | None) -> None:
        pass

    async def heard(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

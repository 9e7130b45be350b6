"""The project around a file, looked at while a model answers."""

from __future__ import annotations

import asyncio

from vivace.edits.importing.project import Modules
from vivace.workspace.index import Index

__all__ = ["Surroundings"]

_PATIENCE_S = 0.5
"""How long an answer that is there waits; what is not read by then is read with the next edit."""


class Surroundings:
    def __init__(self, index: Index | None, path: str) -> None:
        """Begins to look; None has nothing to look at."""
        self._index = index
        self._looking = (
            asyncio.create_task(asyncio.to_thread(index.modules, path)) if index else None
        )

    async def modules(self) -> Modules | None:
        if self._looking is None or self._index is None:
            return None
        await asyncio.wait({self._looking}, timeout=_PATIENCE_S)
        self._index.hurry()
        return await asyncio.shield(self._looking)

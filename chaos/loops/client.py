"""What every client of a loop has: a gate before its steps, and an end."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Protocol

from msgspec import Struct

__all__ = ["Client", "Ended", "Gate"]


class Ended(Struct, frozen=True):
    """How a loop came out for its client."""

    retries: int | None
    """Requests that were sent again; None if the client does not tell."""
    why: str = ""
    """What was wrong, if something was."""


class Gate:
    """A file that steps wait for while it is there, so that no turn begins before the fleet is
    whole again: two gateways that are killed at once would leave none."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def shut(self) -> None:
        self._path.touch()

    def open(self) -> None:
        self._path.unlink(missing_ok=True)

    async def passed(self) -> None:
        while self._path.exists():
            await asyncio.sleep(0.02)


class Client(Protocol):
    gate: Gate

    async def run(self) -> Ended:
        """The whole loop; whatever becomes of it is told, and nothing raised."""

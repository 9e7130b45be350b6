"""What a fault is, and all that it may touch."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct, field

from chaos.databases import Database
from chaos.processes import Gateway

__all__ = ["BOTH", "POSTGRES", "SQLITE", "Cuttable", "Fault", "Hit", "Stage", "busy"]

SQLITE, POSTGRES = "sqlite", "postgres"
BOTH = (SQLITE, POSTGRES)


class Cuttable(Protocol):
    """A client that has an answer under way, and can lose its connection."""

    name: str
    """Of the stream that it has now."""

    @property
    def busy(self) -> bool: ...

    @property
    def reads(self) -> str | None:
        """The answer that it reads on a stream now."""

    def cut(self, back: int = 1) -> None:
        """It will come back so many times at once."""


class Stage:
    def __init__(
        self,
        gateway: Gateway,
        clients: Sequence[Cuttable],
        dice: random.Random,
        database: Database | None = None,
    ) -> None:
        """``database`` is the PostgreSQL that the gateway keeps its turns in, if it does."""
        self.gateway = gateway
        self.clients = clients
        self.dice = dice
        self._database = database

    @property
    def database(self) -> Database:
        assert self._database is not None, "this fault is for gateways on PostgreSQL"
        return self._database

    @property
    def store(self) -> str:
        return SQLITE if self._database is None else POSTGRES


class Hit(Struct, frozen=True):
    target: str
    """A process, or a stream."""
    at: float = field(default_factory=time.monotonic)
    """When it was hit, which may be long after somebody lay in wait for it."""


class Fault(Protocol):
    name: str
    group: str
    """Faults of one group try one promise."""
    stores: Sequence[str]
    """On which of them it can be."""
    engines: bool
    """Whether engines have to be processes of their own."""

    def fits(self, stage: Stage) -> bool:
        """Whether there is something now that it would hit."""

    async def inject(self, stage: Stage) -> Hit:
        """Raises ``TimeoutError`` when what it waits for did not happen."""

    async def heal(self, stage: Stage) -> None:
        """Returns when everything serves again."""


def busy(stage: Stage) -> list[Cuttable]:
    return [client for client in stage.clients if client.busy]

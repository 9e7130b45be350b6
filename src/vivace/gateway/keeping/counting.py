"""A store whose writes are counted where they tell that a turn changed hands, waits or is lost.

Here and not where turns are kept or taken, so that no way to the store is forgotten.
"""

from __future__ import annotations

from typing import Any, TypeVar, cast

import msgspec
from msgspec import Struct

from vivace.gateway.metrics import Metrics
from vivace.store.base import (
    Done,
    Ended,
    Fenced,
    Key,
    KeyReused,
    NotOpen,
    Order,
    Ordered,
    SteersGone,
    Store,
    Taken,
    TurnEnd,
)

__all__ = ["counted"]

T = TypeVar("T")


class _Error(Struct):
    code: str | None = None


class _Response(Struct):
    error: _Error | None = None


_response: msgspec.json.Decoder[_Response] = msgspec.json.Decoder(_Response)


def counted(store: Store, metrics: Metrics) -> Store:
    return cast("Store", _Counted(store, metrics))


class _Counted:
    def __init__(self, store: Store, metrics: Metrics) -> None:
        self._store = store
        self._metrics = metrics

    def __getattr__(self, name: str) -> Any:
        """All that is not counted."""
        return getattr(self._store, name)

    async def take(
        self, response_id: str, epoch: int, holder: str, dead_after: float = 0.0
    ) -> Taken | Fenced:
        """Who is beaten to it has written nothing that was to be kept."""
        outcome = await self._store.take(response_id, epoch, holder, dead_after)
        if isinstance(outcome, Taken):
            self._metrics.takeovers.inc()
        return outcome

    async def park(self, response_id: str, epoch: int, seconds: float | None) -> Done | Fenced:
        outcome = self._noted("park", await self._store.park(response_id, epoch, seconds))
        if seconds is not None and isinstance(outcome, Done):
            self._metrics.parked.inc()
        return outcome

    async def attempt(
        self, response_id: str, epoch: int, attempt: int, engine: str, said: bytes
    ) -> Done | Fenced:
        outcome = await self._store.attempt(response_id, epoch, attempt, engine, said)
        return self._noted("attempt", outcome)

    async def leave(self, response_id: str, epoch: int, said: bytes) -> Done | Fenced:
        return await self._store.leave(response_id, epoch, said)

    async def order(
        self, order: Order, key: Key | None = None, *, epoch: int | None = None
    ) -> Ordered | NotOpen | KeyReused | Fenced:
        return self._noted("order", await self._store.order(order, key, epoch=epoch))

    async def end(self, end: TurnEnd) -> Ended | Fenced | SteersGone:
        outcome = self._noted("end", await self._store.end(end))
        if end.status == "failed" and isinstance(outcome, Ended):
            error = _response.decode(end.response).error
            if error is not None and error.code == "lost_midway":
                self._metrics.lost.inc()
        return outcome

    def _noted(self, write: str, outcome: T) -> T:
        if isinstance(outcome, Fenced):
            self._metrics.fenced.labels(write).inc()
        return outcome

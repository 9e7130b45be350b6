"""Stores to try things on, and turns to keep in them."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Awaitable, Callable
from hashlib import blake2b
from pathlib import Path
from typing import Any, Protocol, TypeVar

import pytest

from tests.support.waiting import PATIENCE_S
from vivace.store.base import Key, NewTurn, Order, Store, StoredTurn, TurnEnd
from vivace.store.sqlite import SqliteStore
from vivace.store.values import OrderKind

T = TypeVar("T")
S = TypeVar("S", bound=Store)
DAY = 86_400
NOW = int(time.time())


class Open(Protocol):
    def __call__(self, base: Path, *, max_age: float = ..., max_bytes: int = ...) -> Store: ...


def in_memory(
    base: Path, *, max_age: float = DAY, max_bytes: int = 10**9, **more: Any
) -> SqliteStore:
    return SqliteStore(":memory:", max_age=max_age, max_bytes=max_bytes, **more)


def in_file(
    base: Path, *, max_age: float = DAY, max_bytes: int = 10**9, **more: Any
) -> SqliteStore:
    return SqliteStore(base / "vivace.db", max_age=max_age, max_bytes=max_bytes, **more)


def advance_clock(store: SqliteStore, seconds: float) -> None:
    """Make the clock that ``store`` reads go ahead by ``seconds``."""
    clock = store._clock
    store._clock = lambda: clock() + seconds


def turn(
    turn_id: str, previous: str | None = None, *, owner: str = "me", at: int = 1000, size: int = 10
) -> StoredTurn:
    return StoredTurn(
        id=turn_id,
        owner=owner,
        previous_id=previous,
        created_at=at,
        tokens=7,
        input=b"i" * size,
        response=b"r" * size,
    )


class StoreCalls:
    """Calls of some methods of a store, which are noted and can be held up."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, store: Store, *names: str) -> None:
        self.made: list[str] = []
        self.running = 0
        self.most_running = 0
        self.go = asyncio.Event()
        """Cleared on the loop of the store, it holds up those that follow."""
        self.go.set()
        for name in names:
            monkeypatch.setattr(store, name, self._noted(name, getattr(store, name)))

    def _noted(self, name: str, work: Callable[..., Awaitable[T]]) -> Callable[..., Awaitable[T]]:
        async def call(*args: Any, **more: Any) -> T:
            self.made.append(name)
            self.running += 1
            self.most_running = max(self.running, self.most_running)
            try:
                await self.go.wait()
                return await work(*args, **more)
            finally:
                self.running -= 1

        return call


# -- turns of any store: their ids tell when they began -----------------------------------------


def rid(label: str, at: float = NOW) -> str:
    return f"resp_{round(at * 1000):012x}{blake2b(label.encode(), digest_size=10).hexdigest()}"


def stored(
    label: str, previous: str | None = None, *, owner: str = "me", at: int = NOW, size: int = 10
) -> StoredTurn:
    before = None if previous is None else rid(previous)
    return turn(rid(label, at), before, owner=owner, at=at, size=size)


def new(
    label: str,
    previous: str | None = None,
    *,
    owner: str = "me",
    holder: str = "g1",
    key: Key | None = None,
    applied: tuple[str, ...] = (),
    background: bool = False,
) -> NewTurn:
    return NewTurn(
        id=rid(label),
        owner=owner,
        previous_id=None if previous is None else rid(previous),
        holder=holder,
        request=b"request of " + label.encode(),
        input=b"input of " + label.encode(),
        created_at=NOW,
        background=background,
        key=key,
        applied=applied,
    )


def ending(
    label: str,
    epoch: int = 1,
    *,
    by: str = "",
    successor: NewTurn | None = None,
    pending: tuple[str, ...] = (),
) -> TurnEnd:
    return TurnEnd(
        id=rid(label),
        epoch=epoch,
        op=str(uuid.uuid5(uuid.NAMESPACE_URL, f"{label}/{epoch}/{by}")),
        status="completed",
        response=b"response of " + label.encode(),
        cuts=b"cuts",
        tokens=7,
        successor=successor,
        pending=pending,
    )


def steer(label: str, target: str, *, owner: str = "me") -> Order:
    return Order(id=label, turn_id=rid(target), owner=owner, kind="steer", input=b"no, " + b"left")


def asked(label: str, target: str, *, kind: OrderKind = "steer", owner: str = "me") -> Order:
    """By another gateway than the turn's."""
    said = b"no, left" if kind == "steer" else None
    return Order(
        id=label,
        turn_id=rid(target),
        owner=owner,
        kind=kind,
        input=said,
        state="asked",
        reply=b"",
    )


def using(store: S, check: Callable[[S], Awaitable[T]]) -> T:
    async def whole() -> T:
        try:
            await store.open()
            return await asyncio.wait_for(check(store), PATIENCE_S)
        finally:
            await asyncio.wait_for(store.close(), PATIENCE_S)

    return asyncio.run(whole())

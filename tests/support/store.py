"""Stores to try things on, and turns to keep in them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Protocol, TypeVar

from vivace.store.base import Store, StoredTurn
from vivace.store.sqlite import SqliteStore

T = TypeVar("T")
S = TypeVar("S", bound=Store)
DAY = 86_400


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


def using(store: S, check: Callable[[S], Awaitable[T]]) -> T:
    async def whole() -> T:
        try:
            return await asyncio.wait_for(check(store), 20)
        finally:
            await asyncio.wait_for(store.close(), 10)

    return asyncio.run(whole())

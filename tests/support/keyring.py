"""Keyrings as the command line has them: one change at a time, from any thread of a test."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

from vivace.gateway import keyring
from vivace.gateway.key_file import KeyFile
from vivace.gateway.keyring import KeyEntry

T = TypeVar("T")


class Ring:
    store: dict[str, Any]
    """The table of the configuration that leads there."""

    def __init__(self, opened: Callable[[], keyring.Keyring]) -> None:
        self._opened = opened

    def _do(self, work: Callable[[keyring.Keyring], Awaitable[T]]) -> T:
        async def whole() -> T:
            ring = self._opened()
            try:
                return await work(ring)
            finally:
                await ring.close()

        return asyncio.run(whole())

    def create(self, name: str) -> str:
        return self._do(lambda ring: ring.create(name))

    def revoke(self, name: str) -> None:
        self._do(lambda ring: ring.revoke(name))

    def entries(self) -> list[KeyEntry]:
        return self._do(lambda ring: ring.entries())


class Keyring(Ring):
    """The file in a folder."""

    def __init__(self, folder: Path) -> None:
        super().__init__(lambda: KeyFile(folder))
        self.store = {"path": ":memory:"}
        self.path = folder / "keys.json"


class SharedKeyring(Ring):
    """The table of a database."""

    def __init__(self, url: str) -> None:
        from vivace.gateway.key_table import SharedKeys
        from vivace.store.postgres_keys import PostgresKeys  # its driver is for some tests alone

        super().__init__(lambda: SharedKeys(PostgresKeys(url), "the database"))
        self.store = {"url": url}

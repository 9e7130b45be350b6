"""The keys of all gateways that share a store: made or revoked anywhere, known everywhere."""

from __future__ import annotations

from msgspec.structs import asdict

from vivace.gateway.keyring import KeyEntry, Made, name_taken, new_key, no_such_key
from vivace.store.base import AccessKey, AccessKeys, Done, KeyTable

__all__ = ["SharedKeys"]


class SharedKeys:
    def __init__(self, table: KeyTable, place: str) -> None:
        self.place = place
        self._table = table
        self._revision: str | None = None

    def known(self) -> None:
        """Nothing, before the table was asked."""

    async def look(self) -> Made | None:
        found = await self._table.changed(self._revision)
        if found is None:
            return None
        self._revision = found.revision
        return Made(_entries(found), ever=found.ever)

    async def entries(self) -> list[KeyEntry]:
        found = await self._table.changed(None)
        return [] if found is None else [*_entries(found)]

    async def create(self, name: str, *, admin: bool = False) -> str:
        key, entry = new_key(name, admin=admin)
        if not await self.add(entry):
            raise name_taken(name)
        return key

    async def add(self, entry: KeyEntry) -> bool:
        """A key that was made elsewhere; one that is here already stays. False if its name, id or
        hash is another's."""
        return isinstance(await self._table.add(AccessKey(**asdict(entry))), Done)

    async def revoke(self, name: str) -> None:
        if not await self._table.remove(name):
            raise no_such_key(name, self.place, await self.entries())

    async def close(self) -> None:
        await self._table.close()


def _entries(found: AccessKeys) -> tuple[KeyEntry, ...]:
    return tuple(KeyEntry(**asdict(key)) for key in found.keys)

"""The keys that every gateway lets in, in PostgreSQL.

They have a connection of their own: however busy turns keep the others, a revoked key is known
within the time between two looks.
"""

from __future__ import annotations

import uuid

from vivace.store import postgres_health
from vivace.store.base import AccessKey, AccessKeys, Done, KeyInUse
from vivace.store.connections import Connection, Connections
from vivace.store.health import Health
from vivace.store.migrating import check_version

__all__ = ["PostgresKeys"]

# One statement, so one snapshot: no key is seen without the revision that it belongs to. Unless the
# revision is another, nothing is read but its row. Where somebody has deleted that row, all keys
# are read each time: one that is revoked then must not stay.
_CHANGED = """
SELECT revision, ever, id, name, sha256, created_at, admin
FROM (VALUES (true)) AS always (one)
LEFT JOIN access_keys_now USING (one) LEFT JOIN access_keys ON true
WHERE revision IS NULL OR revision IS DISTINCT FROM $1::uuid
ORDER BY access_keys.created_at, access_keys.name
"""

_ADD = """
INSERT INTO access_keys (id, name, sha256, created_at, admin) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT DO NOTHING RETURNING id
"""

_SAME = """
SELECT FROM access_keys WHERE id = $1 AND name = $2 AND sha256 = $3 AND admin = $4
"""

_NAMED = "SELECT id FROM access_keys WHERE name = $1"

_REMOVE = "DELETE FROM access_keys WHERE id = $1"


class PostgresKeys:
    def __init__(self, url: str) -> None:
        # The store's own health tells of a database that is away; twice would be once too often.
        health = Health(postgres_health.words, quiet=True)
        self._connections = Connections(url, health, check_version)

    async def changed(self, revision: str | None) -> AccessKeys | None:
        seen = None if revision is None else uuid.UUID(revision)
        rows = await self._connections.run(lambda db: db.fetch(_CHANGED, seen))
        if not rows:
            return None
        keys = [
            AccessKey(
                id=row["id"],
                name=row["name"],
                sha256=row["sha256"],
                created_at=row["created_at"],
                admin=row["admin"],
            )
            for row in rows
            if row["id"] is not None
        ]
        revision, ever = rows[0]["revision"], rows[0]["ever"]
        return AccessKeys(revision and str(revision), tuple(keys), ever=ever is not False)

    async def add(self, key: AccessKey) -> Done | KeyInUse:
        async def work(db: Connection) -> Done | KeyInUse:
            row = (key.id, key.name, key.sha256)
            if await db.fetchval(_ADD, *row, key.created_at, key.admin) is not None:
                return Done()
            same = await db.fetchrow(_SAME, *row, key.admin)
            return Done() if same is not None else KeyInUse()

        return await self._connections.run(work)

    async def remove(self, name: str) -> bool:
        """By its id, which is looked for once: after a lost answer the name may be another's."""
        found: str | None = None

        async def work(db: Connection) -> bool:
            nonlocal found
            found = found or await db.fetchval(_NAMED, name)
            if found is not None:
                await db.execute(_REMOVE, found)
            return found is not None

        return await self._connections.run(work)

    async def close(self) -> None:
        await self._connections.close()

"""The gateways that share a PostgreSQL: what each tells of itself, and what is wanted of it.

That they live is said with their turns (``beat``). Here nothing hurries, so one connection does.
"""

from __future__ import annotations

from vivace.store import postgres_health
from vivace.store.base import Colleague, Wanted
from vivace.store.connections import Connections
from vivace.store.health import Health
from vivace.store.migrating import check_version

__all__ = ["PostgresGateways"]

_TELL = "UPDATE gateways SET name = $2, about = $3 WHERE id = $1 RETURNING drain"

_ALL = """
SELECT id, name, about, drain,
       extract(epoch FROM clock_timestamp() - seen)::float8 AS silent,
       coalesce(dead_after, 0) AS dead_after
FROM gateways WHERE seen > clock_timestamp() - make_interval(secs => $1::float8)
ORDER BY name, id
"""

_DRAIN = "UPDATE gateways SET drain = $2 WHERE id = $1 RETURNING id"

_CLOCK = "SELECT extract(epoch FROM clock_timestamp())::float8"

_LOG_SETTINGS = "SELECT name, setting FROM pg_settings WHERE name = ANY ($1::text[])"

# As if it had not been heard of for years: so everyone who looks for the turns of the dead finds
# its turns, too, and no other clock than the database's has a say in it.
_LEAVE = "UPDATE gateways SET seen = to_timestamp(0) WHERE id = $1"


_LOGS_STATEMENTS = {
    "log_statement": ("none", "ddl"),
    "log_min_duration_statement": ("-1",),
    "log_min_duration_sample": ("-1",),
    "log_transaction_sample_rate": ("0",),
}
"""With the values by which none of a gateway's statements is logged."""


class PostgresGateways:
    def __init__(self, url: str) -> None:
        # The store's own health tells of a database that is away; twice would be once too often.
        health = Health(postgres_health.words, quiet=True)
        self._connections = Connections(url, health, check_version)

    async def tell(self, gateway: str, name: str, about: bytes) -> Wanted | None:
        row = await self._connections.run(lambda db: db.fetchrow(_TELL, gateway, name, about))
        return None if row is None else Wanted(row["drain"])

    async def all(self, seconds: float) -> list[Colleague]:
        rows = await self._connections.run(lambda db: db.fetch(_ALL, seconds))
        return [Colleague(**row) for row in rows]

    async def drain(self, gateway: str, seconds: float | None) -> bool:
        found = await self._connections.run(lambda db: db.fetchval(_DRAIN, gateway, seconds))
        return found is not None

    async def clock(self) -> float:
        return float(await self._connections.run(lambda db: db.fetchval(_CLOCK)))

    async def logged_by(self) -> list[str]:
        """Return the settings by which the database logs prompts and code: as the parameters of
        statements, all or slow ones."""
        names = ["log_parameter_max_length", *_LOGS_STATEMENTS]
        rows = await self._connections.run(lambda db: db.fetch(_LOG_SETTINGS, names))
        found = {row["name"]: row["setting"] for row in rows}
        if found.get("log_parameter_max_length") == "0":
            return []
        return [
            name for name, off in _LOGS_STATEMENTS.items() if found.get(name, off[0]) not in off
        ]

    async def leave(self, gateway: str) -> None:
        await self._connections.run(lambda db: db.execute(_LEAVE, gateway))

    async def close(self) -> None:
        await self._connections.close()

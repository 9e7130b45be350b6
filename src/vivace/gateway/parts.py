"""The parts that a configuration names, as it names them: tiers, store, keys and counters."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

from vivace.config import FleetConfig, StoreConfig, TierConfig, check_store, check_valkey
from vivace.counters.base import Limiter
from vivace.counters.local import LocalLimiter
from vivace.errors import ConfigError
from vivace.extras import how_to_install
from vivace.gateway.elsewhere.bell import SilentBell
from vivace.gateway.key_file import KeyFile
from vivace.gateway.key_table import SharedKeys
from vivace.gateway.keyring import Keyring
from vivace.gateway.ports import Bell
from vivace.scheduling.tiers import Tier
from vivace.store.base import GatewayTable, Journal, Store
from vivace.store.journal import FileJournal
from vivace.store.sqlite import SqliteStore

__all__ = [
    "build_bell",
    "build_colleagues",
    "build_journal",
    "build_keyrings",
    "build_limiter",
    "build_shared_keys",
    "build_store",
    "build_tier",
    "migrate_store",
]

_MEGABYTE = 1_000_000


def build_store(config: StoreConfig, base: Path) -> Store:
    check_store(config)  # whoever made the configuration, and however
    max_age, max_bytes = config.max_age_days * 86_400, config.max_megabytes * _MEGABYTE
    if config.url is None:
        path = config.path if config.path == ":memory:" else base / config.path
        return SqliteStore(path, max_age=max_age, max_bytes=max_bytes)
    with _needing("store.url", "asyncpg", "postgres"):
        from vivace.store.postgres import PostgresStore
    return PostgresStore(config.url, max_age=max_age, max_bytes=max_bytes)


def build_keyrings(config: StoreConfig, base: Path) -> list[Keyring]:
    """Of two keys that could be taken for each other, the one of this machine counts."""
    if config.url is None:
        return [KeyFile(base)]
    return [KeyFile(base), build_shared_keys(config)]


def build_shared_keys(config: StoreConfig) -> SharedKeys:
    assert config.url is not None
    check_store(config)
    with _needing("store.url", "asyncpg", "postgres"):
        from vivace.store.postgres_keys import PostgresKeys
    return SharedKeys(PostgresKeys(config.url), config.place)


def build_colleagues(config: StoreConfig) -> GatewayTable | None:
    """A store in a file has one gateway."""
    if config.url is None:
        return None
    check_store(config)
    with _needing("store.url", "asyncpg", "postgres"):
        from vivace.store.postgres_gateways import PostgresGateways
    return PostgresGateways(config.url)


def migrate_store(config: StoreConfig) -> list[str]:
    """What was applied to a store in PostgreSQL."""
    assert config.url is not None
    check_store(config)
    with _needing("store.url", "asyncpg", "postgres"):
        from vivace.store.migrating import migrate
    return asyncio.run(migrate(config.url))


def build_limiter(config: FleetConfig, gateways: Callable[[], int]) -> Limiter:
    """``gateways``: how many were last seen, each of which has its share when it counts alone."""
    check_valkey(config)
    if config.valkey is None:
        return LocalLimiter(gateways)
    with _needing("fleet.valkey", "redis", "fleet"):
        from vivace.counters.line import Line
        from vivace.counters.valkey import SCRIPT, ValkeyLimiter
    return ValkeyLimiter(Line(config.valkey, SCRIPT), gateways)


def build_bell(config: FleetConfig, holder: str) -> Bell:
    """``holder`` is this run of this gateway."""
    if config.valkey is None:
        return SilentBell()
    with _needing("fleet.valkey", "redis", "fleet"):
        from vivace.counters.bell import ValkeyBell
    return ValkeyBell(config.valkey, holder)


@contextlib.contextmanager
def _needing(setting: str, package: str, extra: str) -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"{setting} needs {package}, which is not installed. Install it with: "
            f"{how_to_install(extra)}"
        ) from error


def build_journal(config: StoreConfig, base: Path) -> Journal | None:
    """Beside the store, for what turns in the making say; a store on another machine has none."""
    if config.url is not None or config.path == ":memory:":
        return None
    file = (base / config.path).resolve()
    return FileJournal(file.with_name(f"{file.name}-said"))


def build_tier(config: TierConfig) -> Tier:
    return Tier(
        name=config.name,
        engines=config.engines,
        limits=config.limits,
        queue=config.queue,
        first_token=config.first_token_seconds,
        spill=config.spill,
    )

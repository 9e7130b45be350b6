"""The parts that a configuration names, as it names them: tiers, the store and its journal."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path

from vivace.config import StoreConfig, TierConfig, check_store
from vivace.errors import ConfigError
from vivace.extras import how_to_install
from vivace.scheduling.tiers import Tier
from vivace.store.base import Journal, Store
from vivace.store.journal import FileJournal
from vivace.store.sqlite import SqliteStore

__all__ = ["build_journal", "build_store", "build_tier", "migrate_store"]

_MEGABYTE = 1_000_000


def build_store(config: StoreConfig, base: Path) -> Store:
    check_store(config)  # whoever made the configuration, and however
    max_age, max_bytes = config.max_age_days * 86_400, config.max_megabytes * _MEGABYTE
    if config.url is None:
        path = config.path if config.path == ":memory:" else base / config.path
        return SqliteStore(path, max_age=max_age, max_bytes=max_bytes)
    with _needing_postgres():
        from vivace.store.postgres import PostgresStore
    return PostgresStore(config.url, max_age=max_age, max_bytes=max_bytes)


def migrate_store(config: StoreConfig) -> list[str]:
    """What was applied to a store in PostgreSQL."""
    assert config.url is not None
    check_store(config)
    with _needing_postgres():
        from vivace.store.migrating import migrate
    return asyncio.run(migrate(config.url))


@contextlib.contextmanager
def _needing_postgres() -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as error:
        raise ConfigError(
            "store.url needs asyncpg, which is not installed. Install it with: "
            f"{how_to_install('postgres')}"
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

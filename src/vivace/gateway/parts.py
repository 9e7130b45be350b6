"""The parts that a configuration names, as it names them: engines, tiers and the store."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from msgspec.structs import replace

from vivace import models
from vivace.config import (
    EngineConfig,
    LlamaCppConfig,
    OpenAIConfig,
    StoreConfig,
    TierConfig,
    VllmConfig,
    check_remote,
    check_store,
)
from vivace.engines.base import Card, Engine
from vivace.engines.llamacpp import LlamaCppEngine
from vivace.engines.openai import OpenAIEngine
from vivace.engines.scripted import Capacity, Script, ScriptedEngine
from vivace.engines.vllm import VllmEngine
from vivace.errors import ConfigError
from vivace.extras import how_to_install
from vivace.models import Model
from vivace.scheduling.tiers import Tier
from vivace.store.base import Journal, Store
from vivace.store.journal import FileJournal
from vivace.store.sqlite import SqliteStore
from vivace.supervisor import Supervisor

__all__ = ["build_engine", "build_journal", "build_store", "build_tier", "migrate_store"]

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


def build_engine(config: EngineConfig, base: Path, supervisor: Supervisor) -> Engine:
    match config:
        case OpenAIConfig():
            check_remote(config)  # whoever made the configuration, and however
            known = models.find(config.upstream_model or config.model)
            return OpenAIEngine(
                config.name,
                _card(config, known),
                config.url,
                upstream=config.upstream_model,
                key=_key(config),
                fim=known.fim if known else None,
                predictions=config.predictions,
            )
        case LlamaCppConfig():
            known = models.find(config.model) or models.find(config.path)
            return LlamaCppEngine(
                config.name,
                _card(config, known, ends_thinking=True),
                base / config.path,
                fim=known.fim if known else None,
                thinking=known.thinking if known else None,
                slots=config.slots,
                gpu_layers=config.gpu_layers,
                batch_size=config.batch_size,
                prompt_cache_mib=config.prompt_cache_megabytes,
                drafts=config.speculation is not None,
                supervisor=supervisor,
            )
        case VllmConfig():
            return _vllm(config, base, supervisor)
    script = Script.load(base / config.script) if config.script else Script()
    capacity = Capacity(
        rate=config.rate,
        burst=config.burst,
        growth=config.growth,
        prefill_rate=config.prefill_rate,
        prefill_chunk=config.prefill_chunk,
        patient_chunk=config.patient_chunk,
    )
    card = _card(config, models.find(config.model), ends_thinking=True)
    return ScriptedEngine(config.name, [replace(card, fills=True)], script, capacity)


def _vllm(config: VllmConfig, base: Path, supervisor: Supervisor) -> Engine:
    folder = base / config.path
    known = models.find(config.model) or models.find(config.path)
    devices = {"CUDA_VISIBLE_DEVICES": config.devices} if config.devices else {}
    return VllmEngine(
        config.name,
        _card(config, known, ends_thinking=True),
        str(folder) if folder.exists() else config.path,
        arguments=config.arguments,
        environment={**devices, **config.environment},
        tool_parser=config.tool_parser or (known.tool_form if known else None),
        reasoning_parser=config.reasoning_parser,
        thinking=known.thinking if known else None,
        fim=known.fim if known else None,
        speculation=config.speculation,
        supervisor=supervisor,
    )


def _card(config: EngineConfig, known: Model | None, *, ends_thinking: bool = False) -> Card:
    thinking = known.thinking if known else None
    return Card(
        config.model,
        config.context,
        fills=known is not None and known.fim is not None,
        efforts=thinking.efforts if thinking else (),
        effort=thinking.default if thinking else None,
        ends_thinking=ends_thinking,
    )


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


def _key(config: OpenAIConfig) -> str | None:
    if config.key_env is None:
        return None
    key = os.environ.get(config.key_env)
    if not key:
        raise ConfigError(
            f"Engine {config.name!r} takes its key from ${config.key_env}, which is not set."
        )
    return key

"""The engines that a configuration names, as it names them."""

from __future__ import annotations

import os
from pathlib import Path

from msgspec.structs import replace

from vivace import models
from vivace.engine_config import (
    EngineConfig,
    LlamaCppConfig,
    OpenAIConfig,
    VllmConfig,
    check_remote,
)
from vivace.engines.base import Card, Engine
from vivace.engines.llamacpp import LlamaCppEngine
from vivace.engines.openai import OpenAIEngine
from vivace.engines.scripted import Capacity, Script, ScriptedEngine
from vivace.engines.vllm import VllmEngine
from vivace.errors import ConfigError
from vivace.models import Model
from vivace.supervisor import Supervisor

__all__ = ["build_engine"]


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


def _key(config: OpenAIConfig) -> str | None:
    if config.key_env is None:
        return None
    key = os.environ.get(config.key_env)
    if not key:
        raise ConfigError(
            f"Engine {config.name!r} takes its key from ${config.key_env}, which is not set."
        )
    return key

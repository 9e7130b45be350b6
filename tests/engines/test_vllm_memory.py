"""The room for vLLM's KV cache on a processor: what fits, and what is refused."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest

from tests.support.vllm import CARD, ENVIRONMENT, MODEL, needs_vllm
from vivace.engines.vllm import VllmEngine
from vivace.engines.vllm_memory import GIB, chosen_by_person, kv_cache_bytes, weights_in
from vivace.errors import ConfigError, EngineDied

ONE = GIB // 4


@pytest.mark.parametrize(
    ("free", "weights", "slots", "room"),
    [
        (16 * GIB, 1 * GIB, 256, 6.25),  # half of what is left
        (16 * GIB, 1 * GIB, 2, 0.625),  # all that two answers can fill
        (5 * GIB, 1 * GIB, 256, 0.75),
        (3.9 * GIB, 1 * GIB, 256, 0.3125),  # one context, though it is most of what is left
    ],
)
def test_the_cache_leaves_room_for_the_model_and_for_others(
    free: int, weights: int, slots: int, room: float
) -> None:
    assert kv_cache_bytes(int(free), weights, ONE, slots) == room * GIB


@pytest.mark.parametrize("free", [0, 1 * GIB, 3 * GIB, int(3.8 * GIB)])
def test_what_does_not_fit_is_refused_with_what_to_do(free: int) -> None:
    with pytest.raises(ConfigError, match=r"needs 3\.8 GiB .* Close other programs"):
        kv_cache_bytes(free, GIB, ONE, 256)


def test_what_a_person_has_set_stays(tmp_path: Path) -> None:
    assert chosen_by_person({"gpu_memory_utilization": 0.3}, {})
    assert chosen_by_person({"kv_cache_memory_bytes": 1}, {})
    assert chosen_by_person({}, {"VLLM_CPU_KVCACHE_SPACE": "2"})
    assert not chosen_by_person({"max_num_seqs": 8}, {"HF_HUB_OFFLINE": "1"})


def test_the_weights_of_a_folder_are_counted_and_those_of_a_hub_id_unknown(tmp_path: Path) -> None:
    for number in (1, 2):
        (tmp_path / f"model-{number}.safetensors").write_bytes(bytes(1000))
    assert weights_in(str(tmp_path)) == 2000
    assert weights_in("owner/name") == 0


@pytest.mark.release
@needs_vllm
@pytest.mark.parametrize("free", [8 * GIB, 2 * GIB])
def test_vllm_is_started_with_it_or_not_at_all(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, free: int
) -> None:
    from vllm.v1.engine.async_llm import AsyncLLM

    started: list[Any] = []

    def start(config: Any, **_: Any) -> None:
        started.append(config.cache_config.kv_cache_memory_bytes)
        raise RuntimeError("as far as this test goes")

    monkeypatch.setattr(AsyncLLM, "from_vllm_config", start)
    monkeypatch.setattr("vivace.engines.vllm.free_memory", lambda: free)
    caplog.set_level(logging.INFO, "vivace.vllm")
    environment = {name: x for name, x in ENVIRONMENT.items() if name != "VLLM_CPU_KVCACHE_SPACE"}
    engine = VllmEngine(
        "vllm", CARD, str(MODEL), arguments={"max_num_seqs": 8}, environment=environment
    )
    if free < 4 * GIB:
        with pytest.raises(ConfigError, match=r"2\.0 GiB are free"):
            asyncio.run(engine.start())
        assert started == []
        return
    with pytest.raises(EngineDied, match="as far as"):
        asyncio.run(engine.start())
    (room,) = started
    assert 0 < room < 3 * GIB
    assert "GiB for the KV cache" in caplog.text

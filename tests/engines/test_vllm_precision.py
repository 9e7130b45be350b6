"""Which precision vLLM computes in on a processor."""

from __future__ import annotations

from pathlib import Path

import pytest

from vivace.engines.vllm_memory import GIB
from vivace.engines.vllm_precision import better_in_float32, processor_flags

CASCADE_LAKE = {"avx2", "avx512f", "avx512_vnni"}
SAPPHIRE_RAPIDS = {"avx512f", "avx512_bf16", "amx_bf16", "amx_tile"}
GRAVITON = {"asimd", "bf16", "i8mm"}


def test_a_processor_without_bfloat16_computes_in_float32() -> None:
    assert better_in_float32(CASCADE_LAKE, 3 * GIB, 16 * GIB)


@pytest.mark.parametrize("flags", [SAPPHIRE_RAPIDS, GRAVITON, set()])
def test_one_that_has_it_or_does_not_tell_keeps_what_the_model_wants(flags: set[str]) -> None:
    assert not better_in_float32(flags, GIB, 100 * GIB)


def test_weights_that_would_fill_the_memory_stay_small() -> None:
    assert not better_in_float32(CASCADE_LAKE, 15 * GIB, 32 * GIB)


@pytest.mark.parametrize("label", ["flags\t\t: ", "Features\t: "])
def test_flags_are_those_of_the_first_processor(tmp_path: Path, label: str) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text(f"processor: 0\n{label}one two\nprocessor: 1\n{label}one three\n")
    assert processor_flags(cpuinfo) == {"one", "two"}


def test_a_system_that_has_no_such_file_tells_nothing(tmp_path: Path) -> None:
    assert processor_flags(tmp_path / "none") == frozenset()

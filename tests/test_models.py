"""The table of models agrees with itself, and what it recommends fits."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from vivace import models
from vivace.models import (
    FAST_CONTEXT,
    MODELS,
    RECOMMENDED,
    SHARE,
    Kind,
    Kv,
    Model,
    Recommendation,
    Weights,
    find,
    memory_needed,
    recommend,
)

GIB = 1 << 30


def known(name: str) -> Model:
    model = find(name)
    assert model is not None, name
    return model


def chosen(memory: float, kind: Kind) -> Recommendation:
    found = recommend(int(memory), kind)
    assert found is not None
    return found


# -- the rows ------------------------------------------------------------------------------------


def test_nothing_of_ours_is_imported() -> None:
    tree = ast.parse(Path(models.__file__).read_text(encoding="utf-8"))
    imported = {
        name.split(".")[0]
        for node in ast.walk(tree)
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or "vivace"]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    assert "vivace" not in imported


def test_public_names_exist() -> None:
    assert all(hasattr(models, name) for name in models.__all__)


def test_no_two_rows_share_a_key() -> None:
    def keys(model: Model) -> Iterator[str]:
        yield from {model.name, model.hub.casefold(), model.served.repo.casefold()}
        if model.gguf is not None:
            assert model.gguf.file is not None
            yield from (model.gguf.repo.casefold(), model.gguf.file.casefold())

    every = [key for model in MODELS for key in keys(model)]
    assert len(every) == len(set(every))


def test_rows_are_complete() -> None:
    today = datetime.now(tz=UTC).date()
    for model in MODELS:
        assert all((model.licence, model.source)), model.name
        assert model.checked <= today, model.name
        assert model.context >= FAST_CONTEXT, model.name
        assert model.commercial or model.note, f"{model.name}: what does its licence forbid?"


def test_weights_are_plausible() -> None:
    def bits(model: Model, weights: Weights) -> float:
        return weights.size * 8 / model.parameters

    for model in MODELS:
        # BF16, FP8 or MXFP4, give or take scales, embeddings and eyes.
        served = bits(model, model.served)
        assert any(served == pytest.approx(width, rel=0.12) for width in (16, 8, 4.8)), model.name
        if model.gguf is not None:
            assert model.gguf.file is not None, model.name
            assert 4.0 < bits(model, model.gguf) < 8.5, model.name


def test_hashes_are_those_we_know() -> None:
    hashes = {model.name: model.gguf.sha256 for model in MODELS if model.gguf is not None}
    assert {name: digest[:8] for name, digest in hashes.items() if digest is not None} == {
        "qwen2.5-coder-0.5b": "1d961463",
        "qwen2.5-coder-1.5b": "cc324af0",
    }


def test_fill_in_the_middle_tokens_of_qwen() -> None:
    for name in ("qwen2.5-coder-0.5b", "qwen2.5-coder-32b", "qwen3-coder-30b-a3b"):
        fim = known(name).fim
        assert fim is not None
        assert (fim.prefix, fim.middle, fim.suffix, fim.pad, fim.repo, fim.file_sep) == (
            "<|fim_prefix|>",
            "<|fim_middle|>",
            "<|fim_suffix|>",
            "<|fim_pad|>",
            "<|repo_name|>",
            "<|file_sep|>",
        )
    assert known("smollm2-135m").fim is None


def test_fill_in_the_middle_tokens_of_others() -> None:
    granite, mellum = known("granite-4.1-3b").fim, known("mellum2-12b-a2.5b").fim
    assert granite is not None
    assert mellum is not None
    assert (granite.prefix, granite.suffix_first) == ("<|fim_prefix|>", False)
    assert granite.file_sep is None
    assert (mellum.prefix, mellum.suffix_first) == ("<fim_prefix>", True)
    assert (mellum.repo, mellum.file_sep) == (None, "<filename>")


def test_those_that_forbid_commercial_use() -> None:
    forbidding = {model.name for model in MODELS if not model.commercial}
    assert forbidding == {"qwen2.5-coder-3b", "minimax-m2.7"}


# -- memory --------------------------------------------------------------------------------------


def test_memory_grows_with_context() -> None:
    for model in MODELS:
        sizes = [memory_needed(model, context) for context in (1, 128, 1024, model.context)]
        assert sizes == sorted(set(sizes)), model.name
        assert sizes[0] > model.weights.size, model.name


def test_memory_of_full_attention() -> None:
    model = known("qwen2.5-coder-7b")
    per_token = 28 * 4 * (128 + 128) * 2
    assert memory_needed(model, 1001) - memory_needed(model, 1) == 1000 * per_token


def test_sliding_layers_stop_growing() -> None:
    model = known("gpt-oss-20b")
    per_token = 12 * 8 * (64 + 64) * 2
    assert memory_needed(model, 129) - memory_needed(model, 128) == per_token
    assert memory_needed(model, 128) - memory_needed(model, 127) == 2 * per_token


def test_compressed_tokens_share_an_entry() -> None:
    kv = Kv(layers=1, kv_heads=1, key_dim=1, value_dim=0, every=4)
    assert [kv.size(context) for context in (1, 4, 5, 8)] == [2, 2, 4, 4]


def test_latent_attention_keeps_one_vector() -> None:
    model = known("deepseek-v3.1")
    assert memory_needed(model, 2) - memory_needed(model, 1) == 61 * (512 + 64) * 2


def test_memory_of_served_weights() -> None:
    model = known("qwen2.5-coder-7b")
    assert model.gguf is not None
    more = memory_needed(model, 1, model.served) - memory_needed(model, 1)
    assert more == model.served.size - model.gguf.size


def test_context_must_be_positive() -> None:
    for context in (0, -1):
        with pytest.raises(ValueError, match="context must be positive"):
            memory_needed(MODELS[0], context)


# -- find ----------------------------------------------------------------------------------------


def test_find_knows_names_hub_ids_and_files() -> None:
    for name in (
        "qwen2.5-coder-0.5b",
        "Qwen2.5-Coder-0.5B",
        " qwen2.5-coder-0.5b\n",
        "Qwen/Qwen2.5-Coder-0.5B-Instruct",
        "qwen/qwen2.5-coder-0.5b-instruct-gguf",
        "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
        "QWEN2.5-CODER-0.5B-INSTRUCT-Q4_K_M.GGUF",
        "some/where/qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
        r"C:\some\where\qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
    ):
        assert known(name).name == "qwen2.5-coder-0.5b", name


def test_find_knows_the_edition_to_serve() -> None:
    assert known("zai-org/GLM-4.6-FP8") is known("glm-4.6")


def test_find_knows_nothing_else() -> None:
    names = ("", "qwen2.5-coder", "Qwen/", "some/where/qwen2.5-coder-0.5b", "other.gguf")
    assert [name for name in names if find(name) is not None] == []


# -- recommend -----------------------------------------------------------------------------------


def test_choices_fit_with_room_to_spare() -> None:
    for row in RECOMMENDED:
        found = chosen(row.gib * GIB, row.kind)
        assert (found.fast.name, found.deep and found.deep.name) == (row.fast, row.deep), row
        assert found.needed <= SHARE[row.kind] * row.gib * GIB, row


def test_choices_are_sensible() -> None:
    for row in RECOMMENDED:
        fast = known(row.fast)
        assert fast.fim is not None, f"{row}: completion needs fill-in-the-middle"
        for model in [fast] + ([known(row.deep)] if row.deep else []):
            assert model.commercial, row
            assert not model.test_only, row
            assert not model.completion_only, f"{row}: both are asked to answer"
            assert row.served or model.gguf is not None, row
        if row.deep:
            deep = known(row.deep)
            assert deep.parameters > fast.parameters, row
            assert deep.context >= row.context, row
            assert deep.tool_form is not None, row


def test_choices_are_sorted_and_distinct() -> None:
    for kind in SHARE:
        sizes = [row.gib for row in RECOMMENDED if row.kind == kind]
        assert sizes == sorted(set(sizes))


@pytest.mark.parametrize(
    ("kind", "memory", "fast", "deep"),
    [
        ("cpu", 8, "qwen2.5-coder-0.5b", "qwen2.5-coder-1.5b"),
        ("cpu", 16, "qwen2.5-coder-1.5b", "qwen2.5-coder-7b"),
        ("cpu", 32, "qwen2.5-coder-1.5b", "qwen3-coder-30b-a3b"),
        ("apple", 16, "qwen2.5-coder-1.5b", "qwen2.5-coder-7b"),
        ("nvidia", 8, "qwen2.5-coder-7b", None),
        ("nvidia", 16, "qwen2.5-coder-1.5b", "qwen2.5-coder-14b"),
        ("nvidia", 24, "qwen2.5-coder-1.5b", "qwen3.8-27b"),
        ("nvidia", 640, "qwen3-coder-30b-a3b", "glm-5.3-flash"),
    ],
)
def test_recommend(kind: Kind, memory: int, fast: str, deep: str | None) -> None:
    # A machine reports somewhat less than its nominal memory.
    for reported in (memory * GIB, memory * GIB * 0.94):
        found = chosen(reported, kind)
        assert (found.fast.name, found.deep and found.deep.name) == (fast, deep)


def test_too_little_memory() -> None:
    too_little: list[tuple[Kind, int]] = [("cpu", 1), ("apple", 4), ("nvidia", 2)]
    for kind, memory in too_little:
        assert recommend(memory * GIB, kind) is None, kind


def test_more_than_the_largest() -> None:
    assert chosen(1 << 50, "cpu").deep is known("qwen3-coder-next")

"""Which form an edit has: by the model's size and the region's."""

from __future__ import annotations

import pytest

from vivace.edits.formats import INSTRUCTIONS, TABLE, ability_of, row_for
from vivace.models import MODELS, EditFormat


@pytest.mark.parametrize(
    ("model", "lines", "form"),
    [
        ("qwen2.5-coder-0.5b", 10, "region"),
        ("qwen2.5-coder-0.5b", 5000, "region"),
        ("Qwen/Qwen2.5-Coder-1.5B-Instruct", 5000, "region"),
        ("qwen3-coder-30b-a3b", 40, "region"),
        ("qwen3-coder-30b-a3b", 400, "search_replace"),
        ("some-unknown-70B-instruct", 400, "search_replace"),
        ("some-unknown-3b", 400, "region"),
        ("who-knows", 400, "region"),
    ],
)
def test_small_models_rewrite_and_large_ones_quote_in_large_files(
    model: str, lines: int, form: EditFormat
) -> None:
    assert row_for(model, lines).format == form


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("x-7b", "region"),
        ("x/Y-1.5B-it", "region"),
        ("tiny:135m", "region"),
        ("x-70B", "search_replace"),
        ("moe-30b-a3b", "search_replace"),
        ("v2.5-coder", "region"),
        ("gpt", "region"),
    ],
)
def test_an_unknown_model_is_judged_by_the_size_in_its_name(name: str, form: EditFormat) -> None:
    assert ability_of(name) == form


def test_every_model_we_know_does_in_large_files_what_our_table_trusts_it_with() -> None:
    assert all(row_for(model.name, 10_000).format == model.edit_format for model in MODELS)


def test_every_form_has_its_instructions() -> None:
    assert {row.format for row in TABLE} == set(INSTRUCTIONS)

"""Logits where old tokens are preferred; run with ``scripts/test-vllm --all``."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.support.vllm import needs_vllm

pytestmark = [pytest.mark.release, needs_vllm]


def best(
    logits: Sequence[Sequence[float]],
    drafted: Sequence[int] | None,
    preferred: dict[str, tuple[float, Sequence[int | None]]],
    names: Sequence[str] = ("a", "b"),
) -> list[int]:
    """The best token of each row, after what is preferred has its nats."""
    import torch

    from vivace.engines.vllm_lenient import _lift

    rows = torch.tensor(logits, dtype=torch.bfloat16)
    _lift(rows, names, drafted, preferred)
    found: list[int] = rows.argmax(dim=-1).tolist()
    return found


def test_a_token_wins_if_its_nats_bring_it_to_the_best() -> None:
    rows = [[20.0, 16.0, 0.0], [20.0, 15.875, 0.0]]
    assert best(rows, [1], {"a": (4.0, [1, 1])}, "a") == [1, 0]
    assert best(rows, [1], {"a": (4.125, [1, 1])}, "a") == [1, 1]


def test_what_bfloat16_cannot_tell_apart_decides_all_the_same() -> None:
    """At 200 it counts in whole numbers: with 3.9 added there, the 196 would be a 200 too."""
    assert best([[200.0, 196.0]], None, {"a": (3.9, [1])}, "a") == [0]


def test_every_request_has_its_own_rows() -> None:
    rows = [[1.0, 0.0, 0.0]] * 5
    assert best(rows, [1, 2], {"b": (4.0, [None, 2, 1])}) == [0, 0, 0, 2, 1]
    assert best(rows[:2], None, {"b": (4.0, [2])}) == [0, 2]


def test_what_a_grammar_forbids_is_not_preferred() -> None:
    assert best([[1.0, -float("inf")]], None, {"a": (10.0, [1])}, "a") == [0]


@pytest.mark.parametrize("names", ["a", "ab"])
def test_whoever_asks_for_nothing_has_the_same_logits(names: str) -> None:
    import torch

    from vivace.engines.vllm_lenient import _lift

    rows = torch.randn(4, 50, dtype=torch.bfloat16)
    before = rows.clone()
    _lift(rows, [*names, "c"], [0] * (len(names) + 1), {"c": (4.0, [7])})
    assert torch.equal(rows[: len(names)], before[: len(names)])

"""Lines that are cut for a benchmark, and where their typed part goes."""

from __future__ import annotations

import random
from typing import Any

import pytest
from bench.completion_quality import Cut, before, cut, difference, healed, last

TASK = {"prompt": "x = 1\n", "suffix": "print(y)\n", "canonical_solution": "y = some(x)\n"}


class Model:
    """Says one thing freely, and another where its beginning is enforced."""

    def __init__(self, free: str, forced: str = "") -> None:
        self.asked: list[dict[str, Any]] = []
        self._free, self._forced = free, forced

    def __call__(self, body: dict[str, Any]) -> str:
        self.asked.append(body)
        return self._forced if "starts_with" in body else self._free


def test_a_line_is_cut_inside_and_by_its_seed() -> None:
    cuts = {cut(TASK, random.Random(seed)).typed for seed in range(50)}
    assert len(cuts) > 5
    assert all("y = some(x)".startswith(typed) and 0 < len(typed) < 11 for typed in cuts)
    assert cut(TASK, random.Random(3)) == cut(TASK, random.Random(3))


def test_typed_text_goes_before_the_suffix_or_behind_it() -> None:
    gap = Cut(TASK, "y = so")
    for way, prompt, typed in ((before, "x = 1\ny = so", ""), (last, "x = 1\n", "y = so")):
        model = Model("me(x)")
        assert way(model, gap).line == "y = some(x)"
        assert model.asked[0]["prompt"] == prompt
        assert model.asked[0].get("typed", "") == typed
        assert model.asked[0]["suffix"] == "\nprint(y)\n"


@pytest.mark.parametrize(
    ("free", "forced", "line", "times"),
    [
        (" some(x)", "", "y = some(x)", 1),
        (" other(x)", " sole(x)", "y = sole(x)", 2),
        (" other(x)", " other(x)", "", 2),
    ],
)
def test_the_last_piece_is_the_models_to_write_and_enforced_if_it_does_not(
    free: str, forced: str, line: str, times: int
) -> None:
    model = Model(free, forced)
    found = healed(model, Cut(TASK, "y = so"))
    assert found.line == line
    assert len(model.asked) == times
    assert all(asked["typed"] == "y =" for asked in model.asked)


def test_the_difference_of_shares_is_of_the_same_tasks() -> None:
    middle, low, high = difference([True, True, False, True], [True, False, True, False])
    assert middle == pytest.approx(0.25)
    assert low < middle < high
    assert difference([True, False], [True, False]) == (0.0, 0.0, 0.0)

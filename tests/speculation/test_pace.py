"""How long drafts are: by what steps cost, by how drafts fared, by who shares the step."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vivace.speculation.pace import Pace

MOST = 64
chances = st.lists(st.floats(0.01, 0.995), max_size=20)


def measured(fixed: float, each: float) -> Pace:
    pace = Pace()
    for _ in range(50):
        for tokens in (1, 9, 17, 33, 65):
            pace.step(tokens, fixed + each * tokens)
    return pace


@given(chances, st.integers(0, 100), st.integers(0, 64), st.floats(0, 1), st.floats(0, 1))
def test_a_length_is_always_between_none_and_the_most(
    chances: list[float], others: int, most: int, fixed: float, each: float
) -> None:
    pace = Pace()
    pace.step(10, fixed + each * 10)
    lengths = pace.lengths(chances, others, most)
    assert len(lengths) == len(chances)
    assert all(0 <= length <= most for length in lengths)


@given(st.floats(0.001, 1), st.floats(0.0001, 0.01))
def test_costs_are_learnt(fixed: float, each: float) -> None:
    learnt = measured(fixed, each).cost()
    assert learnt[0] + learnt[1] * 33 == pytest.approx(fixed + each * 33, rel=0.1)


@given(st.lists(st.floats(0.01, 0.995), min_size=2, max_size=2))
def test_who_is_right_more_often_drafts_more(chances: list[float]) -> None:
    [low, high] = measured(0.1, 0.0015).lengths(sorted(chances), 0, MOST)
    assert low <= high


def best(pace: Pace, chance: float) -> float:
    """The most tokens a second that any one length reaches."""
    fixed, each = pace.cost()
    return max(rate(fixed, each, chance, length) for length in range(1, MOST + 1))


def rate(fixed: float, each: float, chance: float, length: int) -> float:
    return (1 - chance ** (length + 1)) / (1 - chance) / (fixed + each * (length + 1))


@given(st.floats(0.3, 0.99), st.floats(0.0001, 0.01))
def test_the_length_is_the_one_that_writes_fastest(chance: float, each: float) -> None:
    pace = measured(0.1, each)
    [length] = pace.lengths([chance], 0, MOST)
    assert rate(*pace.cost(), chance, length) >= 0.97 * best(pace, chance)


def test_a_token_that_costs_nothing_is_always_drafted() -> None:
    assert measured(0.02, 0.0).lengths([0.9], 0, MOST)[0] > 30


def test_the_more_share_a_step_the_shorter_the_drafts() -> None:
    pace = measured(0.1, 0.002)
    lengths = [pace.lengths([0.97] * many, 0, MOST)[0] for many in (1, 4, 16, 64)]
    assert lengths == sorted(lengths, reverse=True)
    assert lengths[-1] < lengths[0] / 3


def test_others_without_drafts_count_too() -> None:
    pace = measured(0.1, 0.002)
    assert pace.lengths([0.97], 60, MOST)[0] < pace.lengths([0.97], 0, MOST)[0]


def test_one_slow_step_does_not_overturn_what_was_learnt() -> None:
    pace = measured(0.1, 0.002)
    before = pace.cost()
    pace.step(65, 30.0)
    assert sum(pace.cost()) < 1.2 * sum(before)

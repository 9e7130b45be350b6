"""Of a fleet that keeps its promises every history holds; with one defect in it, none does."""

from __future__ import annotations

import copy
import random

import pytest
from chaos.invariants import check
from chaos.verdict import Word, judge
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests.chaos.defects import DEFECTS, Defect
from tests.chaos.model import history_of
from tests.support.examples import examples

pytestmark = pytest.mark.release  # test_invariants shows each of them in a few entries

_SEEDS = st.integers(0, 10**6)


@given(_SEEDS, st.integers(1, 5), st.integers(0, 4))
def test_nothing_is_wrong_with_a_fleet_that_keeps_its_promises(
    seed: int, clients: int, kills: int
) -> None:
    verdict = judge(history_of(seed, clients, kills))
    assert verdict.violations == []
    harmless = [doubt for doubt in verdict.doubts if "hit no open turn" in doubt]
    assert verdict.doubts in ([], harmless, ["no turn was accepted", *harmless])
    assert verdict.word is (Word.UNKNOWN if verdict.doubts else Word.HOLDS)


@pytest.mark.parametrize(
    ("invariant", "defect"),
    [(name, defect) for name, defects in DEFECTS.items() for defect in defects],
    ids=lambda value: value if isinstance(value, str) else value.__name__,
)
@settings(
    max_examples=examples(30),
    suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
)
@given(seed=_SEEDS, clients=st.integers(2, 4), kills=st.integers(0, 2))
def test_a_defect_is_found_wherever_it_is(
    invariant: str, defect: Defect, seed: int, clients: int, kills: int
) -> None:
    history = copy.deepcopy(history_of(seed, clients, kills))
    assume(defect(history, random.Random(seed)))
    assert invariant in {violation.invariant for violation in check(history)}

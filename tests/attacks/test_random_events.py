"""Rounds of ``scripts/fuzz``: whatever clients do at once, every invariant holds."""

from __future__ import annotations

import secrets
from pathlib import Path

import pytest
from chaos.rounds import Outcome

from chaos import fuzz


def check(outcome: Outcome, least: int) -> None:
    """A round in which nothing happened would prove nothing."""
    assert outcome.held, fuzz.told(outcome)
    for kind in ("sent response.create", "saw response.completed", "saw response.steer.accepted"):
        assert outcome.totals[kind] >= least, fuzz.told(outcome)


def test_random_events_break_no_invariant(tmp_path: Path) -> None:
    check(fuzz.run(tmp_path, rounds=1, seed=14), 1)


@pytest.mark.release
@pytest.mark.parametrize(
    "dawdling", [False, True], ids=["in one process", "with ports that dawdle"]
)
def test_many_random_events_break_no_invariant(tmp_path: Path, *, dawdling: bool) -> None:
    seed = secrets.randbelow(10**6)
    check(fuzz.run(tmp_path, seconds=15, seed=seed, dawdling=dawdling), 6)

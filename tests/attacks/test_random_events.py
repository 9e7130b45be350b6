"""Half a minute of ``scripts/fuzz``: whatever clients do at once, every invariant holds."""

from __future__ import annotations

import secrets
from pathlib import Path

import pytest

from chaos import fuzz


@pytest.mark.parametrize(
    "dawdling", [False, True], ids=["in one process", "with ports that dawdle"]
)
def test_random_events_break_no_invariant(tmp_path: Path, *, dawdling: bool) -> None:
    seed = secrets.randbelow(10**6)
    outcome = fuzz.run(tmp_path, seconds=15, seed=seed, dawdling=dawdling)
    assert outcome.held, fuzz.told(outcome)
    # A round in which nothing happened would prove nothing.
    for kind in ("sent response.create", "saw response.completed", "saw response.steer.accepted"):
        assert outcome.totals[kind] > 5, fuzz.told(outcome)

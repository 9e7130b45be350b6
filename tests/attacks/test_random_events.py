"""Half a minute of ``scripts/fuzz``: whatever clients do at once, every invariant holds."""

from __future__ import annotations

import secrets
from pathlib import Path

from chaos import fuzz


def test_random_events_break_no_invariant(tmp_path: Path) -> None:
    outcome = fuzz.run(tmp_path, seconds=30, seed=secrets.randbelow(10**6))
    assert outcome.held, fuzz.told(outcome)
    # A round in which nothing happened would prove nothing.
    for kind in ("sent response.create", "saw response.completed", "saw response.steer.accepted"):
        assert outcome.totals[kind] > 5, fuzz.told(outcome)

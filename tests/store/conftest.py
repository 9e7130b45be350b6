from __future__ import annotations

import pytest

from tests.support.waiting import PATIENCE_S
from vivace.store import sqlite

LONG_S = 0.75 * PATIENCE_S
"""How long a busy machine may take for a write: less than a test may."""


@pytest.fixture(autouse=True)
def _prune_without_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "_LONGEST_PAUSE", 0.0)


@pytest.fixture
def patient_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep connections to PostgreSQL from giving up because the machine is busy."""
    from vivace.store import connections  # its driver is for some of these tests alone

    for name in ("_PATIENCE", "_IN_TROUBLE", "_TRY", "_AT_FIRST"):
        monkeypatch.setattr(connections, name, LONG_S)

from __future__ import annotations

import pytest

from vivace.store import sqlite


@pytest.fixture(autouse=True)
def _prune_without_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "_LONGEST_PAUSE", 0.0)

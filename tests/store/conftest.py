from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from vivace.store import sqlite

if TYPE_CHECKING:
    from tests.support.postgres import Postgres


@pytest.fixture(autouse=True)
def _prune_without_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "_LONGEST_PAUSE", 0.0)


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    from tests.support.postgres import Postgres  # needs what may not be installed

    server = Postgres()
    yield server
    server.stop()

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.valkey import Valkey


@pytest.fixture(scope="session")
def server() -> Iterator[Valkey]:
    started = Valkey()
    yield started
    started.stop()


@pytest.fixture
def valkey(server: Valkey) -> Iterator[Valkey]:
    """Empty, and running again after whatever a test did to it."""
    server.restore()
    yield server
    server.restore()

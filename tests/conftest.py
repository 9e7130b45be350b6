from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.server import RunningGateway


@pytest.fixture
def gateway() -> Iterator[RunningGateway]:
    """A gateway whose scripted engine can be given replies by ``gateway.engine.play``."""
    with RunningGateway() as running:
        yield running

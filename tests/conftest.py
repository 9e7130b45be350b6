from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import settings

from tests.support.server import RunningGateway

# How long an example takes depends on the machine, and says nothing about the code.
settings.register_profile("vivace", deadline=None)
settings.load_profile("vivace")


@pytest.fixture
def gateway() -> Iterator[RunningGateway]:
    """A gateway whose scripted engine can be given replies by ``gateway.engine.play``."""
    with RunningGateway() as running:
        yield running

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest
from hypothesis import settings

from tests.support.server import RunningGateway

# How long an example takes depends on the machine, and says nothing about the code.
settings.register_profile("vivace", deadline=None)
settings.load_profile("vivace")

# What is started in the background of a shell ignores Ctrl-C, and so would all that tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def gateway() -> Iterator[RunningGateway]:
    """A gateway whose scripted engine can be given replies by ``gateway.engine.play``."""
    with RunningGateway() as running:
        yield running

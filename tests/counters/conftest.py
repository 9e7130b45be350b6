from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.counters.gateways import Clock
from tests.support.valkey import Valkey
from tests.support.waiting import PATIENCE_S
from vivace.counters.line import Line


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


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine makes no answer of Valkey's late; that is for tests that freeze it."""
    assert Line.__init__.__kwdefaults__ is not None
    monkeypatch.setitem(Line.__init__.__kwdefaults__, "in_time", PATIENCE_S)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The time of all gateways of a test; give it to ``gateway``, too, for that of Valkey."""
    made = Clock()
    for module in ("local", "valkey"):
        monkeypatch.setattr(f"vivace.counters.{module}.time", made)
    return made

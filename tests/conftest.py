from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from tests.support.examples import register_profiles
from tests.support.server import RunningGateway

if TYPE_CHECKING:
    from tests.support.postgres import Postgres

register_profiles()

# What is started in the background of a shell ignores Ctrl-C, and so would all that tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)

_TESTS = Path(__file__).parent
_TOGETHER = {
    *("bench", "chaos", "cli", "client", "completion", "conversation", "desk", "download", "edits"),
    *("engines", "failures", "findings", "gateway", "link", "lsp", "mcp", "protocol", "scheduling"),
    *("speculation", "store", "syntax", "workspace"),
}
"""Folders whose tests get on with others that run at the same time. What measures memory or speed,
or starts a real engine, agent or editor, wants the machine to itself."""


@pytest.hookimpl(tryfirst=True)  # before -m chooses
def pytest_collection_modifyitems(items: Sequence[pytest.Item]) -> None:
    for item in items:
        folder, *below = item.path.relative_to(_TESTS).parts
        if (below and folder not in _TOGETHER) or item.get_closest_marker("flaky"):
            item.add_marker(pytest.mark.alone)


@pytest.hookimpl(trylast=True)  # others look into what they reported
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """The summary of the second part of a run (scripts/test) counts the tests of the first too."""
    first = os.environ.get("FIRST_PART")
    if first is None or hasattr(terminalreporter.config, "workerinput"):
        return
    stats, counts = terminalreporter.stats, Path(first)
    if counts.exists():
        for outcome, count in json.loads(counts.read_text()).items():
            stats.setdefault(outcome, []).extend([SimpleNamespace()] * count)
    else:
        told = ("passed", "skipped", "xfailed", "rerun")
        counts.write_text(json.dumps({each: len(stats.get(each, ())) for each in told}))


@pytest.fixture
def gateway() -> Iterator[RunningGateway]:
    """A gateway whose scripted engine can be given replies by ``gateway.engine.play``."""
    with RunningGateway() as running:
        yield running


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A real server, started when the first test wants it."""
    from tests.support.postgres import Postgres  # its driver is for those tests alone

    server = Postgres()
    yield server
    server.stop()

"""Choose which tests run, and provide the servers that many of them share.

Two suites. A change needs the per-change suite (``scripts/test``). Tests marked ``release`` run
only with ``--all``, or when they are named by their node id. The docstring of each folder's
``__init__.py`` says which suite the folder belongs to and why; one of the per-change suite can have
modules and tests that are marked ``release``.
"""

from __future__ import annotations

import functools
import itertools
import json
import os
import re
import signal
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from tests.support.examples import load_profile
from tests.support.server import RunningGateway

if TYPE_CHECKING:
    from tests.support.postgres import Postgres

# What is started in the background of a shell ignores Ctrl-C, and so would all that tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)

_TESTS = Path(__file__).parent
_SUITE = re.compile(r'"""Suite: (change|release)\. ')
_RELEASE_MODULE = re.compile(r"^pytestmark = .*\bmark\.release\b", re.MULTILINE)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--all", action="store_true", help="also the tests that protect a release")


def pytest_configure(config: pytest.Config) -> None:
    load_profile(config.getoption("--hypothesis-profile"), release=config.getoption("--all"))


def _folder_suite(path: Path) -> str | None:
    """Return the suite of the folder of tests that ``path`` is in; None right below ``tests``."""
    folder = path.relative_to(_TESTS).parts[0]
    return _suite_of(_TESTS / folder) if (_TESTS / folder).is_dir() else None


@functools.cache
def _suite_of(folder: Path) -> str:
    named = _SUITE.match((folder / "__init__.py").read_text())
    if named is None:
        raise pytest.UsageError(f'{folder}/__init__.py: a docstring begins "Suite: change. Why"')
    return named[1]


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not even import what is not going to run: collecting everything takes 20 seconds."""
    if not collection_path.is_relative_to(_TESTS) or any("::" in word for word in config.args):
        return None
    if collection_path.suffix != ".py":
        return None
    text = collection_path.read_text()
    if config.option.markexpr == "alone" and "mark.alone" not in text:
        return True
    only_of_a_release = _RELEASE_MODULE.search(text) or _folder_suite(collection_path) == "release"
    return True if only_of_a_release and not config.getoption("--all") else None


@pytest.hookimpl(tryfirst=True)  # before -m chooses
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if _folder_suite(item.path) == "release":
            item.add_marker(pytest.mark.release)
    if config.getoption("--all") or any("::" in word for word in config.args):
        return
    left_out = [item for item in items if item.get_closest_marker("release")]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not item.get_closest_marker("release")]


@pytest.hookimpl(trylast=True)  # others look into what they reported
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Add the counts of the first part of a run to those of the second, and name the slowest tests
    of both (``scripts/test``)."""
    first = os.environ.get("FIRST_PART")
    if first is None or hasattr(terminalreporter.config, "workerinput"):
        return
    stats, kept = terminalreporter.stats, Path(first)
    seconds = _seconds_by_test(stats)
    if not kept.exists():
        counted = ("passed", "skipped", "xfailed")
        counts = {each: len(stats.get(each, ())) for each in counted}
        kept.write_text(json.dumps({"counts": counts, "seconds": seconds}))
        return
    before = json.loads(kept.read_text())
    for outcome, count in before["counts"].items():
        stats.setdefault(outcome, []).extend([SimpleNamespace()] * count)
    seconds |= before["seconds"]
    terminalreporter.section("slowest tests")
    for test in sorted(seconds, key=seconds.__getitem__, reverse=True)[:10]:
        terminalreporter.write_line(f"{seconds[test]:6.1f} s  {test}")


def _seconds_by_test(stats: Mapping[str, Sequence[object]]) -> dict[str, float]:
    """Sum the times of each test's set-up, call and tear-down."""
    seconds: dict[str, float] = {}
    for report in itertools.chain.from_iterable(stats.values()):
        if isinstance(report, pytest.TestReport):
            seconds[report.nodeid] = seconds.get(report.nodeid, 0) + report.duration
    return seconds


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

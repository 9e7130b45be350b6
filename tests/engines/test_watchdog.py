"""What a process that is killed leaves behind ends, too."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.support.process import alive
from tests.support.waiting import eventually

_PARENT = """
import subprocess, sys, time
from vivace.engines.watchdog import Watchdog

child = subprocess.Popen([sys.executable, "-c", sys.argv[1]], stdout=subprocess.PIPE)
child.stdout.readline()
watchdog = Watchdog()
watchdog.guard([child.pid])
watchdog.guard([child.pid])
if sys.argv[2] == "closes":
    watchdog.close()
print(child.pid, watchdog._process.pid, flush=True)
time.sleep(60)
"""
_OBEDIENT = "import time; print('here', flush=True); time.sleep(60)"
_STUBBORN = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {_OBEDIENT}"


class Family:
    def __init__(self, folder: Path, child: str = _OBEDIENT, then: str = "stays") -> None:
        program = folder / "parent.py"
        program.write_text(_PARENT)
        self.parent = subprocess.Popen(
            [sys.executable, program, child, then], stdout=subprocess.PIPE
        )
        assert self.parent.stdout is not None
        child_pid, watchdog_pid = map(int, self.parent.stdout.readline().split())
        self.child = psutil.Process(child_pid)
        watches = psutil.pid_exists(watchdog_pid)
        self.watchdog = psutil.Process(watchdog_pid) if watches else None

    def end(self) -> None:
        self.parent.kill()
        self.parent.wait()


def test_what_is_guarded_ends_with_its_parent_and_so_does_the_watchdog(tmp_path: Path) -> None:
    family = Family(tmp_path)
    assert alive(family.child)
    family.end()
    eventually(lambda: not alive(family.child))
    assert family.watchdog is not None
    eventually(lambda: not alive(family.watchdog))  # type: ignore[arg-type]


def test_what_does_not_listen_is_killed(tmp_path: Path) -> None:
    family = Family(tmp_path, _STUBBORN)
    family.end()
    eventually(lambda: not alive(family.child))


def test_it_ends_what_it_guards_though_its_pipe_is_held_open_by_another(tmp_path: Path) -> None:
    family = Family(tmp_path)
    holder = os.open(f"/proc/{family.parent.pid}/fd/{_pipe(family)}", os.O_WRONLY)
    try:
        family.end()
        eventually(lambda: not alive(family.child))
    finally:
        os.close(holder)


def _pipe(family: Family) -> int:
    """Which of the parent's files is the watchdog's standard input."""
    assert family.watchdog is not None
    there = Path(f"/proc/{family.watchdog.pid}/fd/0").readlink()
    folder = Path(f"/proc/{family.parent.pid}/fd")
    return next(int(each.name) for each in folder.iterdir() if each.readlink() == there)


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_who_ends_it_ends_nothing_else(tmp_path: Path, how: signal.Signals) -> None:
    family = Family(tmp_path)
    try:
        assert family.watchdog is not None
        family.watchdog.send_signal(how)
        eventually(lambda: not alive(family.watchdog))  # type: ignore[arg-type]
        assert alive(family.child)
    finally:
        family.child.kill()
        family.end()


def test_what_is_not_guarded_any_more_lives_on(tmp_path: Path) -> None:
    family = Family(tmp_path, then="closes")
    family.end()
    try:
        assert family.watchdog is None, "nothing is left that could end it"
        assert alive(family.child)
    finally:
        family.child.kill()

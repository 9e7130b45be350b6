"""The person's own command."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.support.waiting import eventually
from vivace.desk.checking import run_check


def test_the_end_of_what_it_says_is_kept_and_all_of_it_is_shown(tmp_path: Path) -> None:
    shown: list[bytes] = []
    command = "pwd; seq 1 5000; echo the reason >&2; exit 7"
    checked = asyncio.run(run_check(command, tmp_path, shown.append))
    assert (checked.status, checked.passed) == (7, False)
    assert checked.tail.endswith("5000\nthe reason\n")
    assert len(checked.tail) == 4096
    assert b"".join(shown).startswith(str(tmp_path).encode())


@pytest.mark.parametrize("early", [True, False], ids=["half started", "running"])
def test_a_cancelled_check_takes_its_children_with_it(
    tmp_path: Path, early: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def runs() -> bool:
        return (tmp_path / "child").exists() and (tmp_path / "child").read_text() != ""

    shown: list[bytes] = []
    begin = subprocess.Popen.__init__

    def begun(self: object, *arguments: Any, **options: Any) -> None:
        begin(self, *arguments, **options)  # type: ignore[call-overload]
        eventually(runs)  # the loop does not hear before that the process has started

    async def cancelled() -> None:
        command = "sleep 3600 & echo $! > child; echo begun; wait"
        task = asyncio.create_task(run_check(command, tmp_path, shown.append))
        while not runs() if early else not shown:
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    if early:
        monkeypatch.setattr(subprocess.Popen, "__init__", begun)
    asyncio.run(cancelled())
    child = int((tmp_path / "child").read_text())

    def gone() -> bool:
        try:
            return psutil.Process(child).status() == psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return True

    eventually(gone)


def test_a_cancelled_check_does_not_wait_for_what_left_its_session(tmp_path: Path) -> None:
    """A daemon that it started has its output open for ever."""
    leave = "import os, time; os.setsid(); open('daemon', 'w').write(str(os.getpid())); "
    leave += "print('gone', flush=True); time.sleep(3600)"
    shown: list[bytes] = []

    async def cancelled() -> None:
        command = f'{sys.executable} -c "{leave}" & sleep 3600'
        task = asyncio.create_task(run_check(command, tmp_path, shown.append))
        while not shown:
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    try:
        asyncio.run(cancelled())
    finally:
        os.kill(int((tmp_path / "daemon").read_text()), signal.SIGKILL)

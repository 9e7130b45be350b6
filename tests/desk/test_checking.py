"""The person's own command."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

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
def test_a_cancelled_check_takes_its_children_with_it(tmp_path: Path, early: bool) -> None:
    async def cancelled() -> None:
        command = "sleep 3600 & echo $! > child; wait"
        task = asyncio.create_task(run_check(command, tmp_path, lambda _: None))
        while not (tmp_path / "child").exists() or not (tmp_path / "child").read_text():
            if early:
                time.sleep(0.01)  # the loop does not hear yet that it has started
                await asyncio.sleep(0)
            else:
                await asyncio.sleep(0.1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())
    child = int((tmp_path / "child").read_text())

    def gone() -> bool:
        try:
            return psutil.Process(child).status() == psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return True

    eventually(gone)

"""Work in a thread gives way to others sooner than usual, and only while it runs."""

from __future__ import annotations

import asyncio
import sys
import threading

import pytest

from vivace.threads import giving_way, in_thread


def test_the_switch_interval_is_short_while_any_work_runs() -> None:
    usual = sys.getswitchinterval()
    first, second = threading.Event(), threading.Event()
    both_run = threading.Barrier(2)

    def work(ends: threading.Event) -> float:
        both_run.wait()
        ends.wait()
        return sys.getswitchinterval()

    async def run() -> None:
        both = [asyncio.create_task(in_thread(work, each)) for each in (first, second)]
        first.set()
        assert await both[0] < usual
        assert sys.getswitchinterval() < usual
        second.set()
        assert await both[1] < usual
        assert sys.getswitchinterval() == usual

    asyncio.run(run())


def test_the_switch_interval_is_as_before_when_work_fails() -> None:
    usual = sys.getswitchinterval()
    with pytest.raises(ZeroDivisionError):
        giving_way(lambda: 1 / 0)
    assert sys.getswitchinterval() == usual

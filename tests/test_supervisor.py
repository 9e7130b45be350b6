"""Long-lived tasks live on: what fails is told, started again, and shown while it is down."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

import pytest

from tests.support import virtual_time
from tests.support.waiting import eventually_async
from vivace.supervisor import Supervisor

SECRET = "def secret_of_a_prompt(): ..."


def supervised(check: Callable[[Supervisor], Awaitable[None]], **pauses: float) -> None:
    async def whole() -> None:
        supervisor = Supervisor(**{"first": 0.001, "longest": 0.002} | pauses)
        try:
            await check(supervisor)
        finally:
            await supervisor.stop()

    asyncio.run(whole())


class Task:
    """Fails on its first runs, then goes on for ever."""

    def __init__(self, failures: int, error: BaseException | None = None) -> None:
        self.failures = failures
        self.error = error or RuntimeError(SECRET)
        self.runs = 0
        self.running = False

    async def __call__(self) -> None:
        self.runs += 1
        if self.runs <= self.failures:
            raise self.error
        self.running = True
        try:
            await asyncio.Event().wait()
        finally:
            self.running = False


@pytest.mark.parametrize("error", [RuntimeError(SECRET), asyncio.CancelledError()])
def test_a_task_that_fails_is_started_again(error: BaseException) -> None:
    task = Task(3, error)

    async def check(supervisor: Supervisor) -> None:
        supervisor.watch("task", task)
        await eventually_async(lambda: task.running)
        assert supervisor.watched["task"].restarts == 3
        assert supervisor.down() == []

    supervised(check)


def test_a_task_is_down_while_it_waits_to_start_again() -> None:
    async def check(supervisor: Supervisor) -> None:
        supervisor.watch("broken", Task(1))
        supervisor.watch("sound", Task(0))
        await eventually_async(lambda: supervisor.down() == ["broken"])

    supervised(check, first=60, longest=60)


def test_a_pause_grows_to_its_bound_and_is_short_again_after_a_good_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pauses: list[float] = []
    clock = 0.0
    sleep = asyncio.sleep

    async def note(seconds: float) -> None:
        pauses.append(seconds)
        await sleep(0)

    async def fail() -> None:
        nonlocal clock
        if len(pauses) == 5:
            clock += 100  # this run went well
        if len(pauses) == 7:
            await asyncio.Event().wait()
        raise RuntimeError(SECRET)

    async def check(supervisor: Supervisor) -> None:
        monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: clock)
        monkeypatch.setattr(asyncio, "sleep", note)
        supervisor.watch("task", fail)
        while len(pauses) < 7:
            await sleep(0)

    supervised(check, first=1, longest=5, well=60)
    assert pauses == [1, 2, 4, 5, 5, 1, 2]


def test_a_task_that_returns_is_over_and_not_down() -> None:
    async def brief() -> None:
        await asyncio.sleep(0)

    async def check(supervisor: Supervisor) -> None:
        await supervisor.watch("task", brief)
        assert supervisor.down() == []
        assert supervisor.watched["task"].restarts == 0

    supervised(check)


def test_stopping_ends_all_and_waits_for_them() -> None:
    tasks = [Task(0), Task(1)]

    async def check(supervisor: Supervisor) -> None:
        for number, task in enumerate(tasks):
            supervisor.watch(str(number), task)
        await eventually_async(lambda: all(task.running for task in tasks))
        await supervisor.stop()
        assert not any(task.running for task in tasks)

    supervised(check)


@pytest.mark.parametrize("fails", [True, False], ids=["fails instead", "goes on"])
def test_stop_ends_a_task_that_drops_its_cancellation(fails: bool) -> None:
    runs = 0

    async def drops_its_first_cancellation() -> None:
        nonlocal runs
        runs += 1
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            if fails:
                raise ConnectionError from None
            await asyncio.Event().wait()

    async def check() -> None:
        supervisor = Supervisor()
        task = supervisor.watch("task", drops_its_first_cancellation)
        await asyncio.sleep(0)
        await supervisor.stop()
        assert task.done()
        assert runs == 1

    virtual_time.run(check())


def test_a_task_can_be_ended_alone_and_its_name_used_again() -> None:
    first, second = Task(0), Task(0)

    async def check(supervisor: Supervisor) -> None:
        watching = supervisor.watch("task", first)
        await eventually_async(lambda: first.running)
        with pytest.raises(ValueError, match="task"):
            supervisor.watch("task", second)
        watching.cancel()
        await eventually_async(lambda: watching.done())
        supervisor.watch("task", second)
        await eventually_async(lambda: second.running and not first.running)

    supervised(check)


def test_the_log_says_what_and_where_and_never_the_message(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def check(supervisor: Supervisor) -> None:
        supervisor.watch("watching-keys", Task(1))
        await eventually_async(lambda: supervisor.watched["watching-keys"].restarts == 1)

    with caplog.at_level(logging.DEBUG):
        supervised(check)
    assert SECRET not in caplog.text
    assert "watching-keys" in caplog.text
    assert "RuntimeError at test_supervisor.py:" in caplog.text

"""One supervisor for every task that lives as long as the process.

    supervisor = Supervisor()
    supervisor.watch("pruning", self._prune)    # any function that makes a fresh coroutine
    supervisor.down()                           # -> ["pruning"] while it waits to start again
    await supervisor.stop()                     # cancels all and waits for them

A task that fails is logged and started again, after a pause that doubles with each failure up to a
bound and is short again once the task ran well. A task that returns meant to, and is over. The log
names the kind of error and the place in the code, never its message, which may carry a prompt.

Whoever holds the supervisor tells others: ``/readyz`` is not ready while a task is down, and
``/metrics`` shows each as ``vivace_task_up`` and ``vivace_task_restarts_total``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from vivace.logs import place_of

__all__ = ["Supervisor", "Watched"]

log = logging.getLogger("vivace.supervisor")

Work = Callable[[], Coroutine[Any, Any, None]]
_CANCEL_INTERVAL_S = 5.0
"""Long enough for what a cancelled task still has to put in order."""


class Watched:
    """How one task fares."""

    __slots__ = ("restarts", "task", "up")

    def __init__(self) -> None:
        self.up = True
        """False from a failure until it is started again."""
        self.restarts = 0
        self.task: asyncio.Task[None] | None = None


class Supervisor:
    def __init__(self, *, first: float = 0.25, longest: float = 30.0, well: float = 60.0) -> None:
        """Pauses in seconds, from ``first`` to ``longest``; ``well`` is how long a good run is."""
        self._first = first
        self._longest = longest
        self._well = well
        self._watched: dict[str, Watched] = {}

    @property
    def watched(self) -> Mapping[str, Watched]:
        return self._watched

    def watch(self, name: str, work: Work) -> asyncio.Task[None]:
        """Run ``work`` until ``stop``. To end this one alone, cancel the task that is returned, or
        ``end`` it to have it forgotten, too."""
        known = self._watched.get(name)
        if known is not None and known.task is not None and not known.task.done():
            raise ValueError(f"a task named {name!r} is being watched already")
        watched = self._watched[name] = Watched()
        watched.task = asyncio.create_task(self._keep(name, work, watched), name=name)
        return watched.task

    def end(self, name: str) -> None:
        """Cancel a task and forget it: metrics do not show it any more, and another may have its
        name at once."""
        watched = self._watched.pop(name)
        if watched.task is not None:
            watched.task.cancel()

    def down(self) -> list[str]:
        """The tasks that failed and wait to be started again."""
        return [name for name, watched in self._watched.items() if not watched.up]

    async def stop(self) -> None:
        """Cancel all tasks and wait for them.

        Those that go on are cancelled again: in Python 3.11 ``TaskGroup`` and ``wait_for`` can drop
        a cancellation, and the process would never end.
        """
        tasks = {watched.task for watched in self._watched.values() if watched.task is not None}
        running = tasks
        while running:
            for task in running:
                task.cancel()
            _, running = await asyncio.wait(running, timeout=_CANCEL_INTERVAL_S)
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _keep(self, name: str, work: Work, watched: Watched) -> None:
        clock = asyncio.get_running_loop().time
        pause = self._first
        try:
            while True:
                began = clock()
                error = await _failure_of(work)
                if error is None or _is_cancelled():
                    return
                if clock() - began >= self._well:
                    pause = self._first
                watched.up = False
                log.error(
                    "task %s failed with %s; again in %g s", name, place_of(error), round(pause, 2)
                )
                await asyncio.sleep(pause)
                pause = min(pause * 2, self._longest)
                watched.restarts += 1
                watched.up = True
        finally:
            watched.up = True  # ended on purpose is not down


async def _failure_of(work: Work) -> BaseException | None:
    """Run it once and return its error; only a cancellation of the task itself is raised."""
    try:
        await work()
    except asyncio.CancelledError as error:
        if _is_cancelled():
            raise
        return error  # something it waited for was cancelled, not the task
    except Exception as error:  # noqa: BLE001 - whatever it is, the task must live on
        return error
    return None


def _is_cancelled() -> bool:
    """Return whether the running task was cancelled, though another error may have come of it."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0

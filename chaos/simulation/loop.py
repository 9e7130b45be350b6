"""An event loop whose time is made up: it passes when nobody has anything to do, and at no cost.

What runs belongs to a *life*, a run of a gateway, or to nobody. A life that ends takes everything
with it that it had begun, as ``kill -9`` does: none of its steps is taken any more. One that is
frozen takes its steps later.
"""

from __future__ import annotations

import asyncio
import heapq
import warnings
from collections import deque
from collections.abc import Callable
from contextvars import Context, ContextVar
from typing import Any, TypeVar

__all__ = ["Life", "VirtualLoop", "in_life"]

T = TypeVar("T")

_MOST_STEPS = 400_000
"""Of one loop: who takes more runs in a circle."""


class Life:
    """A run of a gateway, as far as its end goes."""

    def __init__(self, name: str, ended: Callable[[Life], None]) -> None:
        self.name = name
        self.over = False
        self.frozen = False
        self.held: list[asyncio.Handle] = []
        """Steps that are taken when it is thawed."""
        self.fuse = 0
        """After so many steps, or effects within a step, it ends; 0: not by itself."""
        self.writes = 0
        """With so manieth question to its store it ends; 0: not by that."""
        self._ended = ended

    def effect(self) -> bool:
        """Something of it is about to be felt outside; False when it did not come to that."""
        if self.fuse:
            self.fuse -= 1
            if not self.fuse:
                self.end()
        return not self.over

    def is_last_write(self) -> bool:
        if not self.writes or self.frozen:
            return False
        self.writes -= 1
        return not self.writes

    def end(self) -> None:
        if not self.over:
            self.over = True
            self.held.clear()
            self._ended(self)


_life: ContextVar[Life | None] = ContextVar("life", default=None)


def in_life(life: Life | None) -> Context:
    """Where all that is begun is this life's."""
    context = Context()
    context.run(_life.set, life)
    return context


class VirtualLoop(asyncio.BaseEventLoop):
    _ready: deque[asyncio.Handle]
    _scheduled: list[asyncio.TimerHandle]

    def __init__(self) -> None:
        super().__init__()
        self._now = 0.0
        self._steps = 0
        self._tasks: list[asyncio.Task[Any]] = []
        self.set_task_factory(self._make)

    def _make(self, loop: Any, work: Any, context: Context | None = None) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = asyncio.Task(work, loop=self, context=context)
        self._tasks.append(task)  # what is dropped in mid-life is not to be collected meanwhile
        return task

    def time(self) -> float:
        return self._now

    def thaw(self, life: Life) -> None:
        life.frozen = False
        self._ready.extend(life.held)
        life.held.clear()

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Callable[..., T], *args: Any
    ) -> asyncio.Future[T]:
        """Threads know no seed: what would go to one is done at once."""
        done: asyncio.Future[T] = self.create_future()
        try:
            done.set_result(func(*args))
        except Exception as error:  # noqa: BLE001 - it is whoever waits who is told
            done.set_exception(error)
        return done

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Of lives that ended nobody wants to know what they had left to do."""

    def _run_once(self) -> None:
        ready, timers = self._ready, self._scheduled
        while not ready:
            if not timers:
                raise RuntimeError("everybody waits, and nothing will happen any more")
            timer: Any = heapq.heappop(timers)
            timer._scheduled = False
            if not timer._cancelled:
                self._now = max(self._now, timer._when)
                ready.append(timer)
        self._steps += len(ready)
        if self._steps > _MOST_STEPS:
            raise RuntimeError(f"after {self._steps} steps it has not come to an end")
        for _ in range(len(ready)):
            handle: Any = ready.popleft()
            if not handle._cancelled:
                life = handle._context.get(_life)
                if life is None or self._may_run(handle, life):
                    handle._run()

    def _may_run(self, handle: asyncio.Handle, life: Life) -> bool:
        if life.over:
            return False
        if life.frozen:
            life.held.append(handle)
            return False
        return life.effect()

    # -- what a loop must have and this one does not need ----------------------------------------

    def _write_to_self(self) -> None:
        pass

    def _process_events(self, event_list: Any) -> None:
        pass

    def _timer_handle_cancelled(self, handle: Any) -> None:
        pass

    def close(self) -> None:
        """Whatever is left ends without a word; by now nothing of it can be felt."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of what was begun and never came to run
            for task in self._tasks:
                task._log_destroy_pending = False  # type: ignore[attr-defined]
                if not task.done():
                    _put_out(task.get_coro())
        self._tasks.clear()
        self._ready.clear()
        self._scheduled.clear()
        super().close()


def _put_out(work: Any) -> None:
    for _ in range(20):
        try:
            work.close()
        except RuntimeError:  # it waits once more in its last words
            continue
        except BaseException:  # noqa: BLE001 - those of somebody who is gone
            return
        return

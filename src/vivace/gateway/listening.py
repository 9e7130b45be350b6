"""Listens whether engines that have work do any; what they do not, goes on elsewhere."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import aclosing, contextmanager, suppress
from functools import partial

from vivace.engines.base import Chat, Engine, Sampling, Work
from vivace.errors import EngineDrained, EngineError, EngineSilent
from vivace.gateway.attempts import Attempts
from vivace.gateway.meter import Meter
from vivace.gateway.runs import Run
from vivace.protocol.items import Message
from vivace.scheduling.silence import Reader, Silence

__all__ = ["Listening"]

log = logging.getLogger("vivace.engines")

_LOOK = 0.25
"""Seconds between two looks at the engines."""
_ASK_AGAIN = 1.0
"""Seconds after which a silent engine is asked again that would not answer."""


class _Listener:
    """A turn that reads an engine."""

    def __init__(self, engine: str, run: Run, attempts: Attempts, meter: Meter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.engine = engine
        self.run = run
        self.begun = False
        """Whether the engine works on it; one that others ask, too, may have it wait first."""
        self.leaves: EngineError | None = None
        """Why it leaves its engine, once it does."""
        self._attempts = attempts
        self._meter = meter
        self._task = task

    @property
    def waits(self) -> bool:
        """Whether it waits for its engine, and not for a client that takes its time."""
        return not self.run.unsent and self._meter.tally is not None

    def reader(self) -> Reader:
        tally = self._meter.tally
        assert tally is not None
        unread = (tally.input or self._attempts.estimate) - tally.cached
        return Reader(tally.steps, max(0, unread), tally.output > 0)

    def leave(self, why: EngineError) -> bool:
        """Give up the engine, if another could go on."""
        if self.leaves is not None or self.run.stopping is not None:
            return False
        if not self._attempts.could_move(dies=not isinstance(why, EngineDrained)):
            return False
        self.leaves = why
        return self._task.cancel()


class Listening:
    def __init__(self, engines: Mapping[str, Engine], seconds: Mapping[str, float]) -> None:
        """``seconds`` of silence after which an engine counts as dead; who is not named may be
        silent as long as its own time limits let it."""
        self._engines = engines
        self._names = dict.fromkeys(seconds)
        self._leaving: set[str] = set()
        """Of these, the ones that are heard only until those who read them have ended."""
        self._silence = Silence(seconds)
        self._listeners: dict[str, _Listener] = {}
        self._asking: dict[str, asyncio.Task[None]] = {}

    def join(self, engine: str, seconds: float | None) -> None:
        """It is new, and may be silent for so long."""
        self._forget(engine)
        if seconds is not None:
            self._names[engine] = None
            self._silence.expect(engine, seconds)

    def leave(self, engine: str) -> None:
        if engine in self._names:
            self._leaving.add(engine)

    def _forget(self, engine: str) -> None:
        self._names.pop(engine, None)
        self._leaving.discard(engine)
        self._silence.forget(engine)
        if engine in self._asking:
            self._asking.pop(engine).cancel()

    def silent(self, engine: str) -> bool:
        return self._silence.silent(engine)

    @contextmanager
    def reading(
        self, engine: str, run: Run, attempts: Attempts, meter: Meter
    ) -> Iterator[_Listener]:
        """While a turn reads this engine. If that falls silent or is drained, and another could go
        on, this ends with ``EngineSilent`` or ``EngineDrained``."""
        listener = self._listeners[run.id] = _Listener(engine, run, attempts, meter)
        try:
            yield listener
        except asyncio.CancelledError:
            if listener.leaves is None:
                raise
            asyncio.current_task().uncancel()  # type: ignore[union-attr]
            if run.stopping is not None:  # somebody ended the turn in the same moment
                raise
            raise listener.leaves from None
        finally:
            del self._listeners[run.id]

    def clear(self, engine: str, *, begun: bool) -> None:
        """It is drained: turns that wait there go elsewhere if they can, and those that it has
        ``begun`` with too. One whose client is being told something is left for the next time."""
        for each in self._listeners.values():
            if each.engine == engine and (begun or not each.begun) and not each.run.unsent:
                each.leave(EngineDrained(f"{engine} is drained."))

    async def watch(self) -> None:
        while True:
            await asyncio.sleep(_LOOK)
            self.look(time.monotonic())

    def look(self, now: float) -> None:
        if self._leaving:
            read = {each.engine for each in self._listeners.values()}
            for name in self._leaving - read:
                self._forget(name)
        waiting: dict[str, list[_Listener]] = {name: [] for name in self._names}
        for each in self._listeners.values():
            if each.waits and each.engine in waiting:
                waiting[each.engine].append(each)
        silent = [name for name in self._names if self._is_silent(name, waiting[name], now)]
        for name in silent:  # when all are known, so that nobody goes to another that is
            why = f"{name} has work and does none of it."
            if not [each for each in waiting[name] if not each.leave(EngineSilent(why))]:
                self._ask(name)  # those who stay will hear it speak

    def _is_silent(self, name: str, waiting: list[_Listener], now: float) -> bool:
        before = self._silence.silent(name)
        readers = {each.run.id: each.reader() for each in waiting}
        silent = self._silence.look(name, readers, now)
        if silent and not before:
            log.warning("%s has work and does none of it; turns leave it if they can", name)
        return silent

    def _ask(self, name: str) -> None:
        if name not in self._asking and name in self._engines:
            task = self._asking[name] = asyncio.create_task(self._until_it_speaks(name))
            task.add_done_callback(partial(self._asked, name))

    def _asked(self, name: str, task: asyncio.Task[None]) -> None:
        if self._asking.get(name) is task:
            del self._asking[name]

    async def _until_it_speaks(self, name: str) -> None:
        engine = self._engines.get(name)
        while engine is not None and self._silence.silent(name):
            with suppress(EngineError):
                async with aclosing(engine.generate(_question(engine))) as answer:
                    async for _ in answer:
                        pass
                self._silence.spoke(name)
                log.info("%s speaks again", name)
                return
            await asyncio.sleep(_ASK_AGAIN)


def _question(engine: Engine) -> Work:
    """As little as one can ask."""
    return Work(
        id="is-anyone-there",
        model=engine.cards[0].name,
        prompt=Chat(items=(Message(role="user", content="?"),)),
        sampling=Sampling(max_tokens=1),
        generate=False,
    )

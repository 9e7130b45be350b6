"""How long conversations are, counted for gateways by the engine that would read them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from vivace.engines.base import Engine
from vivace.link.frames import Measure, Measured
from vivace.logs import place_of

__all__ = ["Lengths"]

log = logging.getLogger("vivace.node")

_MOST = 256
"""Questions that wait; who asks more is told that it gets no answer."""


class Lengths:
    def __init__(self, engines: Mapping[str, Engine]) -> None:
        self._engines = engines
        self._counter = ThreadPoolExecutor(1, "counting")
        """Beside the event loop, and one at a time: engines need the machine, too."""
        self._waiting: set[asyncio.Future[tuple[int, ...]]] = set()

    def measure(self, asked: Measure, tell: Callable[[Measured], None]) -> None:
        """``tell`` hears the answer, now or later."""
        engine = self._engines.get(asked.engine)
        if engine is None or len(self._waiting) >= _MOST:
            tell(Measured(asked.number, ()))
            return
        counted = asyncio.get_running_loop().run_in_executor(self._counter, _count, engine, asked)
        self._waiting.add(counted)
        counted.add_done_callback(partial(self._counted, asked.number, tell))

    def _counted(
        self,
        number: int,
        tell: Callable[[Measured], None],
        counted: asyncio.Future[tuple[int, ...]],
    ) -> None:
        self._waiting.discard(counted)
        if not counted.cancelled():
            tell(Measured(number, counted.result()))

    def stop(self) -> None:
        self._counter.shutdown(wait=False, cancel_futures=True)


def _count(engine: Engine, asked: Measure) -> tuple[int, ...]:
    try:
        return tuple(engine.count(part, asked.model) for part in asked.parts)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is no answer
        log.error("a conversation cannot be counted: %s", place_of(error))
        return ()

"""How long conversations are, counted for gateways by the engine that would read them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from msgspec import Struct

from vivace.engines.base import Engine
from vivace.link.frames import Measure, Measured
from vivace.link.histories import size_of
from vivace.logs import place_of
from vivace.threads import giving_way

__all__ = ["Lengths"]

log = logging.getLogger("vivace.node")

_MAX_WAITING = 256
"""Questions that wait; who asks more is told that it gets no answer."""
_MAX_OF_LINK = 64
"""Questions of one link that wait, so that a gateway leaves others their share."""
_MAX_BYTES = 64_000_000
"""Size of all conversations that wait to be counted."""


class _Question(Struct, frozen=True):
    peer: str
    bytes: int


class Lengths:
    def __init__(self, engines: Mapping[str, Engine]) -> None:
        self._engines = engines
        self._counter = ThreadPoolExecutor(1, "counting")
        """Beside the event loop, and one at a time: engines need the machine, too."""
        self._waiting: dict[asyncio.Future[tuple[int, ...]], _Question] = {}

    def measure(self, peer: str, asked: Measure, tell: Callable[[Measured], None]) -> None:
        """``tell`` hears the answer, now or later."""
        engine = self._engines.get(asked.engine)
        question = _Question(peer, sum(map(size_of, asked.parts)))
        if engine is None or not self._has_room(question):
            tell(Measured(asked.number, ()))
            return
        loop = asyncio.get_running_loop()
        counted = loop.run_in_executor(self._counter, giving_way, _count, engine, asked)
        self._waiting[counted] = question
        counted.add_done_callback(partial(self._counted, asked.number, tell))

    def _has_room(self, question: _Question) -> bool:
        waiting = self._waiting.values()
        of_link = sum(each.peer == question.peer for each in waiting)
        held = sum(each.bytes for each in waiting) + question.bytes
        return len(waiting) < _MAX_WAITING and of_link < _MAX_OF_LINK and held <= _MAX_BYTES

    def lost(self, peer: str) -> None:
        """Drop the questions of a gateway whose link is gone."""
        for counted in [each for each, asked in self._waiting.items() if asked.peer == peer]:
            counted.cancel()

    def _counted(
        self,
        number: int,
        tell: Callable[[Measured], None],
        counted: asyncio.Future[tuple[int, ...]],
    ) -> None:
        del self._waiting[counted]
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

"""Ports that take their time, as those of several gateways will: what calls them must be right all
the same, though other turns go on meanwhile.

Importing this makes it so, for one process: ``pytest -p chaos.dawdling``, or ``scripts/fuzz
--dawdling``, whose gateway finds it as its ``sitecustomize``.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import random
from collections.abc import Callable, Coroutine
from typing import Any

from vivace.counters.local import LocalGrant, LocalLimiter
from vivace.gateway.resuming.records import LocalEventLog, LogRecord
from vivace.gateway.runs import LocalRuns, Run
from vivace.store.sqlite import SqliteStore

__all__: list[str] = []

_LONGEST = 0.004
"""Seconds before a call does anything, and again before it returns."""

_dice = random.Random()

Call = Callable[..., Coroutine[Any, Any, Any]]


def _late(call: Call) -> Call:
    @functools.wraps(call)
    async def dawdling(*given: Any, **named: Any) -> Any:
        await _wait()
        done = await call(*given, **named)
        await _wait()
        return done

    return dawdling


async def _wait() -> None:
    await asyncio.sleep(_dice.choice((0, _dice.random() * _LONGEST)))


for _kind in (LocalLimiter, LocalGrant, LocalEventLog, LogRecord, LocalRuns, Run, SqliteStore):
    for _name, _call in list(vars(_kind).items()):
        if inspect.iscoroutinefunction(_call):
            setattr(_kind, _name, _late(_call))

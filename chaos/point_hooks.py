"""Has a gateway die, or believe that a write failed, at the point that it was told to.

It gets there as its ``sitecustomize`` (``chaos.processes``), so that what is served is what ships;
``CHAOS_POINTS`` names the folder in which it is told (``chaos.points``).
"""

from __future__ import annotations

import functools
import os
import signal
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Literal

from chaos.points import Met, armed_in, tell_met
from vivace.errors import StoreError
from vivace.store.base import NewTurn, Order, TurnEnd
from vivace.store.journal import FileJournal
from vivace.store.postgres import PostgresStore
from vivace.store.sqlite import SqliteStore

__all__: list[str] = []

_folder = Path(os.environ["CHAOS_POINTS"])
_passed = 0

_Point = tuple[str, str]
"""Its name, and the response that it is about."""
_Named = Callable[..., _Point]


def _pass(point: _Point, when: Literal["before", "after"]) -> None:
    global _passed
    armed = armed_in(_folder)
    if armed is None or (armed.point, armed.when) != (point[0], when):
        return
    _passed += 1
    if _passed <= armed.skip:
        return
    _passed = 0
    tell_met(_folder, Met(time.monotonic(), point[1]))
    if armed.act == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    raise StoreError("The answer was lost, as somebody wants it to be.", uncertain=True)


def _around(
    call: Callable[..., Coroutine[Any, Any, Any]], named: _Named
) -> Callable[..., Coroutine[Any, Any, Any]]:
    @functools.wraps(call)
    async def passing(store: object, *given: Any, **more: Any) -> Any:
        point = named(*given, **more)
        _pass(point, "before")
        done = await call(store, *given, **more)
        _pass(point, "after")
        return done

    return passing


def _beside(call: Callable[..., Any], named: _Named) -> Callable[..., Any]:
    @functools.wraps(call)
    def passing(journal: object, *given: Any) -> Any:
        point = named(*given)
        _pass(point, "before")
        done = call(journal, *given)
        _pass(point, "after")
        return done

    return passing


def _accept(turn: NewTurn) -> _Point:
    return "accept", turn.id


def _end(end: TurnEnd) -> _Point:
    return "end" if end.successor is None else "end-steered", end.id


def _park(response_id: str, _: int, seconds: float | None) -> _Point:
    return "park" if seconds is not None else "wake", response_id


def _order(order: Order, *_: object, **__: object) -> _Point:
    return "steer", order.turn_id


def _called(name: str) -> _Named:
    return lambda response_id="", *_, **__: (name, response_id)


_STORE: dict[str, _Named] = {
    "accept": _accept,
    "attempt": _called("attempt"),
    "park": _park,
    "end": _end,
    "take": _called("take"),
    "order": _order,
    "delete": _called("delete"),
}
_JOURNAL: dict[str, _Named] = {
    "append": _called("journal"),
    "ended": _called("journal-end"),
    "forget_left": _called("journal-forget"),
}
for _store in (SqliteStore, PostgresStore):
    for _name, _named in _STORE.items():
        setattr(_store, _name, _around(getattr(_store, _name), _named))
for _name, _named in _JOURNAL.items():
    setattr(FileJournal, _name, _beside(getattr(FileJournal, _name), _named))

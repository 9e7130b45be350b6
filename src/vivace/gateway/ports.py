"""What a gateway must share when it is one of several: ports, which may wait for others to answer.

The turn store is the first of them (``store/base.py``). Behind each stands an implementation that
keeps all of it in this process and never waits: ``limiter.py`` (rate limits), ``records.py`` (the
event log) and ``runs.py`` (the directory of running turns). The queue is none of them: it belongs
where the slots are, with the engines.

Whoever calls a port must be right even if the answer takes its time, and other turns go on
meanwhile; the tests play the gateway on ports that dawdle.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from msgspec import Struct

from vivace.protocol.events import Event, Response, ResponseEvent
from vivace.protocol.requests import Interrupt, Steer
from vivace.scheduling.limits import Limits, Window

__all__ = ["EventLog", "Grant", "Limiter", "Record", "RunDirectory", "RunningTurn", "Told"]


# -- limits ---------------------------------------------------------------------------------------


class Grant(Protocol):
    """Leave for one request, which was charged for by an estimate."""

    async def settle(self, *, input_tokens: int, output_tokens: int) -> None:
        """Charge what was really used instead, now that it has ended; only once."""


class Limiter(Protocol):
    """What a key may use in a minute of each tier, whichever gateway it asks."""

    async def charge(
        self, owner: str, tier: str, limits: Limits, *, input_tokens: int, output_tokens: int
    ) -> Grant:
        """Raises ``TooManyRequests`` when that would be too much."""

    async def windows(self, owner: str, tier: str, limits: Limits) -> list[Window]:
        """What is used of each limit, and left."""


# -- events ---------------------------------------------------------------------------------------


class Record(Protocol):
    """The events of one response, numbered from 0 without a gap."""

    async def add(self, events: Sequence[ResponseEvent]) -> None:
        """An event that is there already is not added again."""

    async def keep(self, response: Response) -> None:
        """Its end could not be stored, so it is to be had from here."""

    async def unstored(self) -> Response | None:
        """What was kept so."""

    async def end(self) -> None: ...

    async def after(self, number: int) -> tuple[bytes, int]:
        """Some events later than ``number`` as they go over the wire, and the number of the last.

        Waits for one; none come when there are no more.
        """


class EventLog(Protocol):
    """What responses said that run in the background, for whoever comes to read it."""

    async def open(self, response_id: str, owner: str) -> Record: ...

    async def find(self, response_id: str, owner: str) -> Record | None: ...

    async def delete(self, response_id: str, owner: str) -> bool:
        """Whether there was one that had ended."""


# -- running turns --------------------------------------------------------------------------------


class Told(Struct, frozen=True):
    """What became of a word from outside."""

    receipt: Event | None
    successor_id: str | None
    """The id of the response that will follow, if one does."""


class RunningTurn(Protocol):
    """A turn in the making, on whichever gateway."""

    @property
    def id(self) -> str: ...

    @property
    def owner(self) -> str: ...

    def answers_to(self, response_id: str) -> bool:
        """Whether it is this one, or took its place when it was steered."""

    async def response(self) -> Response:
        """As it stands."""

    async def cancel(self) -> None:
        """Returns when it has ended."""

    async def tell(self, event: Steer | Interrupt) -> Told: ...


class RunDirectory(Protocol):
    """Where each turn runs, so that one can be stopped, steered or read from anywhere."""

    async def began(self, turn: RunningTurn) -> None: ...

    async def ended(self, turn: RunningTurn) -> None: ...

    async def find(self, response_id: str, owner: str) -> RunningTurn | None: ...

    async def find_heir(self, response_id: str, owner: str) -> RunningTurn | None:
        """This turn, or the one that took its place when it was steered."""

    async def forget(self, response_id: str, owner: str) -> None:
        """Have everyone let go of a turn that was deleted, who may remember it."""

    def on_forget(self, forget: Callable[[str, str], None]) -> None:
        """Called with the turn and its owner, here and on every other gateway."""

"""What a gateway must share when it is one of several: ports, which may wait for others to answer.

The turn store is the first of them (``store/base.py``), rate limits are the second
(``counters/base.py``). Behind each stands an implementation that keeps all of it in this process
and never waits, here ``records.py`` in ``resuming`` (the event log) and ``runs.py`` (the directory
of running turns). The queue is none of
them: it belongs where the slots are, with the engines.

Whoever calls a port must be right even if the answer takes its time, and other turns go on
meanwhile; the tests play the gateway on ports that dawdle.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Protocol

from msgspec import Struct

from vivace.conversation.deltas import Tokens
from vivace.conversation.log import Entry
from vivace.engines.base import Continues, Generates, Tell, Work
from vivace.protocol.events import Event, Response, ResponseEvent
from vivace.protocol.requests import Interrupt, Steer

__all__ = [
    "Bell",
    "Ear",
    "EngineLog",
    "EngineLogs",
    "EventLog",
    "LogAlong",
    "Readable",
    "Reader",
    "Record",
    "RunDirectory",
    "RunningTurn",
    "Told",
]


# -- events ---------------------------------------------------------------------------------------


class Readable(Protocol):
    """What can be told of one response."""

    @property
    def steered(self) -> bool:
        """Whether it was sent another way, so that another may follow it; known at its end."""

    def after(
        self, number: int, lane: str | None = None
    ) -> AsyncGenerator[list[ResponseEvent], None]:
        """The events later than ``number`` that were said, as they come, until there are no more;
        ``lane`` is the reader's."""

    @property
    def weight(self) -> int:
        """Bytes of its longest event, about: who reads it has one at a time."""


class Record(Readable, Protocol):
    """The log of one response: its events follow from it, numbered from 0."""

    created: Response
    """As it was created."""
    last_said: int
    """The number of the last event that was told of it."""
    lost: bool
    """Its turn was taken by another gateway, which tells the rest; known at its end here."""

    def enter(self, entry: Entry) -> None:
        """What happened to it; nobody may know of it yet."""

    def packed(self) -> bytes:
        """All that did."""

    def said(self, number: int) -> None:
        """All events up to this one are told to who has the turn, so they may be to others."""

    async def keep(self, response: Response) -> None:
        """Its end could not be stored, so it is to be had from here."""

    async def unstored(self) -> Response | None:
        """What was kept so."""

    async def end(self, *, steered: bool, lost: bool = False) -> None:
        """``steered``: it was sent another way, so another may follow it."""

    @property
    def settled(self) -> bool:
        """Whether it has ended and that is on record, from where another may delete it."""

    def reader(self, after: int, lane: str | None = None) -> Reader:
        """The same without waiting."""

    @property
    def unread_since(self) -> float | None:
        """When the last who waited for its events has left, by the monotonic clock; None while
        somebody does."""


class Reader(Protocol):
    def ready(self) -> list[ResponseEvent] | None:
        """Some of the events that follow and were said, perhaps none of them yet; None if there
        are no more for now."""


class EventLog(Protocol):
    """What turns said that somebody may come back to."""

    async def open(self, response: Response, owner: str) -> Record:
        """``response`` is as it was created."""

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

    async def response(self) -> Response | None:
        """As it stands; None if another gateway took it meanwhile, and tells how it does."""

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


class EngineLog(Protocol):
    """What was said of a turn that another gateway began, and the engine that goes on with it."""

    name: str
    """The engine's."""
    continues: Continues
    attempt: int
    created: bytes
    """The response as it was created, where the record has it otherwise."""
    entries: list[Entry]
    """All of its log, also what was there before this engine had it."""
    said_before: int
    """How many of its deltas that is."""
    tokens: Tokens
    """What that has taken."""
    goes_on: bool
    """Whether the engine had not ended when all this was copied."""

    def slot(
        self, work: Work, tell: Tell, leaves: Callable[[], bool]
    ) -> AbstractAsyncContextManager[Generates]:
        """What the engine says from there on."""

    def close(self) -> None:
        """Nobody wants more of it. May be said again."""


class LogAlong(Protocol):
    """What is said of a turn that another gateway holds, while it is said."""

    created: bytes
    """The response as it was created, where the record has it otherwise."""
    before: list[Entry]
    """All of its log that was there before this engine had it."""

    async def more(self) -> tuple[list[Entry], int] | None:
        """What is new of the log, and the number of the last event that its holder has told: what
        follows may not be told yet. None when no more comes."""

    def close(self) -> None:
        """Nobody reads it any more. May be said again."""


class EngineLogs(Protocol):
    """Engines outside of this process, which outlive the gateways that ask them."""

    async def take(self, turn: str, epoch: int, attempt: int) -> EngineLog | None:
        """What they have of a turn that this gateway has taken on record with this epoch, and hold
        it: who did before hears nothing more. None if that is nothing, or less than was said."""

    async def has(self, turn: str, attempt: int) -> bool:
        """Whether they have the log of this attempt, or of a later one. Nothing changes by it."""

    async def along(self, turn: str) -> LogAlong | None:
        """What they say of a turn that another gateway holds. None if they do not work on it.
        Nothing changes by it."""


class Ear(Protocol):
    async def heard(self, seconds: float) -> None:
        """Returns when somebody rang, perhaps before this was asked, or when so many seconds are
        over."""


class Bell(Ear, Protocol):
    """Wakes another gateway that has something to look for. It may be lost at any time: who listens
    looks now and then, whether it rang or not. Nobody waits for who is to be woken."""

    @property
    def up(self) -> bool:
        """Whether one that rings would be heard; who listens need look seldom then."""

    async def ring(self, holder: str | None, turn_id: str) -> None:
        """Something that is wanted of this turn is on record for this one, whose ``heard`` then
        returns."""

    async def answered(self, turn_id: str) -> None:
        """What became of that is on record, for all who rang."""

    def listening(self, turn_id: str) -> AbstractContextManager[Ear]:
        """Inside, an ear for such answers."""

    async def watch(self) -> None:
        """What is to be done all the time, if anything."""

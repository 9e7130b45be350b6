"""What must be on record of a kept turn before it may be said.

::

    said                                on record before
    created, and all that follows       the turn
    a steer's accepted and pending      the steer, unless it only ends the thinking
    a word of the second engine         that attempt, with all that the first has said
    the terminal event                  the end, with the successor that a steer made
    interrupt accepted                  the end
    failed, of an accepted steer        its return

Engines do not wait for the record, only words do; and they keep their order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from vivace.protocol.events import (
    Event,
    InterruptAccepted,
    ResponseCompleted,
    ResponseCreated,
    ResponseEvent,
    ResponseFailed,
    ResponseIncomplete,
    ResponseQueued,
    SteerAccepted,
    SteerFailed,
    SteerPending,
)

__all__ = ["END", "TURN", "Keeping", "attempt", "needs", "returned", "steer"]

TURN, END = "turn", "end"
_AFTER_END = (ResponseCompleted, ResponseFailed, ResponseIncomplete, InterruptAccepted)
_TELLING = frozenset(
    (ResponseCreated, ResponseQueued, *_AFTER_END, SteerAccepted, SteerPending, SteerFailed)
)
"""Which tell of a record of their own."""


def steer(steer_id: str) -> str:
    return f"steer {steer_id}"


def returned(steer_id: str) -> str:
    return f"return of {steer_id}"


def attempt(number: int) -> str:
    return f"attempt {number}"


def needs(event: Event) -> str | None:
    """The record that this event tells of; None if it is a word, which has none of its own."""
    if isinstance(event, ResponseCreated | ResponseQueued):
        return TURN
    if isinstance(event, _AFTER_END):
        return END
    if isinstance(event, SteerAccepted | SteerPending):
        return None if event.steer.when == "end_thinking" else steer(event.steer.id)
    if isinstance(event, SteerFailed):
        return returned(event.steer.id) if event.steer.id else None  # else it was never accepted
    return None


class Keeping:
    """Of one turn: holds back what is not on record yet."""

    def __init__(self) -> None:
        self._recorded: set[str] = set()
        self._ground = TURN
        """What every word of the turn needs."""
        self._held: deque[tuple[Event, str]] = deque()

    @property
    def holds(self) -> bool:
        return bool(self._held)

    def begin_attempt(self, number: int) -> None:
        """Another engine goes on: its words are said when it is on record that it does."""
        self._ground = attempt(number)

    def recorded(self, what: str) -> None:
        self._recorded.add(what)

    def say(self, events: Iterable[Event]) -> None:
        for event in events:
            of_turn = isinstance(event, ResponseEvent)
            self._held.append((event, needs(event) or (self._ground if of_turn else "")))

    def passes(self, events: Iterable[Event]) -> bool:
        """Whether these may be said at once: words of the turn, with nothing before them."""
        if self._held or self._ground not in self._recorded:
            return False
        return _TELLING.isdisjoint(map(type, events))

    def ready(self) -> list[Event]:
        """What may be said now, in the order it was to be said; it is not held any more."""
        ready: list[Event] = []
        while self._held:
            event, need = self._held[0]
            if need and need not in self._recorded:
                break
            ready.append(event)
            self._held.popleft()
        return ready

    def put_back(self, events: Iterable[Event]) -> None:
        """What was ready and could not be sent, whatever became of what followed it."""
        self._held.extendleft((event, "") for event in reversed([*events]))

"""A WebSocket that comes back: when it breaks in the middle of an answer, the rest of it is asked
for on another one, and whoever reads hears nothing of it twice.

Only a server that numbers its events and knows ``response.resume`` can do that; with another, a
broken connection is what it always was. Where it breaks before the answer has begun, nobody knows
whether the request arrived: one with an idempotency key is sent again, and runs once.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from vivace.client.dialling import NoWebSocket
from vivace.client.errors import ClientError
from vivace.client.events import Failure, ServerEvent, Steered

__all__ = ["Broken", "ResumingWire", "Wire"]

_PATIENCE_S = 15.0
_FIRST_WAIT_S = 0.1
_LONGEST_WAIT_S = 2.0
_IN_USE = "idempotency_key_in_use"
"""Somebody answers the request who cannot be reached yet."""
_LEAVING = "server_shutting_down"
"""Another server has the answer, or would give one."""

Event = dict[str, Any]


class Broken(ClientError):
    """The connection is gone, for no fault of what was said on it."""


class Wire(Protocol):
    async def send(self, event: Event) -> None: ...

    async def next(self) -> ServerEvent: ...

    async def close(self) -> None: ...


class ResumingWire:
    """One answer at a time."""

    def __init__(self, wire: Wire, dial: Callable[[], Awaitable[Wire]]) -> None:
        """``dial`` makes another connection."""
        self._wire = wire
        self._dial = dial
        self.on_back: Callable[[], object] = lambda: None
        """Called when the connection was lost and is back."""
        self._kept = False
        self._waits = False
        self._unheard: Event | None = None
        """A request with a key, of whose answer nothing has come."""
        self._id: str | None = None
        self._number: int | None = None
        self._asked: list[Event] = []
        """Steers and interrupts that have had no answer yet."""
        self._lost: list[Event] = []
        """Steers of which nobody knows whether they arrived."""
        self._made_up: deque[ServerEvent] = deque()
        self._broken: Broken | None = None
        """Why it is to be resumed, until that is known to have worked."""
        self._until: float | None = None

    async def send(self, event: Event) -> None:
        if event["type"] == "response.create":
            self._id = self._number = self._until = None
            self._asked, self._lost = [], []
            self._kept = event.get("store") is not False
            self._waits = event.get("on_disconnect") == "wait"
            self._unheard = event if "idempotency_key" in event else None
            try:
                await self._wire.send(event)
            except Broken as broken:
                await self._come_back(broken)
            return
        self._asked.append(event)
        try:
            await self._wire.send(event)
        except Broken:
            if not self._resumable:
                raise

    async def next(self) -> ServerEvent:
        while not self._made_up:
            try:
                event = await self._wire.next()
            except Broken as broken:
                await self._come_back(self._broken or broken)
                continue
            if self._is_elsewhere(event):
                told = event.failure.told()
                await self._come_back(self._broken or Broken(str(told), told.code))
                continue
            self._hear(event)
        return self._made_up.popleft()

    async def close(self) -> None:
        await self._wire.close()

    def _is_elsewhere(self, event: ServerEvent) -> bool:
        """Whether the answer is to be had on another connection."""
        if event.type != "error":
            return False
        if event.failure.code == _LEAVING:
            return self._resumable
        return self._unheard is not None and event.failure.code == _IN_USE

    # -- what was said ----------------------------------------------------------------------------

    def _hear(self, event: ServerEvent) -> None:
        if self._broken is not None:
            if event.type == "error" and self._unheard is None:
                # It does not know the answer any more, or not how to go on.
                raise self._broken
            self._broken = None
            self.on_back()
        if not self._is_news(event):
            return
        self._answered(event)
        if event.ends and not self._waits and self._until and _cancelled(event):
            raise Broken("The connection was lost, and the server stopped the answer; ask again.")
        told = [event]
        if event.ends and self._lost:
            told = self._settled(event)
        self._made_up += told

    def _is_news(self, event: ServerEvent) -> bool:
        number = event.sequence_number
        numbered = event.type.startswith("response.") and not event.type.startswith(
            ("response.steer.", "response.interrupt.")
        )
        if not numbered or not isinstance(number, int):
            return True
        created = event.response if event.type == "response.created" else None
        if created is not None and created.id != self._id:
            self._id, self._unheard = created.id, None
        elif self._number is not None and number <= self._number:
            return False
        self._number, self._until = number, self._until and time.monotonic() + _PATIENCE_S
        return True

    def _answered(self, event: ServerEvent) -> None:
        kind = ""
        if event.type.startswith("response.interrupt."):
            kind = "response.interrupt"
        elif event.type == "response.steer.accepted" or (
            event.type == "response.steer.failed" and event.steer.id is None
        ):
            kind = "response.steer"
        for asked in self._asked:
            if asked["type"] == kind:
                self._asked.remove(asked)
                return

    def _settled(self, end: ServerEvent) -> list[ServerEvent]:
        """Whoever steers waits for an answer. If the answer was steered, the words have arrived; if
        it came to its own end they have not, and are the next thing to say."""
        lost, self._lost = self._lost, []
        details = end.response.incomplete_details if end.response else None
        if details is not None and details.reason == "steered":
            taken = ServerEvent(type="response.steer.accepted")
            return [*(taken for _ in lost), end]
        over = Failure("The answer is over.", "response_already_completed")
        return [
            end,
            *(
                ServerEvent(
                    type="response.steer.failed", steer=Steered(input=each["input"]), error=over
                )
                for each in lost
            ),
        ]

    # -- coming back ------------------------------------------------------------------------------

    @property
    def _resumable(self) -> bool:
        if self._unheard is not None:
            return True
        return self._id is not None and self._number is not None and (self._kept or self._waits)

    async def _come_back(self, broken: Broken) -> None:
        if not self._resumable:
            raise broken
        self._broken = broken
        wait = 0.0 if self._unheard is not None and self._until is None else _FIRST_WAIT_S
        self._until = self._until or time.monotonic() + _PATIENCE_S
        while True:
            await asyncio.sleep(wait * random.uniform(0.5, 1.5))  # noqa: S311 - not to be guessed
            wait = min(2 * wait or _FIRST_WAIT_S, _LONGEST_WAIT_S)
            if time.monotonic() > self._until:
                raise broken
            try:
                wire = await self._dial()
                old, self._wire = self._wire, wire
                await old.close()
                await self._ask_for_the_rest()
                return
            except Broken:
                continue
            except ClientError as error:
                if not _passes(error):
                    raise broken from None

    async def _ask_for_the_rest(self) -> None:
        if self._unheard is not None:
            await self._wire.send(self._unheard)
            return
        asked, self._asked = self._asked, []
        resume = {"type": "response.resume", "response_id": self._id}
        await self._wire.send(resume | {"starting_after": self._number})
        for event in asked:
            if event["type"] == "response.interrupt":
                await self.send(event)
            elif event.get("when") == "end_thinking":
                steer = Steered(when="end_thinking")
                self._made_up.append(ServerEvent(type="response.steer.accepted", steer=steer))
            else:
                self._lost.append(event)


def _passes(error: ClientError) -> bool:
    """Whether it may go better soon: nobody is there yet, or only who stands before the server."""
    if isinstance(error, NoWebSocket):
        return False
    return error.status is None or error.status >= 500


def _cancelled(event: ServerEvent) -> bool:
    return event.response is not None and event.response.status == "cancelled"

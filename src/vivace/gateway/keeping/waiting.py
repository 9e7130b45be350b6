"""Turns of a gateway that is gone, while no engine works on them."""

from __future__ import annotations

import asyncio
import math
import time
from typing import Protocol

from vivace.errors import RequestError
from vivace.gateway.keeping.adopted import Adopted
from vivace.gateway.ports import EngineLog, Record, Told
from vivace.protocol.codec import error_frame
from vivace.protocol.events import Response
from vivace.protocol.requests import Interrupt, Steer

__all__ = ["WaitingTurn"]


class Waits(Protocol):
    """Whoever has them."""

    async def steer(self, waiting: WaitingTurn, event: Steer) -> Told: ...

    async def interrupt(self, waiting: WaitingTurn, event: Interrupt) -> Told: ...

    async def cancel(self, waiting: WaitingTurn) -> None: ...


class WaitingTurn:
    """One that no engine works on: it waits for its client, or in the background for an engine."""

    def __init__(
        self,
        recovery: Waits,
        adopted: Adopted,
        record: Record,
        seconds: float,
        log: EngineLog | None = None,
        *,
        begins: bool = False,
    ) -> None:
        """``record`` tells its events; ``seconds``: how long it waits for its client. ``log``: what
        its engine says, if that goes on with it. ``begins``: it never had an engine, and its client
        has asked for it, or will."""
        self.adopted = adopted
        self.record = record
        self.log = log
        self.until = time.monotonic() + seconds
        self.not_before = 0.0
        """When an engine may have room for it again."""
        self.reviving: asyncio.Task[RequestError | None] | None = None
        self.busy = asyncio.Lock()
        """Of who ends it or gives it to an engine."""
        self.over = False
        """It was ended, or it runs."""
        self._recovery = recovery
        self._begins = begins
        self._seconds = seconds
        self._turn = adopted.turn()

    @property
    def id(self) -> str:
        return self.adopted.record.id

    @property
    def owner(self) -> str:
        return self.adopted.record.owner

    @property
    def background(self) -> bool:
        return self.adopted.record.background

    @property
    def wanted(self) -> bool:
        """Whether it needs nobody to come for it, or somebody reads it."""
        goes_on = self.background or self._begins or self.log is not None
        return goes_on or self.record.unread_since is None

    @property
    def takes_steers(self) -> bool:
        """Whether it goes on by itself, and so with them."""
        return self.background

    @property
    def late(self) -> bool:
        """Whether its client has not come back in time."""
        unread = self.record.unread_since
        until = math.inf if unread is None else max(self.until, unread + self._seconds)
        return until < time.monotonic()

    def leave_engine(self) -> None:
        """What it says from now on is not wanted; what it has said is here."""
        if self.log is not None:
            self.log.close()
            self.log = None

    def wait(self) -> None:
        """For its client, as long again."""
        self.until = time.monotonic() + self._seconds

    def answers_to(self, response_id: str) -> bool:
        return response_id == self.id or response_id in self.adopted.line

    async def response(self) -> Response:
        return self._turn.response

    async def cancel(self) -> None:
        await self._recovery.cancel(self)

    async def tell(self, event: Steer | Interrupt) -> Told:
        if isinstance(event, Interrupt):
            return await self._recovery.interrupt(self, event)
        if self.takes_steers and event.when != "end_thinking":
            return await self._recovery.steer(self, event)
        why = (
            "No engine works on the response yet since this server was started; try again."
            if self.background
            else "The response waits for its client since this server was started; resume it first."
        )
        return Told(error_frame(RequestError(why, code="response_not_active")), None)

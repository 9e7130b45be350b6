"""Turns of a gateway that is gone, given to an engine again."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Protocol

from vivace.conversation.log import Failed
from vivace.conversation.session import Ticket
from vivace.errors import (
    LogError,
    RequestError,
    StoreAway,
    StoreError,
    TooManyRequests,
    Unavailable,
)
from vivace.gateway.ids import now
from vivace.gateway.keeping.recovery import Recovery
from vivace.gateway.keeping.waiting import WaitingTurn
from vivace.gateway.meter import Outlet
from vivace.protocol.events import Event

__all__ = ["PASSING", "Adopter", "Reviving"]

log = logging.getLogger("vivace.turns")

PASSING = (TooManyRequests, Unavailable)
"""What is refused so may be had a little later."""

_LOOK, _LONGEST = 0.5, 10.0
"""Seconds between two tries, at least and at most."""


class Adopter(Protocol):
    async def adopt(self, ticket: Ticket, waiting: WaitingTurn) -> None: ...


class _Connect(Protocol):
    def __call__(self, outlet: Outlet, owner: str, request_id: str) -> Adopter: ...


class Reviving:
    def __init__(self, recovery: Recovery, connect: _Connect) -> None:
        self._recovery = recovery
        self._connect = connect
        self._starting: dict[str, asyncio.Future[RequestError | None]] = {}
        recovery.go_on = self._begin

    async def watch(self) -> None:
        """Go on with those that are wanted, as soon as an engine has room for them."""
        while True:
            with suppress(StoreError):  # its trouble is told elsewhere
                await self._recovery.begin_doubtful()
            await self.go_on()
            await asyncio.sleep(_LOOK)

    async def go_on(self) -> None:
        for waiting in self._recovery.wanted():
            try:
                await self._revived(waiting)
            except StoreError:  # its trouble is told elsewhere
                waiting.not_before = time.monotonic() + _LOOK

    async def wake(self, response_id: str, owner: str) -> None:
        """Its client is back: if it waits for that, it runs when this returns. Raises why it may
        not yet; then it waits on."""
        waiting = await self._recovery.find(response_id, owner)
        if waiting is not None:
            refused = await self._revived(waiting)
            if refused is not None:
                raise refused

    def began(self, response_id: str) -> None:
        """A turn runs, which may be one of these."""
        self._recovery.runs(response_id)
        self._started(response_id, None)

    async def refused(
        self, ticket: Ticket, waiting: WaitingTurn | None, error: RequestError
    ) -> Sequence[Event]:
        """Of what is on record already and yet may not run, the record gets an end, unless it may
        run later; returns what its client must hear. Nothing, if it is not on record."""
        code = error.code or "server_error"
        how = Failed(now(), code, error.message)
        if waiting is None:
            return await self._recovery.refused(ticket, how)
        if not isinstance(error, PASSING):
            try:
                await self._recovery.give_up(waiting, how)
            except StoreError as away:
                error = StoreAway(away)
            else:
                self._started(ticket.id, None)
                return ()
        self._started(ticket.id, error)
        return ()

    def _started(self, response_id: str, refused: RequestError | None) -> None:
        starting = self._starting.pop(response_id, None)
        if starting is not None:
            starting.set_result(refused)

    async def _revived(self, waiting: WaitingTurn) -> RequestError | None:
        """Why it may not run yet. Who comes second waits for the same."""
        return await asyncio.shield(self._begin(waiting))

    def _begin(self, waiting: WaitingTurn) -> asyncio.Task[RequestError | None]:
        if waiting.reviving is None or waiting.reviving.done():
            waiting.reviving = asyncio.create_task(self._revive(waiting))
            waiting.reviving.add_done_callback(_seen)
        return waiting.reviving

    async def _revive(self, waiting: WaitingTurn) -> RequestError | None:
        async with waiting.busy:
            if waiting.over:
                return None
            try:
                ticket = waiting.adopted.ticket(await self._recovery.parent(waiting.adopted))
            except PASSING as error:
                return error
            except (LogError, RequestError):
                await self._recovery.give_up(waiting)
                return None
            if not await self._recovery.unpark(waiting):
                return None
            refused = await self._start(waiting, ticket)
            if refused is not None:
                wait = min(max(refused.retry_after or 0.0, _LOOK), _LONGEST)
                waiting.not_before = time.monotonic() + wait
                await self._recovery.park_again(waiting)
            return refused

    async def _start(self, waiting: WaitingTurn, ticket: Ticket) -> RequestError | None:
        starting: asyncio.Future[RequestError | None] = asyncio.get_running_loop().create_future()
        self._starting[waiting.id] = starting
        await self._connect(_Nobody(), waiting.owner, waiting.id).adopt(ticket, waiting)
        return await starting


def _seen(task: asyncio.Task[RequestError | None]) -> None:
    """Nobody may have waited for it; it is tried again."""
    if not task.cancelled():
        task.exception()


class _Nobody:
    """Listens to a turn whose client reads it elsewhere, or has not come back yet."""

    async def send(self, events: list[Event]) -> None:
        events.clear()

"""Turns of a gateway that is gone, given to an engine again."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol

from vivace.conversation.log import Failed
from vivace.conversation.replay import replay
from vivace.conversation.session import Ticket
from vivace.errors import LogError, RequestError
from vivace.gateway.ids import now
from vivace.gateway.meter import Outlet
from vivace.gateway.ports import Record, RunDirectory
from vivace.gateway.recovery import Adopted, Recovery
from vivace.protocol.events import Event

__all__ = ["Reviving"]

_LOOK, _LOOKS = 0.01, 200
"""Until a turn that was given to an engine is known to run."""


class _Adopter(Protocol):
    async def adopt(self, ticket: Ticket, adopted: Adopted) -> None: ...


class _Connect(Protocol):
    def __call__(self, outlet: Outlet, owner: str, request_id: str) -> _Adopter: ...


class Reviving:
    def __init__(self, recovery: Recovery, connect: _Connect, runs: RunDirectory) -> None:
        self._recovery = recovery
        self._runs = runs
        self._connect = connect

    async def go_on(self) -> None:
        """With those in the background."""
        for adopted in self._recovery.going_on():
            await self._revive(adopted)

    async def wake(self, response_id: str, owner: str) -> None:
        """With one whose client is back, if it waits for that; its events are on record."""
        adopted = await self._recovery.wake(response_id, owner)
        if adopted is None:
            return
        await self._revive(adopted)
        for _ in range(_LOOKS):
            if await self._runs.find(response_id, owner) is not None:
                return
            await asyncio.sleep(_LOOK)

    async def refused(
        self, ticket: Ticket, going_on: tuple[Adopted, Record] | None, error: RequestError
    ) -> Sequence[Event]:
        """Of what is on record already and yet may not run, the record gets an end; returns what
        its client must hear. Nothing, if it is not on record."""
        code = error.code or "server_error"
        how = Failed(now(), code, error.message)
        if going_on is None:
            return await self._recovery.refused(ticket, how)
        adopted, record = going_on
        await self._recovery.give_up(adopted, how)
        record.enter(how)
        record.said(replay(adopted.created, [*adopted.entries, how])[-1].sequence_number)
        await record.end(steered=False)
        return ()

    async def _revive(self, adopted: Adopted) -> None:
        record = adopted.record
        try:
            ticket = adopted.ticket(await self._recovery.parent(adopted))
        except (LogError, RequestError):
            await self._recovery.give_up(adopted)
            return
        await self._connect(_Nobody(), record.owner, record.id).adopt(ticket, adopted)


class _Nobody:
    """Listens to a turn whose client reads it elsewhere, or has not come back yet."""

    async def send(self, events: list[Event]) -> None:
        events.clear()

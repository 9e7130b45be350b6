"""Requests that are sent again, and known by their key: their answer is the turn of the first time.

Over HTTP that turn is read, and stays with whoever has it. A WebSocket takes it over while it runs,
as ``response.resume`` does, so that it can be steered from there. If it was deleted its key still
stands for it: nothing is run, and the client hears that it is gone.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import aclosing

from vivace.conversation.session import Say, Session, Ticket
from vivace.errors import InvalidRequest, KeyBusy, NotFound, RequestError
from vivace.gateway.elsewhere.asking import Asking
from vivace.gateway.elsewhere.record import AwaitedRecord
from vivace.gateway.keeping.kept import Keeper, stored_key
from vivace.gateway.meter import Outlet
from vivace.gateway.ports import Readable, RunningTurn, Told
from vivace.gateway.resuming.moving import HEIR_SECONDS, Ground, Moves, rest_of
from vivace.gateway.runs import Run
from vivace.protocol.codec import error_payload
from vivace.protocol.events import ReturnedSteer, SteerAccepted, SteerFailed, SteerReceipt
from vivace.protocol.once import key_reused
from vivace.protocol.requests import Interrupt, Steer
from vivace.store.base import KeyReused, Order, Store

__all__ = ["Again", "steered_before"]

log = logging.getLogger("vivace.turns")


class Again:
    """Of one connection: its requests that were sent before."""

    def __init__(
        self, ground: Ground, keeper: Keeper, moves: Moves, session: Session, outlet: Outlet
    ) -> None:
        self._ground = ground
        self._store = keeper.store
        self._told_of: dict[str, set[str]] = {}
        self._moves = moves
        self._session = session
        self._outlet = outlet
        self._telling: dict[str, asyncio.Task[None]] = {}
        self.told = False
        """Whether a turn of an earlier request was told of here."""
        self.awaited: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        """Such a turn, if another gateway holds it: nothing is told of it before its end."""

    async def recall(self, ticket: Ticket) -> None:
        """Look whether a request was sent before, and answer it if it was."""
        key = stored_key(ticket.request.once)
        assert key is not None
        known = await self._store.find_key(key, self._moves.owner)
        if isinstance(known, KeyReused):
            raise key_reused()
        if known is None:
            await self._moves.act(self._session.is_new(ticket))
        else:
            await self.retell(ticket, known)

    async def steered(self, event: Steer | Interrupt) -> bool:
        """Whether it is a steer that was sent before, and has its answer again."""
        if isinstance(event, Interrupt):
            return False
        told = await steered_before(self._store, event, self._moves.owner, self._ground.asking)
        if told is not None and told.receipt is not None:
            await self._moves.act([Say(told.receipt)])
        return told is not None

    def tells_of(self, turn_id: str) -> bool:
        """Whether it is being told here."""
        return any(turn_id in told for told in self._told_of.values())

    async def retell(self, ticket: Ticket, turn_id: str, after: int = -1) -> None:
        """Tell of the turn that its key stands for, on its lane; or of one that is resumed here and
        held elsewhere, from the event on that comes after this one."""
        self.told = True
        task = asyncio.current_task()
        if task is not None and self._session.retells(ticket):
            log.info("told again turn=%s", turn_id)
            self._telling[ticket.id] = task
            self._told_of[ticket.id] = {turn_id}
            try:
                await self._tell(ticket, turn_id, after)
            except asyncio.CancelledError:
                if ticket.id in self._telling:
                    raise
                task.uncancel()  # nobody listens any more
            finally:
                self._telling.pop(ticket.id, None)
                self._told_of.pop(ticket.id, None)
        await self._moves.act(self._session.retold(ticket))

    def stop(self, ticket: Ticket) -> bool:
        """End the telling, if it is one: the client is gone."""
        task = self._telling.pop(ticket.id, None)
        if task is not None:
            task.cancel()
        return task is not None

    async def _tell(self, ticket: Ticket, turn_id: str, after: int) -> None:
        run = await self._moves.find(turn_id, moves=not self._session.alone)
        patience = HEIR_SECONDS if run is not None else 0.0
        while not self._taken(run, ticket, after):
            record = await self._record(turn_id)
            if isinstance(record, AwaitedRecord) and not self.awaited.done():
                self.awaited.set_result(turn_id)
            async with aclosing(rest_of(record, after, ticket.lane)) as told:
                async for events in told:
                    await self._outlet.send([*events])
            heir = await self._moves.heir_of(turn_id, patience) if record.steered else None
            if heir is None:
                return
            turn_id, after = heir.id, -1
            self._told_of[ticket.id].add(turn_id)
            run = await self._moves.find(turn_id, moves=not self._session.alone)

    def _taken(self, run: RunningTurn | None, ticket: Ticket, after: int) -> bool:
        """Whether it goes on here, in place of the request that was sent again."""
        if self._session.alone or not isinstance(run, Run):
            return False
        return self._moves.take(run, after, ticket.lane, place=ticket)

    async def _record(self, turn_id: str) -> Readable:
        owner = self._moves.owner
        try:
            return await self._ground.telling.record(turn_id, owner)
        except NotFound:
            stat = await self._ground.archive.stat(turn_id, owner)
            if stat is None:
                raise _gone(turn_id) from None
            if stat.status is None:
                raise _not_here() from None
            raise


async def steered_before(
    store: Store, event: Steer, owner: str, asking: Asking | None = None
) -> Told | None:
    """What became of a steer that was sent before; None if it was not, or is still on its way: then
    the session that has it answers."""
    key = stored_key(event.once)
    known = await store.find_key(key, owner) if key is not None else None
    if isinstance(known, KeyReused):
        raise key_reused()
    order = await store.find_order(known, owner) if known is not None else None
    if order is not None and order.reply is not None and asking is not None:
        return await asking.answer(order) or _handed_back(order, event)
    if order is None or order.state in ("accepted", "pending"):
        return None
    target = event.previous_response_id
    if order.state == "applied":
        taken = SteerReceipt(id=order.id, previous_response_id=target)
        return Told(SteerAccepted(sequence_number=0, steer=taken), order.applied_by)
    return _handed_back(order, event)


def _handed_back(order: Order, event: Steer) -> Told:
    why = InvalidRequest(
        "The response ended before this could be applied; send it as the input of a new one.",
        code="successor_creation_failed",
    )
    target = event.previous_response_id
    back = ReturnedSteer(id=order.id, previous_response_id=target, input=event.input)
    return Told(SteerFailed(sequence_number=0, error=error_payload(why), steer=back), None)


def _gone(turn_id: str) -> RequestError:
    return NotFound(
        f"This idempotency key stands for response '{turn_id}', which was deleted or is too old. "
        "Nothing was run. To ask again, choose a new key.",
        code="response_not_found",
        param="idempotency_key",
    )


def _not_here() -> RequestError:
    """A gateway that is just started takes up what was left."""
    return KeyBusy(
        "The response that this idempotency key stands for is in progress, and cannot be told of "
        "here yet. Nothing was run; send the request again in a moment.",
        param="idempotency_key",
        retry_after=1,
    )

"""What clients of this gateway want of a turn that another one holds: put on record, for its holder
to find, and waited for.

::

    asked ──► accepted ──► applied, returned, done      by who holds the turn, who replies
      │          │
      │          └──────► returned, done                with the end of the turn
      └──────► returned, done                           by who asked, and waits no longer

Each step is one guarded write, so a steer is never both carried out and handed back. If the holder
dies, whoever takes the turn finds what was asked of it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from vivace.conversation.response import read_response
from vivace.conversation.steering import Desk
from vivace.errors import RequestError, Unavailable
from vivace.gateway.ids import new_id
from vivace.gateway.keeping.kept import Keeper, stored_key
from vivace.gateway.keeping.recovery import Recovery
from vivace.gateway.metrics import Metrics
from vivace.gateway.ports import Bell, Told
from vivace.gateway.reads import Reads
from vivace.protocol.codec import decode_steer_input
from vivace.protocol.events import (
    ErrorFrame,
    Event,
    InterruptAccepted,
    SteerAccepted,
    SteerFailed,
    SteerReceipt,
)
from vivace.protocol.once import key_reused
from vivace.protocol.requests import Interrupt, Steer
from vivace.store.base import Fenced, Key, KeyReused, NotOpen, OpenTurn, Order, OrderKind

__all__ = ["Asking", "Pauses", "Reply", "line_of"]

_PATIENCE = 10.0
"""Seconds in which a holder that lives has long answered, and one that died was replaced."""
_FIRST, _LONGEST = 0.02, 0.25
"""Seconds between two looks."""


class Reply(Struct):
    """What a holder says to what was asked."""

    receipt: SteerAccepted | SteerFailed | InterruptAccepted | ErrorFrame | None = None
    successor_id: str | None = None


_reply: msgspec.json.Decoder[Reply] = msgspec.json.Decoder(Reply)


class _Request(Struct):
    line: frozenset[str] = frozenset()


_request: msgspec.json.Decoder[_Request] = msgspec.json.Decoder(_Request)


def line_of(turn: OpenTurn) -> frozenset[str]:
    """The steered turns that it follows."""
    return _request.decode(turn.request or b"{}").line


async def _nothing() -> None:
    pass


class Pauses:
    """Between looks: short at first, and for so many seconds in all."""

    def __init__(
        self,
        seconds: float = _PATIENCE,
        wait: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """``wait`` may return earlier, when there is something to see."""
        self._until = time.monotonic() + seconds
        self._next = _FIRST
        self._wait = wait

    async def pause(self) -> bool:
        """Whether there is time for another."""
        if time.monotonic() > self._until:
            return False
        await self._wait(self._next)
        self._next = min(self._next * 1.5, _LONGEST)
        return True


class Asking:
    def __init__(
        self,
        keeper: Keeper,
        bell: Bell,
        metrics: Metrics,
        recovery: Recovery,
        reads: Reads,
    ) -> None:
        """``recovery`` takes a turn whose gateway is gone."""
        self._store = keeper.store
        self._keeper = keeper
        self._bell = bell
        self._metrics = metrics
        self._recovery = recovery
        self._reads = reads
        self.look_here: Callable[[], Awaitable[None]] = _nothing
        """Has this gateway carry out what it is asked itself."""

    # -- where turns are --------------------------------------------------------------------------

    async def open_turns(self, response_id: str, owner: str) -> list[OpenTurn]:
        """Those that are open and not held here; what a gateway left that is gone is taken."""
        known = await self._known(response_id, owner)
        return [each for each in known if each.holder != self._keeper.holder]

    async def is_open(self, turn: OpenTurn) -> bool:
        """Anywhere, here too."""
        known = await self._known(turn.id, turn.owner)
        return any(each.id == turn.id for each in known)

    async def _known(self, response_id: str, owner: str) -> list[OpenTurn]:
        async with self._reads.slot(owner) as slot:
            known = await self._store.open_turns(response_id, owner)
            slot.size = sum(len(turn.request or b"") for turn in known)
        mine = False
        for turn in known:
            if turn.holder == self._keeper.holder:
                mine = True
            elif self._is_orphaned(turn):
                await self._recovery.take(turn)
        if mine:  # it may be on its way here just now
            await self._recovery.taken()
        return known

    def _is_orphaned(self, turn: OpenTurn) -> bool:
        presence = self._keeper.presence
        dead_after = max(presence.dead_after, turn.dead_after)
        return presence.may_judge and (turn.silent is None or turn.silent > dead_after)

    async def bring(self, turn: OpenTurn) -> None:
        """Have it here, where its client is, if it can be moved."""
        await self._recovery.bring(turn)

    async def tell_first(self, event: Steer, owner: str) -> Told | None:
        """A steer with a key: whichever gateways it is sent to at once, the record decides which
        of them it is. None if the turn is not open on record."""
        for turn in await self._known(event.previous_response_id, owner):
            if turn.id == event.previous_response_id or event.previous_response_id in line_of(turn):
                return await self.tell(turn, event)
        return None

    # -- what is wanted of them -------------------------------------------------------------------

    async def tell(self, turn: OpenTurn, event: Steer | Interrupt) -> Told | None:
        """None when it has ended meanwhile; raises ``Unavailable`` if its holder is silent."""
        if isinstance(event, Interrupt):
            told = await self._ask(turn, _order(turn, "interrupt"), None)
            return told or await self._interrupted(turn)
        if event.when == "end_thinking":
            if bytes(event.input) != b"null":
                return _failed(event, "To end the thinking takes no input; send that by itself.")
            return _as_asked(event, await self._ask(turn, _order(turn, "end_thinking"), None))
        try:
            decode_steer_input(event.input)
        except RequestError as error:
            return _failed(event, error.message)
        order = replace(
            _order(turn, "steer"), input=bytes(event.input), at_item_end=event.when == "item_end"
        )
        return _as_asked(event, await self._ask(turn, order, stored_key(event.once)))

    async def _interrupted(self, turn: OpenTurn) -> Told | None:
        """Its end may come on record before what was answered."""
        ended = await self._store.response(turn.id, turn.owner)
        if ended is None:
            return None
        details = read_response(ended.response).incomplete_details
        if details is None or details.reason != "interrupted":
            return None
        return Told(InterruptAccepted(response_id=turn.id), None)

    async def cancel(self, turn: OpenTurn) -> None:
        """Returns when it has ended. Raises ``Unavailable``."""
        if isinstance(await self._store.order(_order(turn, "cancel")), NotOpen):
            return
        with self._bell.listening(turn.id) as ear:
            await self._bell.ring(turn.holder, turn.id)
            between = Pauses(wait=ear.heard)
            while await self.is_open(turn):
                if not await between.pause():
                    self._metrics.asked.labels("cancel", "unanswered").inc()
                    raise _unanswered(turn, "It may still be cancelled; retrieve it to see.")
        self._metrics.asked.labels("cancel", "answered").inc()

    async def _ask(self, turn: OpenTurn, order: Order, key: Key | None) -> Told | None:
        outcome = await self._store.order(order, key)
        if isinstance(outcome, KeyReused):
            raise key_reused()
        if isinstance(outcome, NotOpen | Fenced):
            return None
        if turn.holder == self._keeper.holder:
            await self.look_here()
        else:
            await self._bell.ring(turn.holder, turn.id)
        return await self.answer(replace(order, id=outcome.order_id), turn)

    async def answer(self, order: Order, turn: OpenTurn | None = None) -> Told | None:
        """What became of it, once that is known; None if the turn ended before."""
        with self._bell.listening(order.turn_id) as ear:
            return await self._answer(order, turn, Pauses(wait=ear.heard))

    async def _answer(self, order: Order, turn: OpenTurn | None, between: Pauses) -> Told | None:
        while True:
            found = await self._store.find_order(order.id, order.owner)
            if found is None or found.state not in ("asked", "accepted") or found.reply:
                break
            if turn is not None:
                await self.is_open(turn)
            if not await between.pause():
                found = await self._store.withdraw(order.id, order.owner)
                if found is None or (found.state != "accepted" and not found.reply):
                    self._metrics.asked.labels(order.kind, "unanswered").inc()
                    raise _unanswered(order.turn_id, _WITHDRAWN[order.kind == "steer"])
                break
        self._metrics.asked.labels(order.kind, "answered").inc()
        return None if found is None else _told(found)


_WITHDRAWN = {
    True: "The steer was taken back, and will not be applied; send it again.",
    False: "It may still be done; retrieve the response to see.",
}


def _order(turn: OpenTurn, kind: OrderKind) -> Order:
    return Order(
        id=new_id("steer" if kind == "steer" else "order"),
        turn_id=turn.id,
        owner=turn.owner,
        kind=kind,
        state="asked",
        reply=b"",
    )


def _told(order: Order) -> Told | None:
    if order.reply:
        said = _reply.decode(order.reply)
        return Told(said.receipt, said.successor_id)
    if order.kind == "steer" and order.state in ("accepted", "pending", "applied"):
        receipt = SteerReceipt(id=order.id, previous_response_id=order.turn_id)
        return Told(SteerAccepted(sequence_number=0, steer=receipt), order.applied_by)
    return None


def _as_asked(event: Steer, told: Told | None) -> Told | None:
    """With the name by which the client calls the response, which may be the one that was
    steered before."""
    if told is None:
        return None
    receipt: Event | None = told.receipt
    if isinstance(receipt, SteerAccepted | SteerFailed):
        steer = replace(receipt.steer, previous_response_id=event.previous_response_id)
        receipt = replace(receipt, steer=steer)
    return Told(receipt, told.successor_id)


def _failed(event: Steer, why: str) -> Told:
    return Told(Desk().failed(event, None, "invalid_input", why), None)


def _unanswered(turn: OpenTurn | str, more: str) -> Unavailable:
    name = turn if isinstance(turn, str) else turn.id
    return Unavailable(
        f"The server that runs response '{name}' did not answer in {_PATIENCE:.0f} s. {more}",
        code="response_elsewhere",
        retry_after=1,
    )

"""A turn that is to be kept: put on record before anybody hears of it, and again as it ends.

The engine begins at once, beside the first write. What may be said when is decided in
``conversation/keeping.py``.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
import uuid
from collections.abc import Callable, Coroutine, Iterable, Sequence
from functools import partial
from typing import Any, Literal

import msgspec
from msgspec import Raw, Struct

from vivace.conversation.chain import Link, past_items
from vivace.conversation.keeping import END, TURN, Keeping, attempt, returned, steer
from vivace.conversation.log import Entry
from vivace.conversation.log import encode as encode_entry
from vivace.conversation.session import Ticket
from vivace.conversation.steering import Accepted as AcceptedSteer
from vivace.conversation.turn import Turn
from vivace.errors import RequestError, StoreError, Unavailable
from vivace.gateway.archive import no_parent
from vivace.gateway.keeping.outlet import KeptOutlet
from vivace.gateway.keeping.owed import Owed
from vivace.gateway.keeping.presence import Claims, Presence
from vivace.gateway.meter import Outlet
from vivace.protocol.codec import encode
from vivace.protocol.events import Response
from vivace.protocol.once import Once, key_reused
from vivace.store.base import (
    Accepted,
    Ended,
    Fenced,
    Journal,
    Key,
    KeyReused,
    NewTurn,
    Order,
    Ordered,
    Store,
    TurnEnd,
    TurnRecord,
    UnknownParent,
)

__all__ = ["Keeper", "KeptTurn", "Repeated", "Request", "TakenAway", "not_applied", "stored_key"]

log = logging.getLogger("vivace.turns")


class TakenAway(Exception):
    """Another gateway has the turn by now, or it was deleted: nothing more may be said of it."""


class Request(Struct, frozen=True):
    """What a turn's record has of how it began: enough to tell of it, or to run it, again."""

    body: Raw
    """The body of its create request, but for the input."""
    response: Response
    """As it was created."""
    line: tuple[str, ...] = ()
    """The steered turns that it follows."""


class Repeated(Exception):
    """Another request with this key came first, and has this turn."""

    def __init__(self, turn_id: str) -> None:
        super().__init__(turn_id)
        self.turn_id = turn_id


def stored_key(once: Once | None) -> Key | None:
    return None if once is None else Key(key=once.key, request_hash=once.fingerprint)


class _Doubtful(Struct, frozen=True):
    owner: str
    since: float


class Keeper:
    """Where this process keeps its turns."""

    def __init__(
        self,
        store: Store,
        journal: Journal | None,
        holder: str,
        *,
        must: bool,
        dead_after: float | None = None,
    ) -> None:
        """``holder`` is this run of this gateway. ``must``: no turn that is to be kept begins
        without its record; where this is false, one that cannot be kept says so when it ends.
        ``dead_after``: after how many seconds others that share the store count it as gone."""
        self.store = store
        self.journal = journal
        self.holder = holder
        self.must = must
        self.presence = Presence(store, holder, dead_after)
        self.presence.claims.append(self._claims)
        self.open: dict[str, KeptTurn] = {}
        """Those that are worked on here."""
        self.taken: set[str] = set()
        """Turns to come that another took before they began."""
        self.owed = Owed(store, self.forget)
        self.on_record: set[str] = set()
        """Turns to come that went on record with the end of those they follow."""
        self.doubtful: dict[str, _Doubtful] = {}
        """Turns with a key that may be on record, though their client was told otherwise."""

    def _claims(self) -> Claims:
        begun = {each.id: (each.epoch, each.lose) for each in self.open.values() if each.is_there}
        return {name: (1, partial(self._lose_next, name)) for name in self.on_record} | begun

    async def _lose_next(self, turn_id: str) -> None:
        self.taken.add(turn_id)

    def lasts(self, turn_id: str) -> bool:
        """Whether a turn to come can be handed over: it is on record, and others share that."""
        return self.presence.shared and turn_id in self.on_record

    def may_be_on_record(self, new: NewTurn) -> None:
        """Though its client is told otherwise: under its key it can begin after all, without one
        nobody can ask for it."""
        if new.key is not None:
            self.doubtful[new.id] = _Doubtful(new.owner, time.monotonic())
        else:
            self.owed.withdraw(new)

    def begin(self, ticket: Ticket, response: Response, owner: str, outlet: Outlet) -> KeptTurn:
        self.remember(ticket.id, response, ())
        return KeptTurn(self, self.new_turn(ticket, response, owner), outlet)

    def go_on(
        self,
        ticket: Ticket,
        record: TurnRecord,
        created: Response,
        outlet: Outlet,
        *,
        anew: bool = True,
    ) -> KeptTurn:
        """With a turn that was taken from a gateway that is gone; ``anew``: on another engine."""
        new = self.new_turn(ticket, created, record.owner)
        kept = KeptTurn(self, new, outlet, epoch=record.epoch, attempt=record.attempt)
        kept.is_on_record(each.id for each in ticket.steers)
        if anew:
            kept.attempt()
        return kept

    def remember(self, turn_id: str, created: Response, entries: Iterable[bytes]) -> None:
        """Write down again what an earlier gateway had of a turn that goes on here."""
        if self.journal is not None:
            for data in (encode(created), *entries):
                self.journal.append(turn_id, data)

    def forget(self, turn_id: str) -> None:
        """Its end is on record."""
        if self.journal is not None:
            self.journal.ended(turn_id)

    async def write_owed(self) -> None:
        """What the store did not take, if it does now."""
        with contextlib.suppress(StoreError):  # its trouble is known, and told elsewhere
            await self.owed.write()

    def deleted(self) -> None:
        """Turns were deleted, of which ``wipe`` leaves no words."""
        if self.journal is not None:
            self.journal.deleted()

    def wipe(self) -> None:
        if self.journal is not None:
            self.journal.wipe()

    def close(self) -> None:
        if self.journal is not None:
            self.journal.close()

    def new_turn(self, ticket: Ticket, response: Response, owner: str) -> NewTurn:
        parent = ticket.parent
        said: Sequence[Any] = ticket.input
        if parent is not None and not parent.kept:
            # Nobody else knows what came before, so the turn brings all of it.
            said = (*past_items(parent), *ticket.input)
        body = msgspec.structs.replace(ticket.request.body, input=None)
        return NewTurn(
            id=ticket.id,
            owner=owner,
            previous_id=parent.id if parent is not None and parent.kept else None,
            holder=self.holder,
            request=encode(Request(Raw(encode(body)), response, tuple(sorted(ticket.line)))),
            input=encode(said),
            created_at=response.created_at,
            background=ticket.background,
            key=stored_key(ticket.request.once),
            applied=tuple(each.id for each in ticket.carried),
        )


class KeptTurn:
    """One of them, from its first write to its last."""

    def __init__(
        self, keeper: Keeper, new: NewTurn, outlet: Outlet, *, epoch: int = 1, attempt: int = 1
    ) -> None:
        self._keeper = keeper
        self._new = new
        self.epoch = epoch
        self._attempt = attempt
        self._keeping = Keeping()
        presence = keeper.presence
        self.outlet = KeptOutlet(outlet, self._keeping, presence if presence.shared else None)
        self._writes: set[asyncio.Task[None]] = set()
        self._accepting: asyncio.Task[None] | None = None
        self._on_record: asyncio.Future[bool] | None = None
        """Whether it came there; None for one that was there before."""
        self._begins: Callable[[], None] | None = None
        """Puts it on record, where that waits for the first that happens to it."""
        self._awaited = False
        self._ordered: set[str] = set()
        self._refused: set[str] = set()
        """Its steers that are on record."""
        self.lost = False
        """It is not on record, and goes on all the same."""
        self.told_otherwise = False
        """It came on record before its engine was known, and was told with that."""
        self.taken = False
        """It is another's, or deleted."""
        self.stop: Callable[[Literal["fault", "taken"]], object] = lambda _: None
        """Has it end, because of what became of a write."""

    @property
    def id(self) -> str:
        return self._new.id

    @property
    def number(self) -> int:
        """Of the engine that works on it, counted over all gateways."""
        return self._attempt

    @property
    def is_there(self) -> bool:
        """Whether it is known to be on record, and not known to be another's."""
        on_record = self._on_record
        return not self.taken and (
            on_record is None or (on_record.done() and on_record.result() and not self.lost)
        )

    @property
    def may_be_refused(self) -> bool:
        """Whether it is not on record, nor on its way there."""
        return self._begins is not None

    async def lose(self) -> None:
        self.fall_silent()

    def fall_silent(self) -> None:
        """Another has it by now: not a word more."""
        self.taken = self.outlet.silent = True
        self.stop("taken")

    # -- its beginning ----------------------------------------------------------------------------

    def accept(self, turned_away: Callable[[], None]) -> None:
        """Begin to put it on record. ``turned_away`` is called if it may not be."""
        self._keeper.open[self.id] = self
        self._on_record = self._on_record or asyncio.get_running_loop().create_future()
        self._accepting = self._write(self._accept(turned_away, self._on_record))

    def put_on_record(self, turned_away: Callable[[], None], *, later: bool = False) -> None:
        """The same, unless it is there already. ``later``: with the first that happens to it. Until
        then it may be refused, and leaves no trace."""
        if self.id not in self._keeper.on_record:
            if later:
                self._on_record = asyncio.get_running_loop().create_future()
                self._begins = partial(self.accept, turned_away)
            else:
                self.accept(turned_away)
            return
        self._keeper.on_record.discard(self.id)
        self.told_otherwise = True
        self.is_on_record()
        if self.id in self._keeper.taken:
            self._keeper.taken.discard(self.id)
            self.fall_silent()

    def is_on_record(self, steers: Iterable[str] = ()) -> None:
        """The turn before it put it there, or another gateway; and these steers of it, too."""
        self._keeper.open[self.id] = self
        self._keeping.recorded(TURN)
        self._ordered.update(steers)

    async def accepted(self) -> None:
        """Wait for that; raises why it was turned away."""
        if self._accepting is not None:
            self._awaited = True
            await asyncio.shield(self._accepting)

    async def _accept(
        self, turned_away: Callable[[], None], on_record: asyncio.Future[bool]
    ) -> None:
        try:
            outcome = await self._keeper.store.accept(self._new)
            if outcome != Accepted(self._new.id):
                raise _why_not(outcome, self._new)
            on_record.set_result(True)
        except Exception as error:
            on_record.set_result(False)
            passing = isinstance(error, StoreError) and not self._new.background
            if not passing or self._keeper.must or self._new.key is not None:
                if isinstance(error, StoreError) and error.uncertain:
                    self._keeper.may_be_on_record(self._new)
                if not self._awaited:  # else the error says so
                    turned_away()
                raise
            log.warning("not on record turn=%s", self._new.id, exc_info=error)
            self.lost = True
        await self.outlet.recorded(TURN)

    # -- what happens to it -----------------------------------------------------------------------

    def enter(self, entry: Entry) -> None:
        if self._begins is not None:
            begin, self._begins = self._begins, None
            begin()
        if self._keeper.journal is not None:
            self._keeper.journal.append(self._new.id, encode_entry(entry))

    def attempt(self) -> None:
        """Another engine goes on; begin to put that on record. What was said is in the journal."""
        self._attempt += 1
        self._keeping.begin_attempt(self._attempt)
        self._write(self._go_on(self._attempt))

    async def _go_on(self, number: int) -> None:
        try:
            if await self.begun():
                await self._keeper.presence.renewed()  # if it is given up, that stays on record
                outcome = await self._keeper.store.attempt(
                    self._new.id, self.epoch, number, "", b""
                )
                if isinstance(outcome, Fenced):
                    self.fall_silent()
                    return
        except StoreError as error:
            log.warning("an attempt is not on record turn=%s", self._new.id, exc_info=error)
        except Exception as error:  # noqa: BLE001 - whatever it is, it ends the turn
            self._fault(error)
        await self.outlet.recorded(attempt(number))

    async def begun(self) -> bool:
        """Whether it is on record, once that is known: what happens to it may not come there first,
        and a store with several connections keeps no order. A client that reads slowly is not
        waited for."""
        return self._on_record is None or await asyncio.shield(self._on_record)

    def steered(self, order: AcceptedSteer, *, at_item_end: bool) -> None:
        """Begin to put a steer on record."""
        self._write(self._order(order, at_item_end))

    async def _order(self, given: AcceptedSteer, at_item_end: bool) -> None:
        order = Order(
            id=given.id,
            turn_id=self._new.id,
            owner=self._new.owner,
            kind="steer",
            input=bytes(given.input),
            at_item_end=at_item_end,
        )
        try:
            if await self.begun():
                key = stored_key(given.once)
                outcome = await self._keeper.store.order(order, key, epoch=self.epoch)
                if isinstance(outcome, Fenced):
                    self._refused.add(given.id)
                    self.fall_silent()
                    return
                if outcome == Ordered(given.id):
                    self._ordered.add(given.id)
                else:
                    log.warning("a steer came too late turn=%s", self._new.id)
        except StoreError as error:
            log.warning("a steer is not on record turn=%s", self._new.id, exc_info=error)
        except Exception as error:  # noqa: BLE001 - the same
            self._fault(error)
        await self.outlet.recorded(steer(given.id))

    def _fault(self, error: Exception) -> None:
        """What nobody foresaw ends it, rather than that its words wait for ever."""
        log.error("fault turn=%s", self._new.id, exc_info=error)
        self.stop("fault")

    def has_refused(self, steer_id: str) -> bool:
        """Whether another gateway had the turn before this steer was on record."""
        return steer_id in self._refused

    async def written(self) -> None:
        """Wait until all that was begun to be written is."""
        while self._writes:
            await asyncio.wait(self._writes)

    # -- its end ----------------------------------------------------------------------------------

    async def end(
        self, turn: Turn, link: Link, pending: Sequence[str], follows: NewTurn | None
    ) -> None:
        """Raises ``StoreError`` when it cannot be put on record, ``TakenAway`` when it may not."""
        await self.written()
        if follows is not None:
            await self._keeper.presence.back()
        if self.taken:
            raise TakenAway
        if self.lost:
            raise StoreError("The turn could not be put on record when it began.")
        if follows is not None:  # which brings the words of the others all the same
            applied = tuple(each for each in follows.applied if each in self._ordered)
            follows = msgspec.structs.replace(follows, applied=applied)
        end = TurnEnd(
            id=turn.id,
            epoch=self.epoch,
            op=str(uuid.uuid4()),
            status=turn.status,
            response=encode(turn.response),
            cuts=turn.cuts,
            tokens=link.tokens,
            successor=follows,
            pending=tuple(pending),
        )
        try:
            outcome = await self._keeper.store.end(end)
        except StoreError:
            self._keeper.owed.end(end)
            raise
        if isinstance(outcome, Fenced):
            raise TakenAway
        if not isinstance(outcome, Ended):
            raise StoreError("A steer of the turn is not open any more.")
        self.outlet.certain()
        for each in outcome.returned:
            self._keeping.recorded(returned(each))
        self.close()
        await self.outlet.recorded(END)

    def close(self) -> None:
        """Nothing more needs to be known of how it went, unless its end is still to be written."""
        if self._begins is not None and self._on_record is not None:
            self._begins = None
            self._on_record.set_result(False)
        if self._keeper.open.get(self.id) is self:
            del self._keeper.open[self.id]
        if self._new.id not in self._keeper.owed:
            self._keeper.forget(self._new.id)

    async def let_go(self) -> None:
        """It ends without a record: nothing is held back any more. Raises ``TakenAway``."""
        if not self.lost:
            await self._keeper.presence.renewed()
        if self.taken:
            raise TakenAway
        self.close()
        for what in (TURN, END, attempt(self._attempt)):
            self._keeping.recorded(what)
        await self.outlet.send([])

    def _write(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._writes.add(task)
        task.add_done_callback(self._written)
        return task

    def _written(self, task: asyncio.Task[None]) -> None:
        self._writes.discard(task)
        if not task.cancelled():
            task.exception()  # whoever waits for it is told


def not_applied(response_id: str) -> Unavailable:
    return Unavailable(
        f"Another server took response '{response_id}' over before this was on record. The steer "
        "will not be applied; send it again.",
        code="response_elsewhere",
        retry_after=1,
    )


def _why_not(outcome: object, new: NewTurn) -> RequestError | Repeated:
    if isinstance(outcome, Accepted):
        return Repeated(outcome.turn_id)
    if isinstance(outcome, KeyReused):
        return key_reused()
    if isinstance(outcome, UnknownParent):
        return no_parent(
            f"Response '{new.previous_id}' cannot be continued: it is not kept any more, or one "
            "before it was deleted. Send the conversation again."
        )
    return Unavailable("The turn could not be put on record; try again.", retry_after=1)

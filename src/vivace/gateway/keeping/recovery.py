"""What becomes of the turns that were open when a gateway died.

An engine on a node goes on meanwhile, and its node has all that was said: such a turn runs on here
as if nothing had happened. Of other turns all that they had said is in the gateway's journal. Those
in the background go on; the others are parked: no engine works on them until their client is back,
and they end when it does not come. Where something is missing, a client may have seen more of a
turn than is known, so it fails; one in the background runs again, and its numbers say that
something was lost.

Whoever asks finds such a turn from the start on: it is in the directory of running ones until the
run that goes on with it takes its place there.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from functools import partial

from msgspec.structs import replace

from vivace.conversation.chain import Link
from vivace.conversation.log import Entry, Failed, Jumped, Stopped, encode
from vivace.conversation.response import open_response
from vivace.conversation.session import Limits, Ticket
from vivace.conversation.steering import Accepted, Desk, SteerCode
from vivace.conversation.turn import Turn
from vivace.errors import InvalidRequest, LogError, RequestError, StoreError
from vivace.gateway.archive import Archive
from vivace.gateway.ids import new_id, now
from vivace.gateway.keeping.adopted import Adopted, Asked, asked_for, read, read_log
from vivace.gateway.keeping.handed_over import handed_over
from vivace.gateway.keeping.kept import Keeper, not_applied, stored_key
from vivace.gateway.keeping.presence import Claims
from vivace.gateway.keeping.waiting import WaitingTurn
from vivace.gateway.keyring import REVOKED
from vivace.gateway.ports import EngineLog, EngineLogs, RunDirectory, Told
from vivace.protocol.codec import decode_steer_input, error_frame
from vivace.protocol.codec import encode as encode_wire
from vivace.protocol.events import InterruptAccepted, ResponseEvent
from vivace.protocol.once import key_reused
from vivace.protocol.requests import Interrupt, Steer
from vivace.store.base import (
    Fenced,
    Kept,
    KeyReused,
    NotOpen,
    OpenTurn,
    Order,
    Orphan,
    TurnEnd,
    TurnRecord,
)

__all__ = ["Recovery"]

log = logging.getLogger("vivace.turns")

_LOST = (
    "This server stopped while it was in progress, and what it had said until then is lost; send "
    "the request again."
)
_LEAVES_WITHIN, _LOOK = 3.0, 0.05
"""Seconds in which a gateway that lives finds out what was taken from it, and leaves what was said;
and between two looks for that."""
_ARRIVES_WITHIN = 10.0
"""Seconds after which what the store was asked to write is on record, or never will be."""
_LOOK_AT_WAITING = 0.5
"""Seconds between two looks at turns that wait: a key that is revoked is out within one, with the
0.25 s until that is known."""
_TAKEN_WITHIN = 3600.0
"""Seconds after which an orphan that nobody else took has long been looked at again."""
_MOST_STEERS = Limits().steers
_UNABLE = "This server stopped while it was in progress, and cannot go on with it; send it again."


class Recovery:
    def __init__(
        self,
        keeper: Keeper,
        archive: Archive,
        runs: RunDirectory,
        *,
        resume_seconds: float,
        nodes: EngineLogs | None = None,
        knows: Callable[[str], bool] = lambda _: True,
        serves: Callable[[str, Asked], bool] = lambda _owner, _asked: True,
    ) -> None:
        """``nodes`` have the logs of turns whose engines outlive gateways. ``knows`` tells whether
        an owner may still use this server, ``serves`` whether a turn of an owner could run here, or
        never could run anywhere again."""
        self.go_on: Callable[[WaitingTurn], object] = lambda _: None
        """Has one run on whose engine has not stopped."""
        self._nodes = nodes
        self._knows = knows
        self._serves = serves
        self._left_to_others: dict[str, float] = {}
        """Since when: turns that this gateway cannot go on with."""
        self._keeper = keeper
        self._archive = archive
        self._runs = runs
        self._seconds = resume_seconds
        self._waiting: dict[str, WaitingTurn] = {}
        self._left: dict[str, Orphan] = {}
        """Found, and not dealt with yet."""
        self._taking = asyncio.Lock()
        """Of who takes turns for this gateway, one at a time."""
        keeper.presence.claims.append(self._claims)

    # -- what was left ----------------------------------------------------------------------------

    async def look(self, *, dead_after: float = 0) -> int:
        """Take the turns of gateways that said nothing for so many seconds; returns how many. When
        the store fails meanwhile, the next look goes on with them."""
        keeper, taken = self._keeper, 0
        journal = keeper.journal
        said = {kept.id: kept for kept in journal.left()} if journal is not None else {}
        await keeper.presence.beat()
        if dead_after and not keeper.presence.may_judge:
            return 0
        while True:
            async with self._taking:
                left = self._still_left_to_others()
                for orphan in await keeper.store.orphans(keeper.holder, dead_after, but=left):
                    self._left[orphan.id] = orphan
                if not self._left:
                    break
                taken += await self._take_over([*self._left.values()], said, dead_after)
        if journal is not None:
            journal.forget_left()
        if taken:
            going_on = sum(each.background for each in self._waiting.values())
            log.warning(
                "%d turns were open when a gateway stopped; %d go on, %d wait for their clients",
                taken,
                going_on,
                len(self._waiting) - going_on,
            )
        return taken

    async def take(self, turn: OpenTurn) -> None:
        """Somebody asks for it, and its gateway is gone: nobody waits for the next look."""
        if turn.id not in self._still_left_to_others():
            await self._take(turn, self._keeper.presence.dead_after)

    async def bring(self, turn: OpenTurn) -> None:
        """Its client is here: it moves, if its engine is one that another gateway can go on with.
        Else it stays where it is."""
        if self._nodes is None:
            return
        record = await self._keeper.store.find(turn.id, turn.owner)
        if record is None or record.status is not None or not self._can_serve(record):
            return
        if await self._nodes.has(turn.id, record.attempt):
            await self._take(turn, dead_after=0, lives=True)

    async def _take(self, turn: OpenTurn, dead_after: float, *, lives: bool = False) -> None:
        """``lives``: who has it is there, and finds out that it was taken."""
        async with self._taking:
            orphan = self._left[turn.id] = Orphan(
                id=turn.id,
                owner=turn.owner,
                epoch=turn.epoch,
                background=turn.background,
                parked_until=None,
            )
            await self._take_over([orphan], {}, dead_after, lives=lives)

    async def taken(self) -> None:
        """Wait until what is being taken is here."""
        async with self._taking:
            pass

    def _claims(self) -> Claims:
        return {
            each.id: (each.adopted.record.epoch, partial(self._lose_waiting, each))
            for each in self._waiting.values()
        }

    async def _lose_waiting(self, waiting: WaitingTurn) -> None:
        if not waiting.over:
            await self._lose(waiting)

    async def _take_over(
        self,
        orphans: Iterable[Orphan],
        said: Mapping[str, Kept],
        dead_after: float,
        *,
        lives: bool = False,
    ) -> int:
        keeper, turns = self._keeper, list[TurnRecord]()
        for orphan in orphans:
            if orphan.id in self._waiting or orphan.id in keeper.open:  # since it was found
                del self._left[orphan.id]
                continue
            if keeper.presence.shared and not lives and await self._leaves_to_others(orphan):
                del self._left[orphan.id]
                continue
            outcome = await keeper.store.take(orphan.id, orphan.epoch, keeper.holder, dead_after)
            if isinstance(outcome, Fenced):
                del self._left[orphan.id]
            else:
                turns.append(outcome.turn)
        orders = await keeper.store.open_orders([each.id for each in turns]) if turns else []
        # Together: a node that does not answer is waited for.
        adopting = (self._adopt_left(each, said.get(each.id), orders, lives) for each in turns)
        failed = await asyncio.gather(*adopting, return_exceptions=True)
        for error in filter(None, failed):
            raise error
        return len(turns)

    async def _leaves_to_others(self, orphan: Orphan) -> bool:
        """Return whether other gateways are given time to take a turn that cannot go on here: they
        may have other keys and models, or its own may be started again."""
        record = await self._keeper.store.find(orphan.id, orphan.owner)
        if record is None or self._can_serve(record):
            return False
        since = self._left_to_others.setdefault(orphan.id, time.monotonic())
        return time.monotonic() <= since + self._seconds

    def _can_serve(self, record: TurnRecord) -> bool:
        return self._serves(record.owner, asked_for(record))

    def _still_left_to_others(self) -> list[str]:
        now = time.monotonic()
        for turn_id, since in [*self._left_to_others.items()]:
            if now > since + self._seconds + _TAKEN_WITHIN:  # another has it, or it has ended
                del self._left_to_others[turn_id]
        return [
            each for each, since in self._left_to_others.items() if now <= since + self._seconds
        ]

    async def _adopt_left(
        self, record: TurnRecord, left: Kept | None, orders: Iterable[Order], lives: bool
    ) -> None:
        log = None
        if left is None and self._nodes is not None:
            log = await self._nodes.take(record.id, record.epoch, record.attempt)
        if log is None and lives:  # its node fell silent in this very moment
            record = await self._left_by(record)
        runs_on = False
        try:
            adopted = read(record, left) if log is None else await self._of_node(record, log)
            runs_on = await self._adopt(adopted, orders, log)
        finally:
            if log is not None and not runs_on:
                log.close()
        del self._left[record.id]

    async def _left_by(self, record: TurnRecord) -> TurnRecord:
        """With what was said, by who had the turn before: that is put on record as soon as it is
        known there that the turn was taken."""
        until = time.monotonic() + _LEAVES_WITHIN
        while handed_over(record) is None and time.monotonic() < until:
            await asyncio.sleep(_LOOK)
            found = await self._keeper.store.find(record.id, record.owner)
            if found is None or found.epoch != record.epoch:
                break
            record = found
        return record

    async def _of_node(self, record: TurnRecord, log: EngineLog) -> Adopted:
        """A word of the newest attempt may be told when that is on record."""
        if log.attempt > record.attempt:
            await self._keeper.store.attempt(record.id, record.epoch, log.attempt, "", b"")
            record = replace(record, attempt=log.attempt)
        return read_log(record, log)

    async def _adopt(
        self, adopted: Adopted, orders: Iterable[Order], log: EngineLog | None
    ) -> bool:
        """Whether its engine goes on with it."""
        record = adopted.record
        mine = [each for each in orders if each.turn_id == record.id]
        steers = (each for each in mine if each.kind == "steer" and each.state == "accepted")
        if adopted.whole or record.background:
            adopted.take_steers(steers)
        if adopted.turn().ended:  # only its record was missing
            await self._end(adopted)
            return False
        if not adopted.whole:
            # What is known may not be all that was seen, nor may it be the first time.
            adopted.entries = [Jumped(now())] * max(1, record.epoch - 1)
        if not adopted.whole and not record.background:
            await self._end(adopted, Failed(now(), "lost_midway", _LOST))
            return False
        if log is not None and log.goes_on and adopted.whole:
            self.go_on(await self._hold(adopted, log))
            return True
        await self._hold(adopted)
        if not record.background:
            with contextlib.suppress(StoreError):  # it waits all the same
                await self._keeper.store.park(record.id, record.epoch, self._seconds)
        return False

    async def _hold(
        self, adopted: Adopted, log: EngineLog | None = None, *, begins: bool = False
    ) -> WaitingTurn:
        """It can be found and read, and waits for an engine."""
        record = adopted.record
        self._keeper.remember(adopted.record.id, adopted.created, map(encode, adopted.entries))
        told = await self._archive.events.open(adopted.created, record.owner)
        for entry in adopted.entries:
            told.enter(entry)
        told.said(adopted.turn().next_number - 1)
        seconds = math.inf if record.background else self._seconds
        waiting = WaitingTurn(self, adopted, told, seconds, log, begins=begins)
        self._waiting[record.id] = waiting
        await self._runs.began(waiting)
        return waiting

    # -- who comes for it -------------------------------------------------------------------------

    async def find(self, response_id: str, owner: str) -> WaitingTurn | None:
        if response_id in self._keeper.doubtful:
            await self._begin_after_all(response_id)
        found = self._waiting.get(response_id)
        return found if found is not None and found.owner == owner else None

    @property
    def has_waiting(self) -> bool:
        return bool(self._waiting)

    @property
    def waiting(self) -> list[WaitingTurn]:
        return [*self._waiting.values()]

    def wanted(self) -> list[WaitingTurn]:
        """Those that an engine is to work on, and may have room for by now."""
        now = time.monotonic()
        return [each for each in self._waiting.values() if each.wanted and each.not_before <= now]

    async def begin_doubtful(self) -> None:
        """Who sends such a request again may do so at another gateway, which waits for this one.
        Raises ``StoreError``."""
        for response_id in [*self._keeper.doubtful]:
            await self._begin_after_all(response_id)

    async def _begin_after_all(self, response_id: str) -> None:
        """One that went on record though its client was refused: nobody has heard a word of it."""
        doubtful = self._keeper.doubtful
        if (asked := doubtful.get(response_id)) is None:
            return
        record = await self._keeper.store.find(response_id, asked.owner)
        if record is None:
            if time.monotonic() > asked.since + _ARRIVES_WITHIN:
                doubtful.pop(response_id, None)
        elif doubtful.pop(response_id, None) and record.holder == self._keeper.holder:
            await self._hold(read(record, None), begins=True)

    async def parent(self, adopted: Adopted) -> Link | None:
        record = adopted.record
        if record.previous_id is None:
            return None
        link = await self._archive.link(record.previous_id, record.owner)
        if link is None:
            raise LogError("The turn before it is not kept any more.")
        return link

    async def unpark(self, waiting: WaitingTurn) -> bool:
        """Put on record that an engine is to work on it; False if it is another's by now."""
        record = waiting.adopted.record
        if not record.background and waiting.log is None:
            outcome = await self._keeper.store.park(record.id, record.epoch, None)
            if isinstance(outcome, Fenced):
                await self._lose(waiting)
                return False
        return True

    async def park_again(self, waiting: WaitingTurn) -> None:
        """No engine has room for it."""
        waiting.leave_engine()
        waiting.wait()
        record = waiting.adopted.record
        if not record.background:
            await self._keeper.store.park(record.id, record.epoch, self._seconds)

    def runs(self, response_id: str) -> None:
        """A run has taken its place."""
        waiting = self._waiting.pop(response_id, None)
        if waiting is not None:
            waiting.over = True

    # -- when nobody does -------------------------------------------------------------------------

    async def watch(self) -> None:
        """End those whose clients do not come back, or may not any more."""
        while True:
            await asyncio.sleep(min(_LOOK_AT_WAITING, self._seconds / 4))
            for waiting in self.waiting:
                how = self._why_over(waiting)
                if how is not None:
                    with contextlib.suppress(StoreError):  # it is away, and tells of it itself
                        await self._end_waiting(waiting, how)

    def _why_over(self, waiting: WaitingTurn) -> Entry | None:
        with contextlib.suppress(RequestError):  # nobody can say yet who may come in
            if not self._knows(waiting.owner):
                return Failed(now(), "invalid_api_key", REVOKED)
        return Stopped(now(), "away") if waiting.late else None

    async def steer(self, waiting: WaitingTurn, event: Steer) -> Told:
        """It is on record when this returns, and carried out as soon as an engine works on the
        turn. One that has an ``id`` is on record already."""
        async with waiting.busy:
            if not waiting.over:
                return await self._steer(waiting, event)
        run = await self._runs.find(waiting.id, waiting.owner)
        if run is not None:  # an engine was faster
            return await run.tell(event)
        return _refused(event, "response_already_completed", "The response has ended.")

    async def _steer(self, waiting: WaitingTurn, event: Steer) -> Told:
        adopted = waiting.adopted
        if len(adopted.steers) >= _MOST_STEERS:
            why = f"{_MOST_STEERS} steers are waiting for this response already."
            return _refused(event, "too_many_pending_steers", why)
        try:
            items = decode_steer_input(event.input)
        except RequestError as error:
            return _refused(event, "invalid_input", error.message)
        steer = Order(
            id=event.id or new_id("steer"),
            turn_id=waiting.id,
            owner=waiting.owner,
            kind="steer",
            input=bytes(event.input),
            at_item_end=event.when == "item_end",
        )
        if event.id is None:
            key, epoch = stored_key(event.once), adopted.record.epoch
            outcome = await self._keeper.store.order(steer, key, epoch=epoch)
            if isinstance(outcome, Fenced):
                await self._lose(waiting)
                return Told(error_frame(not_applied(waiting.id)), None)
            if isinstance(outcome, KeyReused):
                raise key_reused()
            if isinstance(outcome, NotOpen):
                return _refused(event, "response_already_completed", "The response has ended.")
            steer = replace(steer, id=outcome.order_id)
        if all(each.id != steer.id for each in adopted.steers):
            adopted.take_steers((*adopted.steers, steer))
        accepted = Accepted(steer.id, event.previous_response_id, event.input, items)
        return Told(Desk().accepted(accepted, None), adopted.successor)

    async def interrupt(self, waiting: WaitingTurn, event: Interrupt) -> Told:
        async with waiting.busy:
            if await self.give_up(waiting, Stopped(now(), "interrupt")):
                return Told(InterruptAccepted(response_id=waiting.id), None)
        run = await self._runs.find(waiting.id, waiting.owner)
        if run is not None:  # an engine was faster, or another gateway
            return await run.tell(event)
        ended = InvalidRequest("The response has ended.", code="response_already_completed")
        return Told(error_frame(ended), None)

    async def cancel(self, waiting: WaitingTurn) -> None:
        await self._end_waiting(waiting, Stopped(now(), "cancel"))
        run = await self._runs.find(waiting.id, waiting.owner)
        if run is not None:  # an engine was faster
            await run.cancel()

    async def _end_waiting(self, waiting: WaitingTurn, how: Entry) -> None:
        async with waiting.busy:
            await self.give_up(waiting, how)

    async def give_up(self, waiting: WaitingTurn, how: Entry | None = None) -> bool:
        """Nothing will come of it; who reads it is told. For who has it ``busy``. Whether it was
        still to be ended, and by us."""
        if waiting.over:
            return False
        how = how or Failed(now(), "server_restarted", _UNABLE)
        ended = await self._end(waiting.adopted, how)
        if ended is None:
            await self._lose(waiting)
            return False
        waiting.record.enter(how)
        waiting.record.said(ended.next_number - 1)
        await self._drop(waiting)
        return True

    async def _lose(self, waiting: WaitingTurn) -> None:
        """It is another's by now, who tells its end: what is here is not all of it."""
        await self._drop(waiting, lost=True)
        self._keeper.forget(waiting.id)
        await self._archive.events.delete(waiting.id, waiting.owner)

    async def _drop(self, waiting: WaitingTurn, *, lost: bool = False) -> None:
        waiting.over = True
        waiting.leave_engine()
        self._waiting.pop(waiting.id, None)
        await self._runs.ended(waiting)
        await waiting.record.end(steered=False, lost=lost)

    async def refused(self, ticket: Ticket, how: Failed) -> list[ResponseEvent]:
        """A turn that the one before it put on record: that has its steers, so they are not handed
        back, and it fails as it begins. Returns its events; none of a turn that is not on record.
        """
        self._keeper.forget(ticket.id)
        if ticket.id not in self._keeper.on_record:
            return []
        self._keeper.on_record.discard(ticket.id)
        ticket.carried = []
        model = ticket.request.body.model or ""
        turn = Turn(open_response(ticket.request, ticket.id, model, how.at), ticket.lane)
        events = turn.apply(how)
        end = _end_of(turn, epoch=1)
        try:
            await self._keeper.store.end(end)
        except StoreError as error:
            self._keeper.owed.end(end)
            log.warning("an end is not on record turn=%s: %s", ticket.id, error)
        return events

    async def _end(self, adopted: Adopted, how: Entry | None = None) -> Turn | None:
        """None if it is another's by now."""
        turn, record = adopted.turn(), adopted.record
        if how is not None:
            turn.apply(how)
        outcome = await self._keeper.store.end(_end_of(turn, record.epoch))
        self._keeper.forget(record.id)
        return None if isinstance(outcome, Fenced) else turn


def _refused(event: Steer, code: SteerCode, why: str) -> Told:
    return Told(Desk().failed(event, None, code, why), None)


def _end_of(turn: Turn, epoch: int) -> TurnEnd:
    return TurnEnd(
        id=turn.id,
        epoch=epoch,
        op=str(uuid.uuid4()),
        status=turn.status,
        response=encode_wire(turn.response),
        cuts=turn.cuts,
    )

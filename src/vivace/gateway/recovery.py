"""What becomes of the turns that were open when a gateway died.

All that they had said is in its journal. Those in the background go on; the others are parked: no
engine works on them until their client is back, and they end when it does not come. Where something
of the journal is missing, a client may have seen more of a turn than is known, so it fails; one in
the background runs again, and its numbers say that something was lost.
"""

from __future__ import annotations

import asyncio
import logging
import time
import uuid

import msgspec
from msgspec import Struct

from vivace.conversation.chain import Link, past_items
from vivace.conversation.deltas import Delta, Finished
from vivace.conversation.log import Entry, Failed, Jumped, Said, Stopped, decode, encode
from vivace.conversation.response import open_response, read_response
from vivace.conversation.session import Ticket
from vivace.conversation.so_far import SoFar
from vivace.conversation.turn import Turn
from vivace.errors import LogError, RequestError, StoreError
from vivace.gateway.archive import Archive
from vivace.gateway.ids import now
from vivace.gateway.kept import Keeper
from vivace.gateway.ports import RunDirectory, Told
from vivace.protocol.codec import decode_create, error_frame
from vivace.protocol.codec import encode as encode_wire
from vivace.protocol.events import Response, ResponseEvent
from vivace.protocol.items import Item
from vivace.protocol.requests import CreateBody, CreateResponse, Interrupt, Steer
from vivace.store.base import Fenced, Kept, TurnEnd, TurnRecord

__all__ = ["Adopted", "ParkedTurn", "Recovery"]

log = logging.getLogger("vivace.turns")

_LOST = (
    "This server stopped while it was in progress, and what it had said until then is lost; send "
    "the request again."
)
_UNABLE = "This server stopped while it was in progress, and cannot go on with it; send it again."


class _Request(Struct):
    body: msgspec.Raw
    response: msgspec.Raw
    line: frozenset[str] = frozenset()


_JSON = b"{"
"""Begins a response as created, and no entry of a log. What follows a steered turn is written down
before its engine is known, and once more with that: the later one was told."""

_request: msgspec.json.Decoder[_Request] = msgspec.json.Decoder(_Request)
_items: msgspec.json.Decoder[list[Item]] = msgspec.json.Decoder(list[Item])


class Adopted(Struct):
    """A turn of a gateway that is gone, and all that is known of it."""

    record: TurnRecord
    created: Response
    entries: list[Entry]
    whole: bool

    def turn(self) -> Turn:
        """As it stands."""
        turn = Turn(self.created)
        for entry in self.entries:
            turn.apply(entry)
        return turn

    def said(self) -> SoFar | None:
        """For the engine that goes on."""
        deltas: list[Delta] = []
        for entry in self.entries:
            if isinstance(entry, Jumped):
                deltas = []
            elif isinstance(entry, Said) and not isinstance(entry.delta, Finished):
                deltas.append(entry.delta)
        if not deltas:
            return None
        return SoFar(tuple(deltas), sum(len(getattr(each, "ids", ())) or 1 for each in deltas))

    def ticket(self, parent: Link | None) -> Ticket:
        """To run it by; refuses what cannot be read."""
        try:
            request = _request.decode(self.record.request or b"")
            said = tuple(_items.decode(self.record.input))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise LogError("The record of how the turn began cannot be read.") from error
        create = msgspec.structs.replace(decode_create(bytes(request.body)), items=said)
        ticket = Ticket(self.record.id, None, create, request.line)
        ticket.parent, ticket.past, ticket.input = parent, past_items(parent), said
        return ticket


class ParkedTurn:
    """One that waits for its client."""

    def __init__(self, recovery: Recovery, adopted: Adopted, seconds: float) -> None:
        self.adopted = adopted
        self.until = time.monotonic() + seconds
        self._recovery = recovery
        self._turn = adopted.turn()
        self._line = _line(adopted.record)

    @property
    def id(self) -> str:
        return self.adopted.record.id

    @property
    def owner(self) -> str:
        return self.adopted.record.owner

    def answers_to(self, response_id: str) -> bool:
        return response_id == self.id or response_id in self._line

    async def response(self) -> Response:
        return self._turn.response

    async def cancel(self) -> None:
        await self._recovery.end(self, Stopped(now(), "cancel"))

    async def tell(self, event: Steer | Interrupt) -> Told:
        problem = RequestError(
            "The response waits for its client since this server was started; resume it first.",
            code="response_not_active",
        )
        return Told(error_frame(problem), None)


class Recovery:
    def __init__(
        self, keeper: Keeper, archive: Archive, runs: RunDirectory, *, resume_seconds: float
    ) -> None:
        self._keeper = keeper
        self._archive = archive
        self._runs = runs
        self._seconds = resume_seconds
        self._going_on: list[Adopted] = []
        self._parked: dict[str, ParkedTurn] = {}
        self._busy = asyncio.Lock()

    # -- what was left ----------------------------------------------------------------------------

    async def look(self, *, dead_after: float = 0) -> int:
        """Take the turns of gateways that said nothing for so many seconds; returns how many."""
        keeper, taken = self._keeper, 0
        journal = keeper.journal
        left = {kept.id: kept for kept in journal.left()} if journal is not None else {}
        await keeper.store.beat(keeper.holder, "")
        while orphans := await keeper.store.orphans(keeper.holder, dead_after):
            for orphan in orphans:
                outcome = await keeper.store.take(orphan.id, orphan.epoch, keeper.holder)
                if not isinstance(outcome, Fenced):
                    await self._adopt(outcome.turn, left.get(orphan.id))
                    taken += 1
        if journal is not None:
            journal.forget_left()
        if taken:
            log.warning(
                "%d turns were open when a gateway stopped; %d go on, %d wait for their clients",
                taken,
                len(self._going_on),
                len(self._parked),
            )
        return taken

    async def _adopt(self, record: TurnRecord, left: Kept | None) -> None:
        adopted = _read(record, left)
        if adopted.turn().ended:  # only its record was missing
            await self._end(adopted)
            return
        if not adopted.whole and not record.background:
            await self._end(adopted, Failed(now(), "lost_midway", _LOST))
            return
        if not adopted.whole:  # it begins anew: what is known may not be all that was seen
            adopted.entries = [Jumped(now())]
        self._keeper.remember(adopted.record.id, adopted.created, map(encode, adopted.entries))
        if record.background:
            self._going_on.append(adopted)
        else:
            parked = self._parked[record.id] = ParkedTurn(self, adopted, self._seconds)
            await self._keeper.store.park(record.id, record.epoch, self._seconds)
            await self._runs.began(parked)

    # -- what becomes of it -----------------------------------------------------------------------

    def going_on(self) -> list[Adopted]:
        """Those that need no client; each is given out once."""
        given, self._going_on = self._going_on, []
        return given

    async def wake(self, response_id: str, owner: str) -> Adopted | None:
        """Its client is back: whoever gets it runs it."""
        parked = self._parked.get(response_id)
        if parked is None or parked.owner != owner:
            return None
        del self._parked[response_id]
        await self._runs.ended(parked)
        await self._keeper.store.park(response_id, parked.adopted.record.epoch, None)
        return parked.adopted

    async def parent(self, adopted: Adopted) -> Link | None:
        record = adopted.record
        if record.previous_id is None:
            return None
        link = await self._archive.link(record.previous_id, record.owner)
        if link is None:
            raise LogError("The turn before it is not kept any more.")
        return link

    async def give_up(self, adopted: Adopted, how: Failed | None = None) -> None:
        """It cannot be run again."""
        await self._end(adopted, how or Failed(now(), "server_restarted", _UNABLE))

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
        try:
            await self._keeper.store.end(_end_of(turn, epoch=1))
        except StoreError as error:  # it fails when this server is started again
            log.warning("an end is not on record turn=%s: %s", ticket.id, error)
        return events

    async def watch(self) -> None:
        """End those whose clients do not come back."""
        while True:
            await asyncio.sleep(min(1.0, self._seconds / 4))
            late = [each for each in self._parked.values() if each.until < time.monotonic()]
            for parked in late:
                try:
                    await self.end(parked, Stopped(now(), "away"))
                except StoreError:
                    parked.until += 1.0  # the store is away, and tells of it itself

    async def end(self, parked: ParkedTurn, how: Entry) -> None:
        if self._parked.pop(parked.id, None) is not None:
            try:
                await self._end(parked.adopted, how)
            except StoreError:
                self._parked[parked.id] = parked
                raise
            await self._runs.ended(parked)

    async def _end(self, adopted: Adopted, how: Entry | None = None) -> None:
        turn, record = adopted.turn(), adopted.record
        if how is not None:
            turn.apply(how)
        await self._keeper.store.end(_end_of(turn, record.epoch))
        self._keeper.forget(record.id)


def _line(record: TurnRecord) -> frozenset[str]:
    try:
        return _request.decode(record.request or b"").line
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return frozenset()


def _end_of(turn: Turn, epoch: int) -> TurnEnd:
    return TurnEnd(
        id=turn.id,
        epoch=epoch,
        op=str(uuid.uuid4()),
        status=turn.status,
        response=encode_wire(turn.response),
        cuts=turn.cuts,
    )


def _read(record: TurnRecord, left: Kept | None) -> Adopted:
    """What cannot be read is as good as lost."""
    try:
        if left is not None and left.entries:
            made, *rest = left.entries
            while rest and rest[0].startswith(_JSON):
                made, *rest = rest
            return Adopted(record, read_response(made), [*map(decode, rest)], left.whole)
        created = read_response(bytes(_request.decode(record.request or b"").response))
    except (LogError, msgspec.DecodeError, UnicodeDecodeError):
        nothing = CreateResponse(CreateBody())
        created = open_response(nothing, record.id, "", record.created_at)
    return Adopted(record, created, [], whole=False)

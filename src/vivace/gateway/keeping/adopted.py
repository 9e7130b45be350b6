"""A turn of a gateway that is gone, as the store has it and the journal, or its engine's node."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

import msgspec
from msgspec import Struct

from vivace.conversation.chain import Link, past_items
from vivace.conversation.deltas import Delta, Finished, Tokens
from vivace.conversation.log import Entry, Jumped, Said, SteerAtItemEnd, Stopped, decode
from vivace.conversation.response import open_response, read_response
from vivace.conversation.session import Ticket
from vivace.conversation.so_far import SoFar
from vivace.conversation.steering import Accepted
from vivace.conversation.tickets import id_after
from vivace.conversation.turn import Turn
from vivace.errors import LogError
from vivace.gateway.keeping.handed_over import handed_over
from vivace.gateway.meter import Meter
from vivace.gateway.ports import EngineLog
from vivace.protocol.codec import decode_create, decode_steer_input
from vivace.protocol.events import Response
from vivace.protocol.items import Item
from vivace.protocol.requests import CreateBody, CreateResponse
from vivace.store.base import Kept, Order, TurnRecord

__all__ = ["Adopted", "Asked", "asked_for", "read", "read_log"]


class _Request(Struct):
    body: msgspec.Raw
    response: msgspec.Raw
    line: frozenset[str] = frozenset()


_JSON = b"{"
"""Begins a response as created, and no entry of a log. What follows a steered turn is written down
before its engine is known, and once more with that: the later one was told."""

_request: msgspec.json.Decoder[_Request] = msgspec.json.Decoder(_Request)
_items: msgspec.json.Decoder[list[Item]] = msgspec.json.Decoder(list[Item])


class Asked(Struct, frozen=True):
    """Model and key that a gateway must have to run a turn."""

    model: str | None = None
    service_tier: str | None = None


_asked: msgspec.json.Decoder[Asked] = msgspec.json.Decoder(Asked)


class Adopted(Struct):
    """All that is known of it."""

    record: TurnRecord
    created: Response
    entries: list[Entry]
    whole: bool
    steers: tuple[Order, ...] = ()
    """Those that it has not been ended for yet."""
    steered_at_item_end: bool = False
    _successor: str | None = None
    """What their client may have been told that follows."""

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

    @property
    def line(self) -> frozenset[str]:
        """The steered turns that it follows."""
        try:
            return _request.decode(self.record.request or b"").line
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return frozenset()

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
        ticket.steers = [_accepted(each) for each in self.steers]
        ticket.successor_id = self._successor
        return ticket

    # -- steers that were on their way ------------------------------------------------------------

    @property
    def successor(self) -> str:
        """What follows it, if it is steered."""
        return self._successor or id_after(self.record.id)

    def take_steers(self, steers: Iterable[Order]) -> None:
        """They are carried out when it goes on. An end that is not on record was told to nobody,
        so one that left them to do is taken back."""
        turn = self.turn()
        if turn.status in ("failed", "cancelled") or _interrupted(turn.response):
            return
        self.steers = tuple(steers)
        if not self.steers:
            return
        self.steered_at_item_end = not turn.ended and (
            any(isinstance(each, SteerAtItemEnd) for each in self.entries)
            or all(each.at_item_end for each in self.steers)
        )
        self._successor = next(filter(None, map(_successor, reversed(self.entries))), None)
        while self.turn().ended:
            del self.entries[-1]


def _accepted(order: Order) -> Accepted:
    said = msgspec.Raw(order.input or b"null")
    return Accepted(order.id, order.turn_id, said, decode_steer_input(said))


def _successor(entry: Entry) -> str:
    return entry.successor if isinstance(entry, SteerAtItemEnd | Stopped) else ""


def _interrupted(response: Response) -> bool:
    details = response.incomplete_details
    return details is not None and details.reason == "interrupted"


def asked_for(record: TurnRecord) -> Asked:
    """Return what the request of a turn names; nothing if it cannot be read."""
    try:
        return _asked.decode(_request.decode(record.request or b"").body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return Asked()


def read(record: TurnRecord, left: Kept | None) -> Adopted:
    """What cannot be read is as good as lost."""
    try:
        if left is not None and left.entries:
            made, *rest = left.entries
            while rest and rest[0].startswith(_JSON):
                made, *rest = rest
            return Adopted(record, read_response(made), [*map(decode, rest)], left.whole)
        if (handed := handed_over(record)) is not None:
            return Adopted(record, *handed, whole=True)
        created = read_response(bytes(_request.decode(record.request or b"").response))
    except (LogError, msgspec.DecodeError, UnicodeDecodeError):
        nothing = CreateResponse(CreateBody())
        created = open_response(nothing, record.id, "", record.created_at)
    return Adopted(record, created, [], whole=False)


def read_log(record: TurnRecord, log: EngineLog) -> Adopted:
    """From what an engine that outlived its gateway has said, with all that was there before."""
    try:
        if log.created:
            created = read_response(log.created)
        else:
            created = read_response(bytes(_request.decode(record.request or b"").response))
    except (LogError, msgspec.DecodeError, UnicodeDecodeError):
        return read(record, None)
    return Adopted(record, created, [*map(partial(_counted, log.tokens), log.entries)], whole=True)


def _counted(before: Tokens, entry: Entry) -> Entry:
    """An end with all that the turn has taken: an engine knows only of its own part."""
    if not isinstance(entry, Said) or not isinstance(entry.delta, Finished):
        return entry
    meter = Meter()
    meter.before = before
    delta = entry.delta
    return Said(entry.at, Finished(delta.reason, meter.counted(delta.tokens)))

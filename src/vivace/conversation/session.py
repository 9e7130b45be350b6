"""All lanes of one connection: who runs now, who waits, what is remembered.

A session is told what happened and answers with what is to be done; it never waits. Turns of one
lane run in the order they were asked for, lanes run beside each other. An HTTP request is a
session with one turn.

::

    receive(create) ─► waiting ─► Fetch ─► found() ─► Start ─► settle()
                                   │          │         └────► refuse()
                                   │          └─ unknown ────► error frame
                                   └─ parent in memory: straight to Start
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal

from msgspec import Struct

from vivace.conversation.chain import Link, check_input, past_items
from vivace.errors import InvalidRequest, NotFound, RequestError, TooManyRequests
from vivace.protocol.codec import error_frame, error_payload
from vivace.protocol.events import Event, InterruptAccepted, SteerFailed, SteerReceipt
from vivace.protocol.items import Item, NewId, admit
from vivace.protocol.requests import ClientEvent, CreateResponse, Interrupt, Steer

__all__ = ["Decision", "Fetch", "Limits", "Say", "Session", "Start", "Stop", "StopHow", "Ticket"]

_LANE = re.compile(r"[A-Za-z0-9_.\-]{1,256}")
StopHow = Literal["interrupt", "cancel", "disconnect"]


class Limits(Struct, frozen=True):
    in_flight: int = 16
    lanes: int = 32
    waiting: int = 256


class Ticket:
    """One asked-for turn on its way through the session."""

    __slots__ = ("id", "input", "lane", "parent", "past", "request", "running")

    def __init__(self, response_id: str, lane: str | None, request: CreateResponse) -> None:
        self.id = response_id
        self.lane = lane
        self.request = request
        self.parent: Link | None = None
        self.past: list[Item] = []
        self.input: tuple[Item, ...] = ()
        self.running = False


class Say(Struct, frozen=True):
    """Send this event."""

    event: Event


class Fetch(Struct, frozen=True):
    """Look for the ticket's parent among the stored turns, then call ``found``."""

    ticket: Ticket
    response_id: str


class Start(Struct, frozen=True):
    """Run this turn, then call ``settle`` (or ``refuse`` if it cannot be begun)."""

    ticket: Ticket


class Stop(Struct, frozen=True):
    """End this running turn at the next token; it still settles."""

    ticket: Ticket
    how: StopHow


Decision = Say | Fetch | Start | Stop


class _Lane:
    __slots__ = ("active", "latest")

    def __init__(self) -> None:
        self.active: Ticket | None = None
        self.latest: Link | None = None


class Session:
    def __init__(self, new_id: NewId, limits: Limits | None = None) -> None:
        self._new_id = new_id
        self._limits = limits or Limits()
        self._lanes: dict[str | None, _Lane] = {None: _Lane()}
        self._waiting: list[Ticket] = []
        self._in_flight = 0
        self._closed = False

    @property
    def idle(self) -> bool:
        return not self._in_flight and not self._waiting

    # -- what the client says ---------------------------------------------------------------------

    def receive(self, event: ClientEvent) -> list[Decision]:
        if self._closed:
            return []
        if isinstance(event, CreateResponse):
            return self._create(event)
        if isinstance(event, Interrupt):
            return self._interrupt(event)
        return self._steer(event)

    def _create(self, request: CreateResponse) -> list[Decision]:
        lane = request.body.stream_id
        problem = self._lane_problem(lane)
        if problem is not None:
            return [Say(error_frame(problem, lane))]
        self._lanes.setdefault(lane, _Lane())
        self._waiting.append(Ticket(self._new_id("resp"), lane, request))
        return self._advance()

    def _lane_problem(self, lane: str | None) -> RequestError | None:
        if lane is not None and not _LANE.fullmatch(lane):
            return InvalidRequest(
                "A stream_id is 1 to 256 letters, digits, '_', '.' or '-'.",
                code="invalid_stream_id",
                param="stream_id",
            )
        if lane not in self._lanes and len(self._lanes) > self._limits.lanes:
            return InvalidRequest(
                f"A connection has at most {self._limits.lanes} named lanes; use one again.",
                code="websocket_stream_limit_reached",
                param="stream_id",
            )
        if len(self._waiting) >= self._limits.waiting:
            return TooManyRequests(
                f"{self._limits.waiting} turns are waiting on this connection already; wait for "
                "some of them to end.",
                code="too_many_waiting_turns",
            )
        return None

    def _interrupt(self, event: Interrupt) -> list[Decision]:
        for lane in self._lanes.values():
            ticket = lane.active
            if ticket is not None and ticket.running and ticket.id == event.response_id:
                accepted = InterruptAccepted(response_id=ticket.id)
                return [Stop(ticket, "interrupt"), Say(accepted)]
        error = NotFound(
            f"Response '{event.response_id}' is not running on this connection.",
            code="response_not_found",
            param="response_id",
        )
        return [Say(error_frame(error))]

    def _steer(self, event: Steer) -> list[Decision]:
        error = InvalidRequest(
            "This server does not steer yet; interrupt the response and create another.",
            code="steering_not_supported",
        )
        receipt = SteerReceipt(previous_response_id=event.previous_response_id, input=event.input)
        return [Say(SteerFailed(error=error_payload(error), steer=receipt))]

    # -- what became of a ticket ------------------------------------------------------------------

    def found(self, ticket: Ticket, parent: Link | None) -> list[Decision]:
        """The answer to ``Fetch``."""
        if not self._is_active(ticket):
            return []
        if self._closed:
            return self._release(ticket)
        if parent is None:
            return self.refuse(ticket, _parent_not_found(ticket))
        return [*self._begin(ticket, parent), *self._advance()]

    def refuse(self, ticket: Ticket, error: RequestError) -> list[Decision]:
        """The turn could not begin; the client learns why, and the lane goes on."""
        if not self._is_active(ticket):
            return []
        return [self._turn_away(ticket, error), *self._advance()]

    def settle(self, ticket: Ticket, link: Link | None) -> list[Decision]:
        """The turn ended. ``link`` is what the lane remembers; None when it failed."""
        if not self._is_active(ticket):
            return []
        if link is None:
            self._forget_parent(ticket)
        else:
            self._lanes[ticket.lane].latest = link
        return self._release(ticket)

    def forget(self, response_id: str) -> None:
        """A turn was deleted: nothing that came after it is continued from memory either."""
        for lane in self._lanes.values():
            link = lane.latest
            while link is not None and link.id != response_id:
                link = link.parent
            if link is not None:
                lane.latest = None

    def close(self) -> list[Decision]:
        """The connection is gone: end what runs, drop what waits."""
        self._closed = True
        self._waiting.clear()
        running = [lane.active for lane in self._lanes.values() if lane.active is not None]
        return [Stop(ticket, "disconnect") for ticket in running if ticket.running]

    # -- inside -----------------------------------------------------------------------------------

    def _is_active(self, ticket: Ticket) -> bool:
        return self._lanes[ticket.lane].active is ticket

    def _release(self, ticket: Ticket) -> list[Decision]:
        self._free(ticket)
        return self._advance()

    def _free(self, ticket: Ticket) -> None:
        self._lanes[ticket.lane].active = None
        self._in_flight -= 1

    def _turn_away(self, ticket: Ticket, error: RequestError) -> Say:
        self._forget_parent(ticket)
        self._free(ticket)
        return Say(error_frame(error, ticket.lane))

    def _forget_parent(self, ticket: Ticket) -> None:
        """A failed turn evicts its parent from its own lane; a failed fork harms no other lane."""
        lane = self._lanes[ticket.lane]
        if lane.latest is not None and lane.latest.id == ticket.request.body.previous_response_id:
            lane.latest = None

    def _advance(self) -> list[Decision]:
        """Begin every waiting turn whose lane is free, oldest first, within the limit."""
        decisions: list[Decision] = []
        for ticket in list(self._waiting):
            if self._in_flight >= self._limits.in_flight:
                break
            lane = self._lanes[ticket.lane]
            if lane.active is not None:
                continue
            self._waiting.remove(ticket)
            lane.active = ticket
            self._in_flight += 1
            decisions += self._seek_parent(ticket)
        return decisions

    def _seek_parent(self, ticket: Ticket) -> list[Decision]:
        wanted = ticket.request.body.previous_response_id
        if wanted is None:
            return self._begin(ticket, None)
        own = self._lanes[ticket.lane]
        for lane in (own, *self._lanes.values()):
            if lane.latest is not None and lane.latest.id == wanted:
                return self._begin(ticket, lane.latest)
        return [Fetch(ticket, wanted)]

    def _begin(self, ticket: Ticket, parent: Link | None) -> list[Decision]:
        ticket.parent = parent
        ticket.past = past_items(parent)
        try:
            fresh = check_input(ticket.request.items, ticket.past)
            if not (fresh or ticket.past or ticket.request.fill) and ticket.request.generates:
                raise InvalidRequest(
                    "Missing required field 'input'.",
                    code="missing_required_parameter",
                    param="input",
                )
        except RequestError as error:
            return [self._turn_away(ticket, error)]
        ticket.input = tuple(_admit_all(fresh, self._new_id))
        ticket.running = True
        return [Start(ticket)]


def _admit_all(items: Iterable[Item], new_id: NewId) -> Iterable[Item]:
    return (admit(item, new_id) for item in items)


def _parent_not_found(ticket: Ticket) -> RequestError:
    return InvalidRequest(
        f"Previous response with id '{ticket.request.body.previous_response_id}' not found. Only "
        "the newest response of a lane is kept without store; send the conversation again.",
        code="previous_response_not_found",
        param="previous_response_id",
    )

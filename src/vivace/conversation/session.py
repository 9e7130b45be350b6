"""All lanes of one connection: who runs now, who waits, what is remembered.

A session is told what happened and answers with what is to be done; it never waits. Turns of one
lane run in the order they were asked for, lanes run beside each other. An HTTP request is a
session with one turn.

::

    receive(create) ─► waiting ─► Fetch ─► found() ─► Start ─► settle()
                          │        │          │         └────► refuse()
                          │        │          └─ unknown ────► Refuse
                          │        └─ parent in memory: straight to Start
                          └─ it has a key: Recall ─► is_new(), and on; or retells() ─► retold()

    receive(steer) ─► Stop, accepted ─► settle() ─► successor: Start ─► its created commits
                                           ├─ calls are open ─► pending: the next create takes it
                                           └─ no successor ───► failed, with the input
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from vivace.conversation import compaction
from vivace.conversation.chain import Link, check_input, past_items
from vivace.conversation.steering import Accepted, Desk, SteerCode, open_calls, successor_of
from vivace.conversation.tickets import (
    Decision,
    Fetch,
    Recall,
    Refuse,
    Resent,
    Say,
    Start,
    Stop,
    StopHow,
    Ticket,
    id_after,
)
from vivace.errors import InvalidRequest, NotFound, RequestError, TooManyRequests
from vivace.protocol.codec import decode_steer_input, error_frame
from vivace.protocol.events import InterruptAccepted
from vivace.protocol.items import Item, NewId, admit
from vivace.protocol.once import Once, key_reused, needs_store
from vivace.protocol.requests import CreateResponse, Interrupt, Steer

__all__ = [
    "Decision",
    "Fetch",
    "Limits",
    "Recall",
    "Refuse",
    "Resent",
    "Say",
    "Session",
    "Start",
    "Stop",
    "StopHow",
    "Ticket",
]

_LANE = re.compile(r"[A-Za-z0-9_.\-]{1,256}")


class Limits(Struct, frozen=True):
    in_flight: int = 16
    lanes: int = 32
    waiting: int = 256
    steers: int = 16


class _Lane:
    __slots__ = ("active", "latest", "pending")

    def __init__(self) -> None:
        self.active: Ticket | None = None
        self.latest: Link | None = None
        self.pending: list[Accepted] = []
        """Steers of ``latest`` that wait for the outputs of its calls."""


class Session:
    def __init__(self, new_id: NewId, limits: Limits | None = None, *, once: bool = False) -> None:
        """``once``: for one request only, so that nothing can wait here for the next."""
        self._new_id = new_id
        self._limits = limits or Limits()
        self._once = once
        self._desk = Desk()
        self._lanes: dict[str | None, _Lane] = {None: _Lane()}
        self._waiting: list[Ticket] = []
        self._in_flight = 0
        self._closed = False

    @property
    def idle(self) -> bool:
        return not self._in_flight and not self._waiting

    @property
    def alone(self) -> bool:
        """Nobody will ask for more here: nothing can wait for the next request."""
        return self._once or self._closed

    # -- what the client says ---------------------------------------------------------------------

    def receive(
        self, event: CreateResponse | Interrupt | Steer, resent: Resent | None = None
    ) -> list[Decision]:
        """``resent``: what of a request's items the client says again, and after which turn."""
        if isinstance(event, CreateResponse):
            return [] if self._closed else self._create(event, resent)
        if isinstance(event, Interrupt):
            return self._interrupt(event)
        return self._steer(event)

    def _create(self, request: CreateResponse, resent: Resent | None) -> list[Decision]:
        lane = request.body.stream_id
        problem = self._lane_problem(lane)
        if problem is not None:
            return [Say(error_frame(problem, lane))]
        self._lanes.setdefault(lane, _Lane())
        ticket = Ticket(self._new_id("resp"), lane, request)
        if resent is not None:
            ticket.parent, ticket.resent = resent.link, resent.items
        self._waiting.append(ticket)
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
        ticket = self._heir_of(event.response_id)
        if ticket is None:
            error = NotFound(
                f"Response '{event.response_id}' is not running on this connection.",
                code="response_not_found",
                param="response_id",
            )
            return [Say(error_frame(error))]
        ticket = ticket.follower or ticket
        ticket.withdrawn = True
        return [Stop(ticket, "interrupt", InterruptAccepted(response_id=ticket.id))]

    def _heir_of(self, response_id: str) -> Ticket | None:
        """The turn that runs under this id, or as the successor of it."""
        for lane in self._lanes.values():
            ticket = lane.active
            if ticket is not None and ticket.running and ticket.answers_to(response_id):
                return ticket
        return None

    def _steer(self, event: Steer) -> list[Decision]:
        if event.once is not None and (known := self._steered_before(event, event.once)):
            return known
        heir = self._heir_of(event.previous_response_id)
        if heir is not None:
            return self._steer_turn(heir, event)
        for name, lane in self._lanes.items():
            latest = lane.latest
            if latest is not None and latest.id == event.previous_response_id and not event.id:
                return self._steer_ended(name, lane, latest, event)
        problem = f"Response '{event.previous_response_id}' is not on this connection."
        return [self._hand_back(event, None, "response_not_found", problem)]

    def _steered_before(self, event: Steer, once: Once) -> list[Decision]:
        """The answer to a steer that is on its way already; nothing if none has its key."""
        for name, lane in self._lanes.items():
            ticket = lane.active
            waiting, begun = (ticket.waiting, ticket.carried) if ticket else ([], [])
            for steer in (*waiting, *begun, *lane.pending):
                if steer.once is None or steer.once.key != once.key:
                    continue
                if steer.once != once:
                    return [Say(error_frame(key_reused(), name))]
                receipt = self._desk.accepted(steer, name)
                if ticket is not None and steer in waiting:
                    return [Stop(ticket, "steer", receipt, event.when == "item_end")]
                return [Say(receipt)]
        return []

    def _steer_turn(self, ticket: Ticket, event: Steer) -> list[Decision]:
        if ticket.withdrawn:
            problem = "The response is being interrupted."
            return [self._hand_back(event, ticket.lane, "response_not_active", problem)]
        meant = event.id is None or event.previous_response_id == ticket.id
        if ticket.follower is not None and event.id is None:
            return self._steer_turn(ticket.follower, event)
        if ticket.sealed or not meant:  # on record it is for that turn alone
            problem = "The response has ended; send this as the input of a new one."
            return [self._hand_back(event, ticket.lane, "response_already_completed", problem)]
        if ticket.request.fill is not None:
            problem = "A completion of plain text cannot be steered."
            return [self._hand_back(event, ticket.lane, "steering_not_supported", problem)]
        if event.when == "end_thinking":
            return [self._end_thinking(ticket, event)]
        if event.once is not None and not ticket.request.stored:
            problem = needs_store().message
            return [self._hand_back(event, ticket.lane, "idempotency_key_needs_store", problem)]
        steer = self._accept(event, ticket.lane, ticket.steers)
        if isinstance(steer, Say):
            return [steer]
        ticket.steers.append(steer)
        ticket.successor_id = ticket.successor_id or id_after(ticket.id)
        receipt = self._desk.accepted(steer, ticket.lane)
        return [Stop(ticket, "steer", receipt, event.when == "item_end")]

    def _end_thinking(self, ticket: Ticket, event: Steer) -> Decision:
        """Who has stopped thinking by then goes on as if nothing had been said."""
        if bytes(event.input) != b"null":
            problem = "To end the thinking takes no input; send that as a steer of its own."
            return self._hand_back(event, ticket.lane, "invalid_input", problem)
        if ticket.ends_thinking is None:
            problem = "The response has not begun yet."
            return self._hand_back(event, ticket.lane, "response_not_active", problem)
        if not ticket.ends_thinking:
            problem = (
                "The engine of this model cannot end its thinking: that takes one that Vivace runs "
                "itself (vLLM or llama.cpp). Ask for less reasoning effort instead."
            )
            return self._hand_back(event, ticket.lane, "steering_not_supported", problem)
        steer = Accepted(self._new_id("steer"), event.previous_response_id, event.input, ())
        receipt = self._desk.accepted(steer, ticket.lane, event.when)
        return Stop(ticket, "end_thinking", receipt)

    def _steer_ended(
        self, name: str | None, lane: _Lane, latest: Link, event: Steer
    ) -> list[Decision]:
        """It has ended; its steer can wait with it for the outputs of its calls."""
        calls = [] if event.when == "end_thinking" else open_calls(latest)
        if not calls or self.alone or lane.active is not None:
            problem = "The response has ended; send this as the input of a new one."
            return [self._hand_back(event, name, "response_already_completed", problem)]
        steer = self._accept(event, name, lane.pending)
        if isinstance(steer, Say):
            return [steer]
        lane.pending.append(steer)
        return [
            Say(self._desk.accepted(steer, name)),
            Say(self._desk.pending(steer, name, calls)),
        ]

    def _accept(self, event: Steer, lane: str | None, queue: Sequence[Accepted]) -> Accepted | Say:
        if len(queue) >= self._limits.steers:
            problem = f"{self._limits.steers} steers are waiting for this response already."
            return self._hand_back(event, lane, "too_many_pending_steers", problem)
        try:
            items = decode_steer_input(event.input)
        except RequestError as error:
            return self._hand_back(event, lane, "invalid_input", error.message)
        steer_id, target = event.id or self._new_id("steer"), event.previous_response_id
        return Accepted(steer_id, target, event.input, items, event.held, event.once)

    def _hand_back(
        self, steer: Steer | Accepted, lane: str | None, code: SteerCode, problem: str
    ) -> Say:
        return Say(self._desk.failed(steer, lane, code, problem))

    def take_up(self, ticket: Ticket, *, at_item_end: bool = False) -> list[Decision]:
        """A turn that no engine works on any more is given to one again. Its steers, if it has
        any, are carried out at once or ``at_item_end``."""
        self.adopt(ticket, ticket.lane)
        ticket.running = True
        steer = [Stop(ticket, "steer", None, at_item_end)] if ticket.steers else []
        return [Start(ticket), *steer]

    # -- what became of a ticket ------------------------------------------------------------------

    def is_new(self, ticket: Ticket) -> list[Decision]:
        """The answer to ``Recall``: its key is not known."""
        if not self._is_active(ticket):
            return []
        if self._closed:
            return self._release(ticket)
        return [*self._seek_parent(ticket), *self._advance()]

    def retells(self, ticket: Ticket) -> bool:
        """Its request was sent before: whether somebody is there to hear what became of it. The
        lane is taken until then."""
        ticket.retells = ticket.running = True
        return self._is_active(ticket) and not self._closed

    def retold(self, ticket: Ticket) -> list[Decision]:
        return self._release(ticket) if self._is_active(ticket) else []

    def give_way(self, ticket: Ticket) -> None:
        """The turn that it tells of takes its place."""
        self._free(ticket)

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
        return [*self._turn_away(ticket, error), *self._advance()]

    def withdraw(self, ticket: Ticket) -> None:
        """The turn is being cancelled from elsewhere: its steers go back to the client."""
        ticket.withdrawn = True

    def seal(self, ticket: Ticket, link: Link | None) -> Ticket | None:
        """The turn is ending; returns the turn that its steers make, which ``settle`` will start.

        Whoever puts the end on record does so between the two. Steers and interrupts
        that come meanwhile are for what follows.
        """
        if ticket.sealed or not self._is_active(ticket):
            return ticket.follower
        ticket.sealed = True
        if link is None or ticket.withdrawn or not ticket.steers or open_calls(link):
            return None
        steers, ticket.steers = ticket.steers, []
        request = successor_of(ticket.request, link.id, steers)
        said = tuple(_admit_all(request.items, self._new_id))
        response_id = ticket.successor_id or id_after(ticket.id)
        line = ticket.line | {ticket.id}
        follower = Ticket(response_id, ticket.lane, replace(request, items=said), line)
        follower.input, follower.carried = said, steers
        ticket.follower = follower
        return follower

    def pending_after(self, ticket: Ticket, link: Link) -> list[str]:
        """The steers that will wait for the outputs of its calls, by their ids."""
        if self.alone or ticket.withdrawn or not open_calls(link):
            return []
        return [steer.id for steer in ticket.steers]

    def settle(self, ticket: Ticket, link: Link | None) -> list[Decision]:
        """The turn ended. ``link`` is what the lane remembers; None when it failed."""
        if not self._is_active(ticket):
            return []
        follower = self.seal(ticket, link)
        if link is None:
            self._forget_parent(ticket)
        elif ticket.request.fill is None:  # nothing can follow a completion
            self._lanes[ticket.lane].latest = link
        if follower is not None:
            self._waiting.insert(0, follower)  # it gets the slot that is just becoming free
        follow = self._follow(ticket, link) if ticket.steers else []
        return [*follow, *self._release(ticket)]

    def _follow(self, ticket: Ticket, link: Link | None) -> list[Decision]:
        """What becomes of steers that made no turn."""
        steers, ticket.steers = ticket.steers, []
        if link is None or ticket.withdrawn:
            code: SteerCode = "successor_creation_failed" if link is None else "response_not_active"
            problem = "The response failed." if link is None else "The response was interrupted."
            return [self._hand_back(steer, ticket.lane, code, problem) for steer in steers]
        if self.alone:
            problem = "The response waits for the outputs of its calls; send this with them."
            code = "successor_creation_failed"
            return [self._hand_back(steer, ticket.lane, code, problem) for steer in steers]
        self._lanes[ticket.lane].pending = steers
        calls = open_calls(link)
        return [Say(self._desk.pending(steer, ticket.lane, calls)) for steer in steers]

    def forget(self, response_id: str) -> None:
        """A turn was deleted: nothing that came after it is continued from memory either."""
        for lane in self._lanes.values():
            link = lane.latest
            while link is not None and link.id != response_id:
                link = link.parent
            if link is not None:
                lane.latest = None

    def let_go(self, name: str | None) -> None:
        """Memory is short: a lane forgets its newest response, unless a steer waits with it."""
        lane = self._lanes[name]
        if not lane.pending:
            lane.latest = None

    def close(self, *, for_good: bool = False) -> list[Decision]:
        """The connection is gone: end what runs but in the background, drop what waits. What may
        wait for its client goes on, unless nobody came: ``for_good``."""
        self._closed = True
        self._waiting.clear()
        active = (each.follower or each for each in self._active())
        ending = [
            each
            for each in active
            if self._goes_on(each) and not each.background and (for_good or not each.waits)
        ]
        for ticket in ending:
            ticket.withdrawn = True
        return [Stop(ticket, "disconnect") for ticket in ending]

    def revoke(self, error: RequestError) -> list[Decision]:
        """The client may not go on: the same, but whoever still listens learns why."""
        decisions: list[Decision] = []
        for ticket in self._waiting:
            decisions += self._tell(ticket, error)
        for each in self._active():
            ticket = each.follower or each
            ticket.withdrawn = True
            stop = [Stop(ticket, "revoke")]
            decisions += stop if self._goes_on(ticket) else self._turn_away(ticket, error)
        self._closed = True
        self._waiting.clear()
        return decisions

    def _goes_on(self, ticket: Ticket) -> bool:
        """Whether an engine works on it, or will when the turn before it has ended."""
        return ticket.running or not self._is_active(ticket)

    @property
    def awaited(self) -> bool:
        """Whether something runs here for a client that may come back."""
        return any(each.waits and not each.withdrawn for each in self._active())

    # -- turns that move --------------------------------------------------------------------------

    def make_room(self, lane: str | None, ticket: Ticket | None = None) -> None:
        """For a turn from elsewhere, or the one that runs there; raises why there is none."""
        problem = self._lane_problem(lane)
        if problem is not None:
            raise problem
        known = self._lanes.get(lane)
        if known is not None and known.active not in (None, ticket):
            raise InvalidRequest(
                "Another response runs on this lane. Resume on another stream_id, or when it has "
                "ended.",
                code="stream_busy",
                param="stream_id",
            )
        if self._in_flight >= self._limits.in_flight and (known is None or not known.active):
            raise TooManyRequests(
                f"{self._limits.in_flight} turns run on this connection already; wait for one of "
                "them to end.",
                code="too_many_waiting_turns",
            )

    def runs(self, ticket: Ticket) -> bool:
        """Whether it has its lane here, and has not ended."""
        return self._is_active(ticket) and ticket.running

    def part(self, ticket: Ticket) -> list[Decision] | None:
        """The turn goes on elsewhere, and what waits for its lane begins; None if it has ended."""
        return self._release(ticket) if self.runs(ticket) else None

    def adopt(self, ticket: Ticket, lane: str | None) -> None:
        """A turn from elsewhere runs here from now on; there is room for it."""
        ticket.lane = lane
        if ticket.follower is not None:
            ticket.follower.lane = lane
        self._lanes.setdefault(lane, _Lane()).active = ticket
        self._in_flight += 1

    def _active(self) -> list[Ticket]:
        return [lane.active for lane in self._lanes.values() if lane.active is not None]

    # -- inside -----------------------------------------------------------------------------------

    def _is_active(self, ticket: Ticket) -> bool:
        return self._lanes[ticket.lane].active is ticket

    def _release(self, ticket: Ticket) -> list[Decision]:
        self._free(ticket)
        return self._advance()

    def _free(self, ticket: Ticket) -> None:
        self._lanes[ticket.lane].active = None
        self._in_flight -= 1

    def _turn_away(self, ticket: Ticket, error: RequestError) -> list[Decision]:
        self._forget_parent(ticket)
        self._free(ticket)
        return self._tell(ticket, error)

    def _tell(self, ticket: Ticket, error: RequestError) -> list[Decision]:
        """Why a turn will not be; its steers come back with their words."""
        said: list[Decision] = []
        if not ticket.line:  # nobody asked for a successor but by its steers
            said.append(Refuse(ticket, error))
        for steer in (*ticket.carried, *ticket.steers):
            code: SteerCode = "successor_creation_failed"
            said.append(self._hand_back(steer, ticket.lane, code, error.message))
        return said

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
            once = ticket.request.once
            decisions += self._seek_parent(ticket) if once is None else [Recall(ticket)]
        return decisions

    def _seek_parent(self, ticket: Ticket) -> list[Decision]:
        wanted = ticket.request.body.previous_response_id
        if wanted is None:
            return self._begin(ticket, ticket.parent)
        own = self._lanes[ticket.lane]
        for lane in (own, *self._lanes.values()):
            if lane.latest is not None and lane.latest.id == wanted:
                return self._begin(ticket, lane.latest)
        return [Fetch(ticket, wanted)]

    def _begin(self, ticket: Ticket, parent: Link | None) -> list[Decision]:
        ticket.parent = parent
        ticket.past = past_items(parent)
        returned = self._take_pending(ticket)
        try:
            fresh = check_input(ticket.request.items, ticket.past, ticket.resent)
            if ticket.request.compacts:
                fresh = (*fresh, compaction.question())
            if not (fresh or ticket.past or ticket.request.fill) and ticket.request.generates:
                raise InvalidRequest(
                    "Missing required field 'input'.",
                    code="missing_required_parameter",
                    param="input",
                )
        except RequestError as error:
            return [*returned, *self._turn_away(ticket, error)]
        ticket.input = tuple(_admit_all(fresh, self._new_id))
        ticket.running = True
        return [*returned, Start(ticket)]

    def _take_pending(self, ticket: Ticket) -> list[Decision]:
        """Steers that waited for this turn stand before its input; for another, they go back."""
        lane = self._lanes[ticket.lane]
        pending, lane.pending = lane.pending, []
        if not pending:
            return []
        continued = ticket.parent.id if ticket.parent else None
        if lane.latest is None or lane.latest.id != continued or ticket.request.fill:
            problem = "The conversation went on from another response."
            code: SteerCode = "response_not_active"
            return [self._hand_back(steer, ticket.lane, code, problem) for steer in pending]
        ticket.carried = pending
        steered = [item for steer in pending for item in steer.items]
        items, resent = ticket.request.items, ticket.resent
        places = ticket.request.places or range(len(items))
        ticket.request = replace(
            ticket.request,
            items=(*items[:resent], *steered, *items[resent:]),
            # A steer is words alone, of which nothing is refused by its place.
            places=(*places[:resent], *(0 for _ in steered), *places[resent:]),
        )
        return []


def _admit_all(items: Iterable[Item], new_id: NewId) -> Iterable[Item]:
    return (admit(item, new_id) for item in items)


def _parent_not_found(ticket: Ticket) -> RequestError:
    return InvalidRequest(
        f"Previous response with id '{ticket.request.body.previous_response_id}' not found. Only "
        "the newest response of a lane is kept without store; send the conversation again.",
        code="previous_response_not_found",
        param="previous_response_id",
    )

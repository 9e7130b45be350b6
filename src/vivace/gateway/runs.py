"""The turns that engines work on: one of them, and the directory of those in this process."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from vivace.conversation.chain import Link
from vivace.conversation.log import Entry, Failed, SteerAtItemEnd, Stopped
from vivace.conversation.session import Decision, Stop, StopHow, Ticket
from vivace.conversation.so_far import SoFar
from vivace.conversation.turn import Turn
from vivace.errors import Unavailable
from vivace.gateway.ids import now
from vivace.gateway.keeping.kept import KeptTurn, not_applied
from vivace.gateway.keyring import REVOKED
from vivace.gateway.meter import Outlet
from vivace.gateway.ports import Record, RunningTurn, Told
from vivace.gateway.resuming.seats import Seat
from vivace.gateway.tasks import Tasks
from vivace.protocol.codec import error_frame
from vivace.protocol.events import Event, Response, SteerAccepted
from vivace.protocol.requests import Interrupt, Steer

__all__ = ["LocalRuns", "Run", "going_down"]

_FAULT = "An internal error ended this turn. Whoever runs this server finds it in the log by {}."


class Asker(Protocol):
    """The connection whose turn it is."""

    owner: str

    def withdraw(self, ticket: Ticket) -> None: ...

    async def told(self, event: Steer | Interrupt) -> Event | None: ...

    async def act(self, decisions: Sequence[Decision]) -> None:
        """Carry out what its session decides."""

    def remember(self, lane: str | None) -> None:
        """A turn has ended on this lane."""


class Home(Protocol):
    """Where it is told, and what its end is settled with."""

    tasks: Tasks

    def seal(self, ticket: Ticket, link: Link | None) -> Ticket | None: ...

    def pending_after(self, ticket: Ticket, link: Link) -> list[str]: ...

    def settle(self, ticket: Ticket, link: Link | None) -> list[Decision]: ...

    async def act(self, decisions: Sequence[Decision]) -> None: ...

    def part(self, run: Run, to: Home) -> bool: ...

    def let_go(self, run: Run) -> None: ...


class Run:
    """A turn that an engine of ours is working on."""

    def __init__(
        self,
        turn: Turn,
        model: str,
        ticket: Ticket,
        asker: Asker,
        home: Home,
        outlet: Outlet,
        record: Record | None,
        keep: Callable[[Outlet], KeptTurn] | None = None,
    ) -> None:
        """``keep`` takes what is said of a turn that is to be on record."""
        task = asyncio.current_task()
        assert task is not None
        self.task = task
        self.turn = turn
        self.model = model
        self.record = record
        self.seat = Seat(outlet, record) if record is not None else None
        """Where its client sits, who may come back from elsewhere."""
        self.outlet: Outlet = self.seat or outlet
        self.kept = keep(self.outlet) if keep is not None else None
        if self.kept is not None:
            self.outlet = self.kept.outlet
            self.kept.stop = partial(_stop, weakref.ref(self))  # no circle: what it holds is large
        self.said: SoFar | None = None
        """What was said of it before this gateway had it."""
        self.attempt = 1
        """Of the first engine that works on it here; they are counted over all gateways."""
        self.refused = False
        """Whether it is ended because it may not begin."""
        self.taken = False
        """Whether it is ended because another gateway has it."""
        self.log_is_elsewhere = False
        """Whether that gateway has its log from the node, too."""
        self.unsent: list[Event] = []
        """What is being sent, as far as it was not."""
        self.over = asyncio.Event()
        self._settled = asyncio.Event()
        self._unstored: Response | None = None
        self.stopping: StopHow | None = None
        self.answers_now = False
        """Whether its thinking is to end at the next token."""
        self.receipts: list[Event] = []
        """For the client, to be sent as soon as the engine was told to stop."""
        self.ticket = ticket
        self.asker = asker
        self.home = home
        self._early: list[Stop] | None = []

    @property
    def id(self) -> str:
        return self.turn.id

    @property
    def owner(self) -> str:
        return self.asker.owner

    def answers_to(self, response_id: str) -> bool:
        return self.ticket.answers_to(response_id)

    @property
    def steered(self) -> bool:
        """Whether it was sent another way, so that another may follow it."""
        details = self.turn.response.incomplete_details
        return details is not None and details.reason == "steered"

    async def response(self) -> Response | None:
        if self.turn.ended:
            await self._settled.wait()
        if self.taken:
            return None
        return self._unstored or self.turn.response

    def settle(self) -> None:
        """Its end is on record, or cannot be: it may be told."""
        self._settled.set()

    async def keep(self, unstored: Response) -> None:
        """So it ended, and only memory has it."""
        self._unstored = unstored
        if self.record is not None:
            await self.record.keep(unstored)

    async def cancel(self) -> None:
        self.stop_for_good()
        await self.over.wait()

    async def tell(self, event: Steer | Interrupt) -> Told:
        receipt, successor_id = await self.asker.told(event), self.ticket.successor_id
        if self.kept is not None:  # its outlet waits for the record, and so does who asks here
            await self.kept.written()
            if isinstance(receipt, SteerAccepted) and self.kept.has_refused(receipt.steer.id):
                return Told(error_frame(not_applied(self.id)), None)
        return Told(receipt, successor_id)

    def enter(self, entry: Entry) -> list[Event]:
        """Whatever happens to the turn comes through here before anyone is told of it."""
        if self.kept is not None:
            self.kept.enter(entry)
        if self.record is not None:
            self.record.enter(entry)
        return [*self.turn.apply(entry)]

    async def say(self, entry: Entry) -> None:
        self.unsent = self.enter(entry)
        await self.outlet.send(self.unsent)

    def begin(self) -> list[Stop]:
        """From now on it can be stopped; returns the orders that came before."""
        early, self._early = self._early or [], None
        return early

    def stop(self, order: Stop) -> bool:
        """Whether it will stop for this, and send the receipt when the engine has been told."""
        if self._early is not None:
            self._early.append(order)
            return True
        if order.how == "end_thinking":
            self.answers_now = True
            return False
        if self.turn.ended:
            return False
        if order.at_item_end and self.turn.in_item:
            self.enter(SteerAtItemEnd(now(), self.ticket.successor_id or ""))
            return False
        if order.receipt is not None:
            self.receipts.append(order.receipt)
        if self.stopping is None:
            self.stopping = order.how
            self.task.cancel()
        return True

    def record_steer(self, order: Stop) -> None:
        """Before its receipt goes out."""
        if self.kept is not None and isinstance(order.receipt, SteerAccepted):
            for steer in self.ticket.steers:
                if steer.id == order.receipt.steer.id:
                    self.kept.steered(steer, at_item_end=order.at_item_end)

    @property
    def may_be_refused(self) -> bool:
        """Whether nobody has heard of it yet, nor is it on record."""
        return self.turn.next_number == 0 and (self.kept is None or self.kept.may_be_refused)

    def refuse(self) -> None:
        """Nobody has heard of it, and nobody will."""
        self.refused = True
        if self._early is None:  # else it learns so when its answer is there
            self.task.cancel()

    async def fall_silent(self) -> None:
        """Another gateway has it by now, as its engine's node says, if it is one that others may
        have: then this does not return."""
        if self.kept is not None:
            self.log_is_elsewhere = True
            self.kept.fall_silent()
            await asyncio.sleep(0)

    def stop_for_good(self) -> None:
        """Nothing follows it by itself; nothing is waited for."""
        self.asker.withdraw(self.ticket)
        self.stop(Stop(self.ticket, "cancel"))

    def last_events(self) -> list[Event]:
        """What was not sent, and how the turn ends, by what it was stopped for."""
        match self.stopping:
            case "interrupt" | "steer" | "disconnect":
                end: Entry = Stopped(now(), self.stopping, self.ticket.successor_id or "")
            case "revoke":
                end = Failed(now(), "invalid_api_key", REVOKED)
            case "fault":
                end = Failed(now(), "server_error", _FAULT.format(self.id))
            case _:
                end = Stopped(now(), "cancel")
        return [*self.unsent, *self.enter(end)]


def _stop(run: weakref.ref[Run], how: StopHow) -> None:
    found = run()
    if found is not None:
        found.stop(Stop(found.ticket, how))


class LocalRuns:
    """A directory for one gateway alone."""

    def __init__(self) -> None:
        self._turns: dict[str, RunningTurn] = {}
        self._forgetting: list[Callable[[str, str], None]] = []

    async def began(self, turn: RunningTurn) -> None:
        self._turns[turn.id] = turn

    async def ended(self, turn: RunningTurn) -> None:
        if self._turns.get(turn.id) is turn:
            del self._turns[turn.id]

    async def find(self, response_id: str, owner: str) -> RunningTurn | None:
        turn = self._turns.get(response_id)
        return turn if turn is not None and turn.owner == owner else None

    async def find_heir(self, response_id: str, owner: str) -> RunningTurn | None:
        for turn in self._turns.values():
            if turn.owner == owner and turn.answers_to(response_id):
                return turn
        return None

    async def forget(self, response_id: str, owner: str) -> None:
        for forget in self._forgetting:
            forget(response_id, owner)

    def on_forget(self, forget: Callable[[str, str], None]) -> None:
        self._forgetting.append(forget)


def going_down() -> Unavailable:
    return Unavailable(
        "This server is shutting down; connect again.",
        code="server_shutting_down",
        retry_after=1,
    )

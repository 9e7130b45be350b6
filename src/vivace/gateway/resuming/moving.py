"""Turns that move from one connection to another, and those whose client may come back.

``response.resume`` moves a turn to where its client is: its ticket to a lane of that session, its
events to that outlet, and what may follow it with them. Who had it hears so, and has a free lane.
"""

from __future__ import annotations

import asyncio
import time
import weakref
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import aclosing
from typing import Any

from msgspec import Struct

from vivace.conversation.chain import Link
from vivace.conversation.session import Decision, Say, Session, Ticket
from vivace.errors import InvalidRequest, NotFound, RequestError
from vivace.gateway.archive import Archive
from vivace.gateway.elsewhere.asking import Asking
from vivace.gateway.elsewhere.record import AwaitedRecord
from vivace.gateway.elsewhere.runs import DistantTurn
from vivace.gateway.ids import new_id
from vivace.gateway.keeping.presence import Presence
from vivace.gateway.keeping.reviving import PASSING
from vivace.gateway.keeping.waiting import WaitingTurn
from vivace.gateway.meter import Outlet
from vivace.gateway.ports import Readable, RunDirectory, RunningTurn
from vivace.gateway.resuming.seats import Resumed
from vivace.gateway.resuming.telling import Telling
from vivace.gateway.runs import Asker, Home, LocalRuns, Run
from vivace.gateway.tasks import Tasks
from vivace.protocol.codec import error_frame
from vivace.protocol.events import ResponseEvent
from vivace.protocol.requests import CreateBody, CreateResponse, Resume
from vivace.scheduling.memory import Memory

__all__ = ["HEIR_SECONDS", "Awaited", "Ground", "Moves", "rest_of"]

_PATIENCE = 10.0
"""Seconds that who comes back for a turn waits for an engine, when none takes it at once."""
HEIR_SECONDS = 10.0
"""How long it takes at most until what follows a steered turn has begun."""


class Ground:
    """What all connections of a gateway share of this."""

    def __init__(
        self,
        runs: RunDirectory,
        archive: Archive,
        telling: Telling,
        presence: Presence,
        asking: Asking | None,
        memory: Memory,
        background: Tasks,
        orphan_seconds: float,
        wake: Callable[[str, str], Coroutine[Any, Any, None]],
    ) -> None:
        """``asking`` asks other gateways, where there may be some. ``wake`` has an engine work on a
        turn that waits for its client since a restart, or raises why none does yet."""
        self.runs = runs
        self.archive = archive
        self.telling = telling
        self.presence = presence
        self.asking = asking
        self.memory = memory
        self.background = background
        self.orphan_seconds = orphan_seconds
        self.wake = wake


class Awaited(Struct, frozen=True):
    """A turn that is to be told here when it has ended elsewhere."""

    place: Ticket
    """Which has its lane until then."""
    response_id: str
    after: int


class Moves:
    """Of one connection: the turns that come to it and leave it."""

    def __init__(
        self,
        ground: Ground,
        asker: Asker,
        session: Session,
        outlet: Outlet,
        runs: dict[str, Run],
    ) -> None:
        self._ground = ground
        self._asker = weakref.ref(asker)  # which holds this: nobody waits for a collector of cycles
        self.owner = asker.owner
        self._session = session
        self._outlet = outlet
        self._runs = runs
        self.tasks = Tasks()
        self.left = False
        """Its client is gone, and may come back for what runs here."""

    # -- a turn that is at home here --------------------------------------------------------------

    def seal(self, ticket: Ticket, link: Link | None) -> Ticket | None:
        return self._session.seal(ticket, link)

    def pending_after(self, ticket: Ticket, link: Link) -> list[str]:
        return self._session.pending_after(ticket, link)

    def settle(self, ticket: Ticket, link: Link | None) -> list[Decision]:
        decisions = self._session.settle(ticket, link)
        if (asker := self._asker()) is not None:
            asker.remember(ticket.lane)
        return decisions

    async def act(self, decisions: Sequence[Decision]) -> None:
        if (asker := self._asker()) is not None:
            await asker.act(decisions)

    def let_go(self, run: Run) -> None:
        del self._runs[run.id]

    def part(self, run: Run, to: Home) -> bool:
        """Whether it goes on over there; it does not if it has ended."""
        lane = run.ticket.lane
        decisions = self._session.part(run.ticket)
        if decisions is None:
            return False
        del self._runs[run.id]
        self.tasks.give(run.task, to.tasks)
        told = [] if to is self else [Say(error_frame(_elsewhere(run.id), lane))]
        self.tasks.spawn(self.act([*told, *decisions]))
        return True

    # -- who comes for a turn ---------------------------------------------------------------------

    async def resume(self, event: Resume) -> Awaited | None:
        """Returns what is still to be told: a turn that another gateway holds stays there, and is
        told here when it has ended."""
        after = -1 if event.starting_after is None else event.starting_after
        run = await self.find(event.response_id)
        if isinstance(run, Run):
            _check_seen(run, after)
            if self.take(run, after, event.stream_id):
                return None
        self._session.make_room(event.stream_id)
        record = await self._ground.telling.record(event.response_id, self.owner)
        self._session.make_room(event.stream_id)  # others came while it was looked for
        if isinstance(record, AwaitedRecord):
            place = Ticket(new_id("resp"), event.stream_id, CreateResponse(CreateBody()))
            self._session.adopt(place, event.stream_id)
            return Awaited(place, event.response_id, after)
        held = self._ground.memory.take(self.owner, "answers", record.weight)
        # Inline: nothing else begins on this lane before all of it is told.
        async with aclosing(rest_of(record, after, event.stream_id)) as told:
            async for events in told:
                await self._outlet.send([*events])
        del held
        return await self._take_heir(event) if record.steered else None

    async def find(self, response_id: str, *, moves: bool = True) -> RunningTurn | None:
        """Where it runs; one that waits for its client does from now on. ``moves``: who holds a
        turn is to be where its client is."""
        await self._ground.presence.settled()
        await self._wake(response_id)
        found = await self._ground.runs.find(response_id, self.owner)
        asking = self._ground.asking
        if moves and asking is not None and isinstance(found, DistantTurn):
            await asking.bring(found.turn)
            found = await self._ground.runs.find(response_id, self.owner)
        if isinstance(found, WaitingTurn):  # its gateway is gone, and it was taken just now
            await self._wake(response_id)
            found = await self._ground.runs.find(response_id, self.owner)
        return found

    async def _wake(self, response_id: str) -> None:
        """An engine that has no room yet is waited for, though not for ever."""
        until = time.monotonic() + _PATIENCE
        while True:
            try:
                return await self._ground.wake(response_id, self.owner)
            except PASSING as error:
                if time.monotonic() > until:
                    raise
                await asyncio.sleep(min(error.retry_after or 1.0, 1.0))

    def take(self, run: Run, after: int, lane: str | None, *, place: Ticket | None = None) -> bool:
        """Whether it is here now; it is not if it has ended. Nothing happens in between. ``place``
        has the lane for it until then."""
        if run.record is None or run.seat is None:
            return False
        asker = self._asker()
        if asker is None:
            return False
        if place is None:
            self._session.make_room(lane, run.ticket)
        if not self._has(run, lane):
            if not run.home.part(run, self):
                return False
            if place is not None:
                self._session.give_way(place)
            self._session.adopt(run.ticket, lane)
            self._runs[run.id] = run
        resumed = Resumed(self._outlet, run.record.reader(after, lane))
        run.asker, run.home = asker, self
        run.seat.move(resumed)
        self.tasks.spawn(resumed.catch_up())
        return True

    def _has(self, run: Run, lane: str | None) -> bool:
        """Whether it runs on that lane of this connection already: what waits there does not begin
        for that it is told again."""
        return run.home is self and run.ticket.lane == lane and self._session.runs(run.ticket)

    async def _take_heir(self, event: Resume) -> Awaited | None:
        """What follows a steered turn is told from its beginning, as if nobody had been away."""
        heir = await self.heir_of(event.response_id, HEIR_SECONDS)
        if heir is not None:
            if isinstance(heir, Run) and self.take(heir, -1, event.stream_id):
                return None
            return await self.resume(Resume(response_id=heir.id, stream_id=event.stream_id))
        raise NotFound(
            f"Response '{event.response_id}' was steered, and what was to follow it has ended or "
            "never begun. Send what you have said as the input of a new one.",
            code="response_not_found",
            param="response_id",
        )

    async def heir_of(self, response_id: str, seconds: float) -> RunningTurn | None:
        """What follows a steered turn here, as soon as it has begun."""
        until = time.monotonic() + seconds
        while True:
            heir = await self._ground.runs.find_heir(response_id, self.owner)
            if heir is not None and heir.id != response_id:
                return heir
            if time.monotonic() >= until:
                return None
            await asyncio.sleep(0.02 if isinstance(self._ground.runs, LocalRuns) else 0.1)

    # -- when the client is gone ------------------------------------------------------------------

    def leave(self) -> None:
        """What may wait for its client does, for a while."""
        if self._session.awaited:
            self.left = True
            self.tasks.give_all(self._ground.background)
            self._ground.background.spawn(self._wait(self._asker()))

    async def _wait(self, _asker: Asker | None) -> None:
        """Whose connection is held by this until then."""
        left, seconds = time.monotonic(), self._ground.orphan_seconds
        while self._session.awaited:
            rest = max(left, *self._last_read()) + seconds - time.monotonic()
            if rest <= 0:
                await self.act(self._session.close(for_good=True))
                return
            await asyncio.sleep(rest)

    def _last_read(self) -> list[float]:
        """Who reads a turn over HTTP is there for it."""
        records = [run.record for run in self._runs.values() if run.record is not None]
        now = time.monotonic()
        return [0.0, *(record.unread_since or now for record in records)]


async def rest_of(
    record: Readable, after: int, lane: str | None
) -> AsyncGenerator[list[ResponseEvent], None]:
    """What follows in a turn. Who knows its end already is told that once more: over a socket
    nothing else says that there is no more."""
    is_told, end = False, list[ResponseEvent]()
    async with aclosing(record.after(after, lane)) as told:
        async for events in told:
            is_told = True
            yield events
    if not is_told and not record.steered:
        async with aclosing(record.after(-1, lane)) as told:
            async for events in told:
                end = events[-1:]
        yield end


def _check_seen(run: Run, after: int) -> None:
    """Else its client would wait in silence for a number that may never come."""
    if after >= run.turn.next_number:
        raise InvalidRequest(
            f"Response '{run.id}' has no event {after} yet: the last so far is "
            f"{run.turn.next_number - 1}. starting_after is the sequence_number of the last event "
            "of this very response that you have seen.",
            param="starting_after",
        )


def _elsewhere(response_id: str) -> RequestError:
    error = RequestError(
        f"Response '{response_id}' was resumed by another connection of this key, where its "
        "events go now. To have it here again, resume it.",
        code="resumed_elsewhere",
        param="response_id",
    )
    error.status = 409
    return error

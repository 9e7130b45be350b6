"""One client: its session, and the tasks that carry out what the session decides.

The way of one turn is ``Connection._run``. Everything before ``created`` may refuse the request;
everything after ends in exactly one terminal event. A turn that is to be kept is stored before
its terminal event is sent, so that a client never knows of an answer that a crash could take.
What nobody foresaw ends in an event too and gives back its place (``Connection._guarded``).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Sequence
from functools import partial
from typing import Any

from msgspec.structs import replace

from vivace.conversation.log import Failed
from vivace.conversation.prefixes import marks
from vivace.conversation.replay import stillborn
from vivace.conversation.response import open_response
from vivace.conversation.session import (
    Decision,
    Fetch,
    Recall,
    Refuse,
    Resent,
    Say,
    Session,
    Start,
    Stop,
    Ticket,
)
from vivace.conversation.turn import Turn
from vivace.errors import (
    EngineError,
    NotFound,
    RequestError,
    ServerFault,
    StoreAway,
    StoreError,
    Unauthorized,
)
from vivace.gateway.archive import no_parent
from vivace.gateway.cancelling import cancels_of_others
from vivace.gateway.elsewhere.passing_on import PassingOn
from vivace.gateway.ids import new_id, now
from vivace.gateway.keeping.kept import Repeated, TakenAway
from vivace.gateway.keeping.waiting import WaitingTurn
from vivace.gateway.keyring import REVOKED
from vivace.gateway.large import LARGE_BYTES
from vivace.gateway.meter import Meter, Outlet
from vivace.gateway.notes import Notes
from vivace.gateway.planning import Plan, failing
from vivace.gateway.ports import Record
from vivace.gateway.resuming.again import Again
from vivace.gateway.resuming.moving import Moves
from vivace.gateway.runner import Runner
from vivace.gateway.runs import Run, going_down
from vivace.protocol.codec import error_frame, retry_headers
from vivace.protocol.codex import failure_of, meant
from vivace.protocol.events import ErrorFrame, Event
from vivace.protocol.foreign import as_sent
from vivace.protocol.ids import NO_ID, is_id
from vivace.protocol.items import admit
from vivace.protocol.requests import (
    ClientEvent,
    CreateBody,
    CreateResponse,
    Interrupt,
    Resume,
    Steer,
)
from vivace.scheduling.scheduler import Outcome

__all__ = ["Connection", "connect"]

log = logging.getLogger("vivace.turns")


Ends = list[tuple[int, bytes]]
"""Where in what a client says the turn may have ended that it continues, each with its mark."""


def _prepared(event: CreateResponse) -> tuple[CreateResponse, Ends]:
    """Return a request as a session takes it, and where it may say an earlier turn again.

    A client that names the turn to continue does not say it again, and what is to be stored is
    stored whole. Of a large request all items are admitted here, where nobody waits for it, though
    some of them may prove to be said again.
    """
    whole = event.body.previous_response_id is None and not event.stored and event.fill is None
    ends = marks(event.items) if whole else []
    if event.size > LARGE_BYTES:
        event = replace(event, items=tuple(admit(each, new_id) for each in event.items))
    return event, ends


def connect(
    runner: Runner,
    outlet: Outlet,
    owner: str,
    request_id: str,
    *,
    once: bool = True,
    codex: bool = False,
    traceparent: str | None = None,
) -> Connection:
    """``once``: for one request, which ends when its turn and what follows it have. ``codex``: for
    a client that is told of refusals by a failed response. ``traceparent``: of requests that do not
    say another."""
    connection = Connection(
        runner, outlet, owner, request_id, once=once, codex=codex, traceparent=traceparent
    )
    runner.connected(connection)
    return connection


class Connection:
    """One client: its session, and the tasks that carry out the session's decisions."""

    def __init__(
        self,
        runner: Runner,
        outlet: Outlet,
        owner: str,
        request_id: str,
        *,
        once: bool,
        codex: bool,
        traceparent: str | None,
    ) -> None:
        self.owner = owner
        self._runner = runner
        self._outlet = outlet
        self._request_id = request_id
        self._codex = codex
        self._traceparent = traceparent
        self._notes = Notes(runner.metrics, request_id)
        self._session = Session(new_id, runner.limits, once=once)
        self._runs: dict[str, Run] = {}
        self._moves = Moves(runner.ground, self, self._session, outlet, self._runs)
        self.again = Again(runner.ground, runner.keeper, self._moves, self._session, outlet)
        self._passing_on = PassingOn(
            runner.ground, self._session, self._moves, self.again, self._runs, request_id
        )
        self._early: dict[str, list[Stop]] = {}
        self._adopted: dict[str, WaitingTurn] = {}
        self._remembering: set[str | None] = set()
        self.headers: dict[str, str] = {}
        """What is left of the client's limits, once a turn has been charged to them."""

    @property
    def idle(self) -> bool:
        return self._session.idle

    async def receive(self, event: ClientEvent) -> None:
        ends: Ends = []
        if isinstance(event, CreateResponse):
            event, ends = await self._runner.large.run(self.owner, event.size, _prepared, event)
        if self._runner.draining and isinstance(event, CreateResponse):
            raise going_down()
        if not self._runner.knows(self.owner):  # since it came in
            raise Unauthorized(REVOKED)
        _check_id(event)
        if isinstance(event, Resume):
            await self._resume(event)
            return
        if isinstance(event, CreateResponse):
            event = self._as_meant(event)
            self._notes.skipped(event)
        elif await self.again.steered(event) or await self._passing_on.took(event):
            return
        await self.act(self._session.receive(event, self._resent(ends)))

    async def _resume(self, event: Resume) -> None:
        awaited = await self._moves.resume(event)
        if awaited is not None:
            told = self.again.retell(awaited.place, awaited.response_id, awaited.after)
            self._spawn(told, awaited.place)

    def _as_meant(self, event: CreateResponse) -> CreateResponse:
        """As it is meant by who sent it, with what was said beside it."""
        if self._traceparent and event.traceparent is None:
            event = replace(event, traceparent=self._traceparent)
        return meant(event) if self._codex else event

    def _resent(self, ends: Ends) -> Resent | None:
        """Return the turn that a client continues by saying all of it again, if it does."""
        if not ends:
            return None
        found = self._runner.archive.resent(ends, self.owner)
        self._runner.metrics.resent.labels("yes" if found else "no").inc()
        return found

    async def adopt(self, ticket: Ticket, waiting: WaitingTurn) -> None:
        """Go on with a turn of a gateway that is gone."""
        self._adopted[ticket.id] = waiting
        at_item_end = waiting.adopted.steered_at_item_end
        await self.act(self._session.take_up(ticket, at_item_end=at_item_end))

    async def refuse(self, error: RequestError, lane: str | None = None) -> None:
        """Turn away what never came to be a turn: it could not be read, or not now."""
        if self._session.idle:
            unread = CreateResponse(CreateBody())
            await self._do(Refuse(Ticket(new_id("resp"), lane, unread), error))
        else:  # a response that fails has no place within another
            await self._do(Say(error_frame(error, lane, self._request_id)))

    async def told(self, event: Steer | Interrupt) -> Event | None:
        """The same from outside; returns the receipt, which this connection's client gets too, or
        the error, which it does not."""
        decisions = self._session.receive(event)
        receipt: Event | None = None
        for decision in decisions:
            if isinstance(decision, Say | Stop):
                receipt = decision.event if isinstance(decision, Say) else decision.receipt
                break
        if not isinstance(receipt, ErrorFrame):
            await self.act(decisions)
        return receipt

    def withdraw(self, ticket: Ticket) -> None:
        self._session.withdraw(ticket)

    def forget(self, response_id: str, owner: str) -> None:
        if owner == self.owner:
            self._session.forget(response_id)

    async def finished(self) -> None:
        """Wait until nothing runs but in the background."""
        await self._moves.tasks.finished()

    async def close(self, *, for_good: bool = False) -> None:
        """The client is gone; ``for_good`` if it said so."""
        await self.act(self._session.close(for_good=for_good))
        for lane in self._remembering:
            self._runner.memory.forget(self.owner, (self, lane))
        self._moves.leave()
        await self.finished()

    def revoke(self) -> None:
        """Its key was taken back: what runs or waits ends now."""
        self._spawn(self.act(self._session.revoke(Unauthorized(REVOKED))))

    # -- decisions --------------------------------------------------------------------------------

    async def act(self, decisions: Sequence[Decision]) -> None:
        """Carry out all of them: what one meets must not keep another from starting."""
        for decision in decisions:
            try:
                await self._do(decision)
            except Exception:
                log.exception("fault request_id=%s", self._request_id)

    async def _do(self, decision: Decision) -> None:
        match decision:
            case Say():
                if isinstance(decision.event, ErrorFrame):
                    self._notes.refused(decision.event.error.code)
                await self._outlet.send([decision.event])
            case Refuse():
                self._notes.refused(decision.error.code, decision.ticket.request)
                await self._outlet.send(self._refused(decision.ticket, decision.error))
            case Start():
                self._spawn(self._run(decision.ticket), decision.ticket)
            case Recall():
                self._spawn(self.again.recall(decision.ticket), decision.ticket)
            case Fetch():
                self._spawn(self._fetch(decision.ticket, decision.response_id), decision.ticket)
            case Stop():
                await self._stop(decision)

    async def _stop(self, order: Stop) -> None:
        if self.again.stop(order.ticket):
            return
        run = self._runs.get(order.ticket.id)
        if run is None:  # its task has not come to run yet
            self._early.setdefault(order.ticket.id, []).append(order)
        else:
            run.record_steer(order)
            if not run.stop(order) and order.receipt is not None:
                await run.outlet.send([order.receipt])

    def _spawn(self, work: Coroutine[Any, Any, None], ticket: Ticket | None = None) -> None:
        lasting = self._moves.left or (ticket is not None and ticket.background)
        tasks = self._runner.background if lasting else self._moves.tasks
        tasks.spawn(self._guarded(work, ticket) if ticket else work)

    async def _guarded(self, work: Coroutine[Any, Any, None], ticket: Ticket) -> None:
        """Whatever a task meets, the client hears of it and the ticket's place is free again."""
        try:
            with cancels_of_others():
                await work
        except Repeated as known:
            self._early.pop(ticket.id, None)
            await self._guarded(self.again.retell(ticket, known.turn_id), ticket)
        except Exception as error:  # noqa: BLE001 - whatever it is, it ends here
            self._early.pop(ticket.id, None)
            refusal, waiting = self._refusal(ticket, error), self._adopted.pop(ticket.id, None)
            unheard = await self._runner.reviving.refused(ticket, waiting, refusal)
            decisions = self._session.refuse(ticket, refusal)
            if waiting is None:  # else nobody is here to be told
                await self.act([*map(Say, unheard), *decisions])

    def _refusal(self, ticket: Ticket, error: Exception) -> RequestError:
        if isinstance(error, RequestError):
            return error
        if isinstance(error, StoreError):
            return StoreAway(error)
        named = self._notes.name(ticket.request)
        log.error("fault request_id=%s turn=%s", named, ticket.id, exc_info=error)
        return ServerFault(self._fault)

    @property
    def _fault(self) -> str:
        return (
            "An internal error ended this turn. Whoever runs this server finds it in the log by "
            f"{self._request_id}."
        )

    def _named(self, run: Run) -> str:
        return self._notes.name(run.ticket.request)

    def _refused(self, ticket: Ticket, error: RequestError) -> list[Event]:
        error.param = as_sent(error.param, ticket.request.places)
        problem = failure_of(error) if self._codex else None
        if problem is None:
            return [error_frame(error, ticket.lane, self._request_id)]
        return [*stillborn(ticket.request, ticket.id, ticket.lane, problem, now())]

    async def _fetch(self, ticket: Ticket, response_id: str) -> None:
        link = await self._runner.archive.link(response_id, self.owner)
        if link is None and await self._runner.runs.find(response_id, self.owner) is not None:
            raise no_parent(f"Response '{response_id}' is in progress; continue it when it ended.")
        await self.act(self._session.found(ticket, link))

    # -- one turn ---------------------------------------------------------------------------------

    async def _run(self, ticket: Ticket) -> None:
        try:
            if ticket.line and self._runner.leaving and not self._runner.keeper.lasts(ticket.id):
                raise going_down()
            adopted = self._adopted.get(ticket.id)
            if adopted is not None and not self._runner.knows(self.owner):
                raise Unauthorized(REVOKED)  # while no gateway held it
            await self._runner.archive.check_past(ticket, self.owner)
            log = adopted.log if adopted is not None else None
            promised = ticket.id in self._runner.keeper.on_record
            plan = await self._runner.planner.plan(
                ticket, self.owner, log, accepted=adopted is not None, promised=promised
            )
        except RequestError:
            await self._show(self._runner.planner.model(ticket))
            raise
        try:
            await self._run_as_planned(ticket, plan)
        finally:
            await self._runner.planner.abandon(plan)

    async def _show(self, model: str | None) -> None:
        shown = await self._runner.planner.shown(model, self.owner, codex=self._codex)
        self.headers = shown.headers
        if shown.events:
            await self._outlet.send([*shown.events])

    async def _run_as_planned(self, ticket: Ticket, plan: Plan) -> None:
        await self._show(plan.offer.tier.name)
        run = self._runs[ticket.id] = await self._new_run(ticket, plan)
        ticket.ends_thinking = plan.offer.card.ends_thinking
        try:
            if run.kept is not None:  # beside the engine, which need not wait for it
                run.kept.put_on_record(run.refuse, later=plan.place.waits_there)
            await self._runner.began(run)
            self._adopted.pop(ticket.id, None)
            for order in (*self._early.pop(ticket.id, ()), *run.begin()):
                await self._stop(order)
            await self._carry(run, ticket, plan)
        finally:
            run.home.let_go(run)
            if run.kept is not None:
                run.kept.close()
            await self._runner.ended(run)

    async def _new_run(self, ticket: Ticket, plan: Plan) -> Run:
        name, keeper = plan.offer.card.name, self._runner.keeper
        if ticket.id in self._adopted:
            return self._go_on(ticket, name, self._adopted[ticket.id])
        response = open_response(ticket.request, ticket.id, name, now(), plan.routing)
        record: Record | None = None
        if ticket.request.stored or ticket.waits:
            record = await self._runner.archive.events.open(response, self.owner)
        kept = (
            partial(keeper.begin, ticket, response, self.owner) if ticket.request.stored else None
        )
        turn = Turn(response, ticket.lane)
        return Run(turn, name, ticket, self, self._moves, self._outlet, record, kept)

    def _go_on(self, ticket: Ticket, name: str, waiting: WaitingTurn) -> Run:
        adopted, told = waiting.adopted, waiting.record
        anew, record = waiting.log is None, adopted.record
        keep = partial(self._runner.keeper.go_on, ticket, record, adopted.created, anew=anew)
        run = Run(adopted.turn(), name, ticket, self, self._moves, self._outlet, told, keep)
        run.said, run.attempt = adopted.said(), record.attempt + anew
        self._runner.keeper.on_record.add(run.id)
        return run

    async def _carry(self, run: Run, ticket: Ticket, plan: Plan) -> None:
        meter = Meter()
        last, outcome = await self._answer(run, plan, meter)
        last = [*run.receipts, *last]
        length = 0
        try:
            tokens = meter.tokens = meter.tokens or plan.taken(meter.taken)
            length = plan.length(tokens)
            await self._runner.planner.settle(
                plan, tokens, replace(outcome, first_token=meter.waited)
            )
            meter.report(self._runner.metrics, run.turn, run.model, self._named(run))
        except Exception:  # the turn has its end, whatever became of its accounts
            log.exception("fault request_id=%s turn=%s", self._named(run), run.turn.id)
        link = await self._runner.archive.made(ticket, run.turn, length, self.owner)
        if run.kept is not None:
            try:
                last, link = await self._runner.ending.on_record(
                    run.kept, run, link, last, self._named(run)
                )
            except TakenAway:
                await self._runner.ending.elsewhere(run, self._named(run))
                return
        else:
            run.home.seal(ticket, None if run.turn.status == "failed" else link)
            if run.turn.status != "failed" and ticket.request.fill is None:
                self._runner.archive.remember(link, self.owner)
        run.settle()
        told: list[Decision] = []
        try:
            await run.outlet.send(last)
        except Exception as error:  # noqa: BLE001 - the client must hear of an end
            told.append(Say(error_frame(self._refusal(ticket, error), ticket.lane)))
        home = run.home  # nothing begins on its lane before all of it is sent
        decisions = home.settle(ticket, None if run.turn.status == "failed" else link)
        await home.act([*told, *decisions])

    async def _answer(self, run: Run, plan: Plan, meter: Meter) -> tuple[list[Event], Outcome]:
        """The closing events, which are not sent yet, however it ended; and what to make of it."""
        outcome = Outcome(verdict="unknown")
        last: list[Event]
        try:
            with cancels_of_others():
                last = await self._runner.answering.answer(run, plan, meter, self._named(run))
            outcome = Outcome()
        except EngineError as error:
            self._runner.answering.refuse_unheard(run, plan, error)
            outcome = failing(error)
            # Its words may quote the prompt: they are for the client, not for the log.
            log.warning(
                "failed request_id=%s turn=%s %s", self._named(run), run.turn.id, error.code
            )
            last = run.enter(Failed(now(), error.code, self._words(error, plan)))
        except Exception:  # a fault of ours must end this turn, not wedge its lane
            log.exception("fault request_id=%s turn=%s", self._named(run), run.turn.id)
            last = run.enter(Failed(now(), "server_error", self._fault))
        except asyncio.CancelledError:
            if run.stopping is None and not run.refused:
                raise
            asyncio.current_task().uncancel()  # type: ignore[union-attr]
            last = run.last_events()
        if run.kept is not None:
            await run.kept.accepted()  # nobody has heard of a turn that may not be
        return last, outcome

    def _words(self, error: EngineError, plan: Plan) -> str:
        """What the client is told, and when to try again where HTTP can still say so."""
        if plan.wait is not None:
            self.headers = {**self.headers, **retry_headers(plan.wait)}
        return plan.told(error)

    def remember(self, lane: str | None) -> None:
        """The lane goes on from its newest turn, unless memory is short and others are newer."""
        if not self._session.alone:
            self._remembering.add(lane)
            self._runner.memory.keep(self.owner, (self, lane), partial(self._session.let_go, lane))


def _check_id(event: ClientEvent) -> None:
    """Refuse what is about a response that cannot exist, before anything is asked for it."""
    match event:
        case CreateResponse():
            response_id = event.body.previous_response_id
        case Steer():
            response_id = event.previous_response_id
        case _:
            response_id = event.response_id
    if response_id is None or is_id(response_id):
        return
    if isinstance(event, CreateResponse):
        raise no_parent(NO_ID)
    param = "previous_response_id" if isinstance(event, Steer) else "response_id"
    raise NotFound(NO_ID, code="response_not_found", param=param)

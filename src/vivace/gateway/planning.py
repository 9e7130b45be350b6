"""What a turn needs before it can run: a tier, the work for its engines, leave, and a place."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from math import ceil
from typing import TypeVar, TypeVarTuple

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from vivace.completion import fitting
from vivace.conversation import compaction
from vivace.conversation.chain import tools_in
from vivace.conversation.context import fit, refuse_images
from vivace.conversation.deltas import MAX_TOKENS, Tokens
from vivace.conversation.session import Ticket
from vivace.counters.base import Grant, Limiter
from vivace.engines.base import Bounds, Chat, Engine, Fill, QueueingEngine, Sampling, Tally, Work
from vivace.engines.continuing import can_continue
from vivace.engines.messages import estimate_tokens
from vivace.errors import (
    CannotContinue,
    EngineDied,
    EngineDrained,
    EngineError,
    EngineFull,
    EngineSilent,
    RequestError,
    TooManyRequests,
    Unavailable,
)
from vivace.gateway.catalogue import Catalogue, Offer
from vivace.gateway.dispatch import Dispatch, Place
from vivace.gateway.display import Shown, for_codex, for_everyone
from vivace.gateway.ids import now
from vivace.gateway.measuring import Measuring
from vivace.gateway.ports import EngineLog
from vivace.protocol.events import Routing
from vivace.protocol.items import AdditionalTools, Item, Message
from vivace.protocol.requests import CreateResponse, TextConfig, Toolbox
from vivace.scheduling.failover import MOST_DEATHS
from vivace.scheduling.queue import KINDS, Job, Weights
from vivace.scheduling.scheduler import Outcome, Verdict
from vivace.scheduling.tiers import Ask, Tier, begins_too_late, kind_of, queue_full
from vivace.threads import in_thread

__all__ = ["Plan", "Planner", "failing"]

_USUAL_ANSWER = 256
"""Tokens that an answer is taken to have until it has them."""
_LONG_ANSWER = 1024
"""A client that allows far more seldom gets it, and must not be refused for it."""
_LOOK, _PATIENCE = 0.25, 10.0
"""Seconds between two looks for an engine, and in all."""
_SHORT = 4096
"""Tokens whose counting is not felt by others, even where each is looked at."""
_MANY_ITEMS = 1000
"""Items of a conversation; each takes some microseconds to look at."""
_WEIGHTS = Weights()

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class Plan:
    """A turn that has its place: what will run, and what it was charged."""

    def __init__(
        self,
        offer: Offer,
        work: Work,
        place: Place,
        grant: Grant,
        routing: Routing | UnsetType,
        ask: Ask,
        unread: int,
    ) -> None:
        self.offer = offer
        self.work = work
        self.place = place
        self.routing = routing
        self.grant = grant
        self.wait: float | None = None
        """The shortest time after which an engine that failed it wants to be asked again."""
        self.doubted: list[Place] = []
        """Where it failed, perhaps by its own fault: if another engine can do it, by theirs."""
        self.returns = 0
        """How often it has waited for an engine to come back."""
        self._ask = ask
        self._unread = unread

    @property
    def estimate(self) -> int:
        """Of the tokens that an engine has to read."""
        return self._ask.input_tokens

    def note(self, error: EngineError) -> None:
        waits = [wait for wait in (self.wait, error.retry_after) if wait is not None]
        self.wait = min(waits, default=None)

    def told(self, error: EngineError) -> str:
        """With when to try again, where an engine said so."""
        if self.wait is None:
            return str(error)
        return f"{str(error).rstrip('.')}. Try again in {ceil(self.wait)} s."

    def taken(self, tally: Tally | None) -> Tokens:
        """What a turn took that was stopped before its engine could tell; nothing, if no engine
        has worked on it."""
        if tally is None:
            return Tokens()
        taken = Tokens(tally.input or self._ask.input_tokens, tally.output, tally.cached)
        return taken.within(MAX_TOKENS)

    def length(self, tokens: Tokens) -> int:
        """How long the conversation is after it, by what its engine counted; 0 if it did not."""
        return max(0, tokens.input + tokens.output + self._unread) if tokens.input else 0


class _Charged:
    """Leave for a turn that another gateway was charged for."""

    async def settle(self, *, input_tokens: int, output_tokens: int) -> None:
        pass


class Planner:
    def __init__(self, catalogue: Catalogue, dispatch: Dispatch, limiter: Limiter) -> None:
        self._catalogue = catalogue
        self._dispatch = dispatch
        self._limiter = limiter
        self._measuring = Measuring(catalogue, dispatch)

    async def plan(
        self,
        ticket: Ticket,
        owner: str,
        log: EngineLog | None = None,
        *,
        accepted: bool = False,
        promised: bool = False,
    ) -> Plan:
        """Refuses what cannot be: no such model, over a limit, too long, too many before it.
        ``log``: an engine has it from another gateway, which was charged for it. ``accepted``: a
        gateway that is gone had let it in, so no limit holds it up. ``promised``: the turn before
        it put it on record, so engines that are away for a moment are waited for."""
        until = time.monotonic() + _PATIENCE
        while True:
            try:
                return await self._plan(ticket, owner, log, accepted)
            except Unavailable as error:
                if not promised or time.monotonic() > until:
                    raise
                await asyncio.sleep(min(error.retry_after or _LOOK, _LOOK))

    async def _plan(
        self, ticket: Ticket, owner: str, log: EngineLog | None, accepted: bool
    ) -> Plan:
        offer, routing, ask = self._tier(ticket)
        since = time.monotonic()
        written = min(ask.max_tokens or _USUAL_ANSWER, _LONG_ANSWER)
        grant: Grant = _Charged()
        if log is None:
            grant = await self._charge(
                offer, owner, ask, written if ticket.request.generates else 0, accepted
            )
        kind = kind_of(ask)
        job = Job(
            id=ticket.id,
            owner=owner,
            tier=offer.tier.name,
            kind=kind,
            place=f"{owner}/{_conversation(ticket)}",
            cost=_WEIGHTS.cost(ask.new_tokens, written),
            since=since,
        )
        try:
            read = await self._fitted(ticket, offer, ask, job.place)
            work = _work(ticket, offer, read, job)
            place = self._dispatch.taken_over(job, log) if log else self._dispatch.enter(job)
        except BaseException:
            await grant.settle(input_tokens=0, output_tokens=0)
            raise
        return Plan(offer, work, place, grant, routing, ask, read.unread)

    async def _charge(
        self, offer: Offer, owner: str, ask: Ask, written: int, accepted: bool
    ) -> Grant:
        tier = offer.tier
        try:
            return await self._limiter.charge(
                owner, tier.name, tier.limits, input_tokens=ask.input_tokens, output_tokens=written
            )
        except TooManyRequests:
            if not accepted:
                raise
            return _Charged()

    async def _fitted(self, ticket: Ticket, offer: Offer, ask: Ask, place: str) -> _Read:
        """Refuses what is too long."""
        if ticket.request.fill is None and self._measuring.is_elsewhere(offer):
            return await self._fitted_elsewhere(ticket, offer, place)
        counted = ticket.parent is not None and ticket.parent.tokens
        if max(ask.new_tokens, 0 if counted else ask.input_tokens) < _SHORT:
            return _prompt(ticket, offer)
        # An engine may have to tokenise what it counts.
        return await in_thread(_prompt, ticket, offer)

    async def _fitted_elsewhere(self, ticket: Ticket, offer: Offer, place: str) -> _Read:
        parts = await _beside(ticket, _parts, ticket, offer)
        unknown = parts.new if parts.known else [*parts.past, *parts.new]
        fixed, fresh = await self._measuring.lengths(
            offer, place, (parts.fixed, unknown), parts.known, refuses=not _truncates(ticket)
        )
        return await _beside(ticket, _read, ticket, offer, parts, fixed, fresh)

    def could_take(self, plan: Plan, avoid: frozenset[str], work: Work) -> bool:
        """Whether an engine that works could do what is left of a turn."""
        return any(map(self._dispatch.works, self._others(plan, avoid, work)))

    def begins_elsewhere(self, plan: Plan, work: Work) -> bool:
        """Whether another engine than the one it waits for would begin with it at once."""
        place = plan.place
        here = place.started.result().engine
        others = self._others(plan, place.job.avoid | {here}, work)
        return any(self._dispatch.has_room(name, place.job.kind) for name in others)

    def queueing(self, engine: Engine) -> QueueingEngine | None:
        return self._dispatch.queueing(engine)

    def bounds(self, plan: Plan) -> Bounds:
        """Of the queue of the engine that it has."""
        tier, engine = self._now(plan), plan.place.started.result().engine
        return Bounds(self._dispatch.share(tier.name, engine), tier.first_token)

    def full(self, plan: Plan, error: EngineFull) -> TooManyRequests:
        """The same that is said where the queue is this gateway's own."""
        too_late = error.code == "would_wait_too_long"
        return (begins_too_late if too_late else queue_full)(self._now(plan), error.seconds)

    def _others(self, plan: Plan, avoid: frozenset[str], work: Work) -> set[str]:
        engines = self._catalogue.by_name
        return {
            name
            for name in self._now(plan).engines
            if name not in avoid and can_continue(engines[name].continues, work)
        }

    def _now(self, plan: Plan) -> Tier:
        """A turn's tier as it is now: engines may have joined it, or left."""
        return self._catalogue.tier(plan.offer.tier.name) or plan.offer.tier

    def again(self, plan: Plan, error: EngineError, avoid: frozenset[str], work: Work) -> bool:
        """Another place for a turn that its engine failed, but on none of those; False when there
        is no other."""
        failed, job = plan.place, plan.place.job
        others = self._others(plan, avoid, work)
        shunned = frozenset(self._now(plan).engines) - others
        waits = not others and self._may_come_back(plan, error, work)
        if waits:
            plan.returns += 1
            shunned -= {failed.started.result().engine}
        elif not others:
            return False
        outcome = failing(error)
        if error.blame == "compared":
            outcome = replace(outcome, verdict="later")
            plan.doubted.append(failed)
        failed.leave(outcome)
        try:
            again = replace(job, avoid=shunned)
            if waits or work.said is not None or isinstance(error, EngineSilent | EngineDrained):
                # What it has waited before is over.
                again = replace(again, begun=True, since=time.monotonic())
            plan.place = self._dispatch.enter(again)
        except RequestError:
            return False
        return True

    def _may_come_back(self, plan: Plan, error: EngineError, work: Work) -> bool:
        """Whether a turn whose engine is gone can wait for that, or for its like: the node may have
        been started anew, and others may join."""
        died = isinstance(error, EngineDied) and not isinstance(error, CannotContinue)
        if not died or not self._now(plan).grows or plan.returns == MOST_DEATHS:
            return False
        return can_continue(plan.place.continues, work)

    async def settle(self, plan: Plan, tokens: Tokens, outcome: Outcome) -> None:
        """Charge what it really took, and make room for the next.

        An engine may say that this was more than its context holds, which cannot be: the key would
        be in debt for as long as the engine likes.
        """
        tokens = tokens.within(plan.offer.card.context)
        for place in plan.doubted:
            place.judge("bad" if outcome.verdict == "good" else "unknown")
        cost = _WEIGHTS.cost(max(0, tokens.input - tokens.cached), tokens.output)
        plan.place.leave(replace(outcome, cost=cost))
        await plan.grant.settle(input_tokens=tokens.input, output_tokens=tokens.output)

    async def abandon(self, plan: Plan) -> None:
        """Give back what a turn had that did not come to settle; after that it changes nothing."""
        plan.place.leave(Outcome(verdict="unknown"))
        await plan.grant.settle(input_tokens=0, output_tokens=0)

    async def count(self, request: CreateResponse, owner: str) -> int:
        """How many tokens a request is that is not to be answered.

        Counting is work too, so the tier's limits hold for it, but apart from those for answers: an
        agent that shows how full its context is counts twenty things at once.
        """
        model = request.body.model
        routed = self._catalogue.routes(model)
        offer = self._catalogue.routed(Ask())[0] if routed else self._catalogue.offer(model)
        tier = offer.tier
        grant = await self._limiter.charge(
            owner, f"{tier.name} (counting)", tier.limits, input_tokens=0, output_tokens=0
        )
        try:
            items = [*_fixed(request.body.instructions, request.toolbox), *request.items]
            if self._measuring.is_elsewhere(offer):
                told = await self._measuring.counted(offer, owner, (items,))
                return told[0] if told is not None else offer.engine.count(items, offer.card.name)
            if estimate_tokens(items) < _SHORT:
                return offer.engine.count(items, offer.card.name)
            return await in_thread(offer.engine.count, items, offer.card.name)
        finally:
            await grant.settle(input_tokens=0, output_tokens=0)

    async def shown(self, model: str | None, owner: str, *, codex: bool) -> Shown:
        """What is left of an owner's limits in the tier of this name."""
        tier = self._catalogue.tier(model)
        if tier is None:
            return Shown({})
        windows = await self._limiter.windows(owner, tier.name, tier.limits)
        if not codex:
            return for_everyone(windows)
        return for_codex(tier.name, windows, self._catalogue.for_codex.etag, now())

    def model(self, ticket: Ticket) -> str | None:
        """What it asks for, by its model or by a service tier that is one of ours."""
        body = ticket.request.body
        return self._catalogue.named(body.service_tier) or body.model

    def _tier(self, ticket: Ticket) -> tuple[Offer, Routing | UnsetType, Ask]:
        model = self.model(ticket)
        ask = _ask(ticket)
        routing: Routing | UnsetType = UNSET
        if self._catalogue.routes(model):
            offer, routing = self._catalogue.routed(ask)
        else:
            offer = self._catalogue.offer(model)
        request = ticket.request  # no more of it is read than fits
        if request.body.truncation == "auto" or (request.fill and request.fill.is_gap):
            ask = replace(ask, input_tokens=min(ask.input_tokens, offer.card.context))
        return offer, routing, ask


def failing(error: EngineError) -> Outcome:
    """How a turn left an engine that failed it."""
    verdict: Verdict = "bad" if error.blame == "always" else "unknown"
    # One that is full for a key may have room for another.
    rest = None if isinstance(error, EngineFull) else error.retry_after
    return Outcome(verdict=verdict, rest=rest)


def _ask(ticket: Ticket) -> Ask:
    """What is known of a request before it runs; lengths are estimates."""
    request, body = ticket.request, ticket.request.body
    fill = request.fill
    fresh = estimate_tokens([_text(fitting.shown(fill))] if fill else ticket.input)
    known = ticket.parent.tokens if ticket.parent else 0
    past = known or estimate_tokens(ticket.past)
    return Ask(
        fill=fill is not None,
        steered=bool(ticket.carried),
        foretold=body.prediction is not None,
        background=bool(body.background) or body.service_tier == "flex",
        tools=bool(request.toolbox.tools),
        input_tokens=past + fresh,
        new_tokens=fresh,
        max_tokens=body.max_output_tokens,
        effort=body.reasoning.effort if body.reasoning else None,
        failed_before=ticket.parent is not None and not ticket.parent.whole,
    )


def _conversation(ticket: Ticket) -> str:
    """A name for the conversation that stays the same from turn to turn."""
    if ticket.request.body.prompt_cache_key:
        return ticket.request.body.prompt_cache_key
    link = ticket.parent
    while link is not None and link.parent is not None:
        link = link.parent
    return link.id if link is not None else ticket.id


async def _beside(ticket: Ticket, work: Callable[[*Ts], T], *args: *Ts) -> T:
    """Return what ``work`` does, which a long conversation has done beside the event loop."""
    if len(ticket.past) + len(ticket.input) <= _MANY_ITEMS:
        return work(*args)
    return await in_thread(work, *args)


class _Read(Struct, frozen=True):
    """What the engine will read."""

    prompt: Chat | Fill
    room: int
    """Tokens that its context leaves for the answer."""
    unread: int = 0
    """What the conversation is longer than that: what was dropped, without the instructions and
    tools that are read beside it."""


def _work(ticket: Ticket, offer: Offer, read: _Read, job: Job) -> Work:
    request, body = ticket.request, ticket.request.body
    return Work(
        priority=KINDS.index(job.kind),
        id=ticket.id,
        model=offer.card.name,
        prompt=read.prompt,
        sampling=Sampling(
            temperature=body.temperature,
            top_p=body.top_p,
            presence_penalty=body.presence_penalty,
            frequency_penalty=body.frequency_penalty,
            max_tokens=_at_most(body.max_output_tokens, read.room),
            stop=tuple(body.stop or ()),
            seed=body.seed,
        ),
        generate=request.generates,
        parent_id=ticket.parent.id if ticket.parent else None,
        owner=job.owner,
        conversation=job.place,
        cost=job.cost,
        tier=job.tier,
        traceparent=request.traceparent,
    )


def _at_most(asked: int | None, room: int) -> int | None:
    """A limit beyond what the context leaves is none: the context ends the answer before, and some
    endpoints would refuse it. The room itself is no limit to set, for it may be an estimate."""
    return asked if asked is not None and asked < room else None


class _Parts(Struct, frozen=True):
    """Of a conversation, as a model reads it."""

    toolbox: Toolbox
    fixed: list[Item]
    """Instructions and tools, in a form that can be counted."""
    past: list[Item]
    new: list[Item]
    known: int
    """How long the past is, if an engine has counted it."""


def _parts(ticket: Ticket, offer: Offer) -> _Parts:
    """Refuses what the engine could not read, however short."""
    refuse_images(ticket.request.items[ticket.resent :], offer.card.name, ticket.resent)
    toolbox = _all_tools(ticket.request.toolbox, (*ticket.past, *ticket.input))
    return _Parts(
        toolbox,
        _fixed(ticket.request.body.instructions, toolbox),
        compaction.expand(ticket.past),
        compaction.expand(ticket.input),
        ticket.parent.tokens if ticket.parent else 0,
    )


def _truncates(ticket: Ticket) -> bool:
    return ticket.request.body.truncation == "auto"


def _prompt(ticket: Ticket, offer: Offer) -> _Read:
    """Refuses what the engine could not read."""
    fill, card = ticket.request.fill, offer.card
    if fill is not None:
        return _Read(_fill(fill, ticket, offer) if fill.is_gap else fill, card.context)
    parts = _parts(ticket, offer)
    return _read(ticket, offer, parts, offer.engine.count(parts.fixed, card.name))


def _read(
    ticket: Ticket, offer: Offer, parts: _Parts, fixed: int, fresh: int | None = None
) -> _Read:
    """``fixed`` is how long that is; ``fresh`` what is not known, if it was counted."""
    engine, card = offer.engine, offer.card
    fitted = fit(
        parts.past,
        parts.new,
        known=parts.known,
        fixed=fixed,
        limit=card.context,
        count=lambda some: engine.count(some, card.name),
        truncate=_truncates(ticket),
        counted=fresh,
    )
    return _Read(_chat(ticket, parts.toolbox, fitted.items), fitted.room, fitted.dropped - fixed)


def _fill(fill: Fill, ticket: Ticket, offer: Offer) -> Fill:
    """Its answer needs room too, but not at the cost of most of what it is made from."""
    engine, card = offer.engine, offer.card
    answer = min(ticket.request.body.max_output_tokens or _USUAL_ANSWER, card.context // 4)
    return fitting.fit(
        fill, card.context - answer, lambda text: engine.count([_text(text)], card.name)
    )


def _text(text: str) -> Message:
    """Plain text in a form that can be counted."""
    return Message(role="user", content=text)


def _chat(ticket: Ticket, toolbox: Toolbox, items: Sequence[Item]) -> Chat:
    request, body = ticket.request, ticket.request.body
    return Chat(
        items=items,
        instructions=body.instructions,
        toolbox=toolbox,
        tool_choice=request.tool_choice,
        parallel_tool_calls=body.parallel_tool_calls is not False,
        format=(body.text or TextConfig()).format,
        effort=body.reasoning.effort if body.reasoning else None,
        prediction=body.prediction,
    )


def _all_tools(own: Toolbox, items: Sequence[Item]) -> Toolbox:
    carried = tuple(tools_in(items))
    return replace(own, tools=(*own.tools, *carried)) if carried else own


def _fixed(instructions: str | None, toolbox: Toolbox) -> list[Item]:
    """Instructions and tools in a form that can be counted."""
    fixed: list[Item] = []
    if instructions:
        fixed.append(Message(role="system", content=instructions))
    if toolbox.tools:
        fixed.append(AdditionalTools(tools=list(toolbox.tools)))
    return fixed

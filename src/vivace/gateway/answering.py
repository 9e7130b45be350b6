"""Reads a turn's answer from an engine, and from another when that one dies."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from functools import partial

from msgspec.structs import replace

from vivace.conversation.deltas import Finished, Tokens
from vivace.conversation.log import Begun, Placed, Said, ThinkingEnded
from vivace.engines.base import Engine, Generates, OnRecord, Tally, Work
from vivace.errors import EngineError, EngineFull, HeldElsewhere
from vivace.gateway.attempts import Attempts
from vivace.gateway.ids import now
from vivace.gateway.listening import Listening
from vivace.gateway.meter import Meter
from vivace.gateway.metrics import Metrics
from vivace.gateway.planning import Plan, Planner
from vivace.gateway.runs import Run
from vivace.protocol.codec import encode
from vivace.protocol.events import Event
from vivace.scheduling.scheduler import Waiting

__all__ = ["Answering"]

log = logging.getLogger("vivace.turns")


class Answering:
    def __init__(self, planner: Planner, listening: Listening, metrics: Metrics) -> None:
        self._planner = planner
        self._listening = listening
        self._metrics = metrics

    async def answer(self, run: Run, plan: Plan, meter: Meter, name: str) -> list[Event]:
        """On the engine it was given; where that fails, on another from what was said on."""
        attempts = Attempts(plan, self._planner, meter, run.said, run.attempt)

        async def tell(waiting: Waiting) -> None:
            await _queued(run, waiting.position, waiting.seconds)

        while True:
            engine = await plan.place.engine(tell)
            try:
                with self._listening.reading(engine.name, run, attempts, meter) as listener:
                    work = _known(run, attempts.work, meter)
                    async with self._slot(run, engine, plan, work) as ready:
                        listener.begun = True
                        return await self._generate(run, ready, attempts, meter)
            except EngineError as error:
                if isinstance(error, HeldElsewhere):
                    await run.fall_silent()
                plan.note(error)
                why = attempts.failed(error)
                if run.kept is not None:
                    run.kept.attempt()
                self._metrics.failovers.labels(why).inc()
                log.info(
                    "goes on elsewhere request_id=%s turn=%s %s",
                    name,
                    run.turn.id,
                    why,
                )

    def refuse_unheard(self, run: Run, plan: Plan, error: EngineError) -> None:
        """Raises the refusal of a turn that no queue has room for, if it may still be as if it had
        never been."""
        if isinstance(error, EngineFull) and run.may_be_refused:
            raise self._planner.full(plan, error) from None

    @asynccontextmanager
    async def _slot(
        self, run: Run, engine: Engine, plan: Plan, work: Work
    ) -> AsyncIterator[Generates]:
        """The engine, once it has room: one that others ask, too, has a queue of its own."""
        queueing = plan.place.log or self._planner.queueing(engine)
        if queueing is None:
            yield engine
            return
        if run.may_be_refused:
            work = replace(work, bounds=self._planner.bounds(plan))
        leaves = partial(self._planner.begins_elsewhere, plan, work)
        async with queueing.slot(work, partial(_queued, run), leaves) as ready:
            yield ready

    async def _generate(
        self, run: Run, engine: Generates, attempts: Attempts, meter: Meter
    ) -> list[Event]:
        """Pass on deltas as they come; returns the closing events, which are not sent yet."""
        await run.say(Begun(now(), run.ticket.request.compacts))
        while not attempts.over:
            ended = await self._read(run, engine, attempts, meter)
            if ended is not None:
                return ended
            if attempts.answer(run.turn.thoughts):
                await run.say(ThinkingEnded(now()))
        meter.tokens = meter.counted(Tokens())
        return run.enter(Said(now(), Finished("length", meter.tokens)))

    async def _read(
        self, run: Run, engine: Generates, attempts: Attempts, meter: Meter
    ) -> list[Event] | None:
        """None when the thinking was ended, for the answer to be asked for."""
        turn, outlet, work = run.turn, run.outlet, _known(run, attempts.work, meter)
        asked = time.perf_counter()
        meter.tally = Tally()
        async with aclosing(engine.generate(replace(work, tally=meter.tally))) as deltas:
            async for delta in deltas:
                if isinstance(delta, Finished):
                    meter.tokens = meter.counted(delta.tokens)
                    return run.enter(Said(now(), replace(delta, tokens=meter.tokens)))
                if meter.first is None:
                    meter.first = time.perf_counter()
                    meter.waited = meter.first - asked
                attempts.hear(delta)
                run.unsent = run.enter(Said(now(), delta))
                if turn.ended:  # a steer waited for this item
                    return run.unsent
                await outlet.send(run.unsent)
                if attempts.too_long:
                    meter.tokens = meter.counted(_noted(meter.tally))
                    return run.enter(Said(now(), Finished("length", meter.tokens)))
                if run.answers_now and work.thoughts is None and turn.thoughts:
                    return None
        problem = "The engine stopped without finishing its answer."
        raise EngineError(problem, blame="always")


def _noted(tally: Tally) -> Tokens:
    return Tokens(tally.input, tally.output, tally.cached)


def _known(run: Run, work: Work, meter: Meter) -> Work:
    """With what another gateway must know that takes the turn over."""
    if run.kept is None or run.record is None:
        return work
    record = run.record
    known = OnRecord(
        epoch=run.kept.epoch,
        created=encode(record.created) if run.kept.told_otherwise else b"",
        before=record.packed(),
        tokens=meter.before,
        summary=run.ticket.request.compacts,
        last_told=lambda: record.last_said,
    )
    return replace(work, on_record=known)


async def _queued(run: Run, position: int, seconds: float) -> None:
    await run.say(Placed(now(), position, seconds))

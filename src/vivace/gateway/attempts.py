"""One turn on its way from engine to engine: what was said of it, and what the next one is given.

What is to be decided is in ``scheduling/failover.py``.
"""

from __future__ import annotations

from msgspec.structs import replace

from vivace.conversation.deltas import Delta, Finished, content_bytes
from vivace.conversation.so_far import SoFar
from vivace.engines.base import Tally, Thoughts, Work
from vivace.errors import EngineDied, EngineDrained, EngineError, EngineFull, EngineSilent
from vivace.gateway.meter import Meter
from vivace.gateway.planning import Plan, Planner
from vivace.gateway.ports import EngineLog
from vivace.scheduling.failover import Failover

__all__ = ["MAX_ANSWER_BYTES", "MAX_ANSWER_DELTAS", "Attempts"]

MAX_ANSWER_BYTES = 8_000_000
MAX_ANSWER_DELTAS = 500_000
"""More than any model writes in one answer. All of it is in memory until it ends, and each of its
last events, which are made in one turn of the event loop, has all of its text."""


class Attempts:
    def __init__(
        self,
        plan: Plan,
        planner: Planner,
        meter: Meter,
        said: SoFar | None = None,
        attempt: int = 1,
    ) -> None:
        """``said``: what was said of it before this gateway had it; if its engine goes on with it,
        partly by that. ``attempt`` is the number of the first one here."""
        self.work = replace(plan.work, attempt=attempt)
        """For the next engine."""
        self.over = False
        """Whether all was said that may be."""
        self._asked = self.work
        """The same without what was said of it."""
        self._plan = plan
        self._planner = planner
        self._meter = meter
        self._failover = Failover()
        self._said: list[Delta] = []
        self._before = 0
        """How many of these are of engines that died, and how many tokens those are."""
        self._tokens = 0
        self._heard = self._heard_bytes = 0
        if plan.place.log is not None:
            self._take_over(plan.place.log, said)
        elif said is not None:
            self._said += said.deltas
            self._pass_on(said.tokens)

    def _take_over(self, log: EngineLog, said: SoFar | None) -> None:
        """The engine that has it is at work, and goes on."""
        self._said += said.deltas if said is not None else ()
        self._before, self._tokens = log.said_before, log.tokens.output
        self._meter.before = log.tokens

    def hear(self, delta: Delta) -> None:
        """Note what an engine has said."""
        self._said.append(delta)
        self._heard += 1
        self._heard_bytes += content_bytes(delta)

    @property
    def too_long(self) -> bool:
        """Whether more was said than any answer has: the engine does not end by itself."""
        return self._heard_bytes > MAX_ANSWER_BYTES or self._heard > MAX_ANSWER_DELTAS

    @property
    def estimate(self) -> int:
        """How many tokens the next engine has to read, roughly."""
        return self._plan.estimate + self._tokens

    @property
    def engine(self) -> str:
        """Which one works on it."""
        return self._plan.place.started.result().engine

    def failed(self, error: EngineError) -> str:
        """Find it another engine, or raise how it ends; returns why that was needed."""
        number = self.work.attempt + 1
        spoke, begun = len(self._said) > self._before, self._meter.first is not None
        avoid = self._failover.after(error, self.engine, spoke=spoke, begun=begun)
        if avoid is None:
            raise error
        if spoke:
            self._pass_on(self._count())
        elif not begun:
            self._meter.tally = None
        self._meter.waited = None  # it was another engine's
        self.work = replace(self.work, attempt=number)
        if not self.over and not self._planner.again(self._plan, error, avoid, self.work):
            raise error
        if isinstance(error, EngineSilent):
            return "silent"
        if isinstance(error, EngineDrained):
            return "drained"
        if isinstance(error, EngineFull):
            return "full"
        return "died" if isinstance(error, EngineDied) else "failed"

    def could_move(self, *, dies: bool = True) -> bool:
        """Whether there is another engine that could go on from here, and the turn not be given up
        for having left this one. ``dies``: whether that counts as one of its engines' deaths."""
        if dies and self._failover.is_last():
            return False
        work = self.work
        if self._said:
            said = SoFar(tuple(self._said), self._tokens + self._count())
            work = replace(self._asked, said=said)
        avoid = self._failover.failed | {self.engine}
        return self._planner.could_take(self._plan, avoid, work)

    def answer(self, thoughts: str) -> bool:
        """The thoughts are ended: the answer is to be asked for behind them, unless these took all
        that may be written."""
        spent = self._meter.tally or Tally()
        self._meter.goes_on(spent.output, spent.output)
        left = _left(self.work, spent.output)
        self.over = left is not None and left <= 0
        self.work = self._asked = replace(
            self.work,
            thoughts=Thoughts(thoughts, spent.trace),
            said=None,
            sampling=replace(self.work.sampling, max_tokens=left),
        )
        self._said.clear()
        self._before = self._tokens = 0
        return not self.over

    def _pass_on(self, count: int) -> None:
        """What was said, of which so many tokens are new, is where the next engine begins."""
        tally = self._meter.tally or Tally()
        new = self._said[self._before :]
        self._meter.goes_on(count, SoFar(tuple(new), count).reasoning)
        self._before = len(self._said)
        self._tokens += count
        left = _left(self._asked, self._tokens)
        self.over = left is not None and left <= 0
        self.work = replace(
            self._asked,
            attempt=self.work.attempt,
            said=SoFar(tuple(self._said), self._tokens, tally.trace),
            sampling=replace(self._asked.sampling, max_tokens=left),
        )

    def _count(self) -> int:
        """How many tokens this engine has said: by their ids, or as it counts."""
        new = self._said[self._before :]
        known = sum(len(each.ids) for each in new if not isinstance(each, Finished))
        counted = self._meter.tally.output if self._meter.tally is not None else 0
        return known or counted or len(new)


def _left(work: Work, tokens: int) -> int | None:
    limit = work.sampling.max_tokens
    return None if limit is None else limit - tokens

"""What is learnt of a turn while it runs, and where its events go."""

from __future__ import annotations

import logging
import time
from typing import Protocol

from msgspec.structs import replace

from vivace.conversation.deltas import MAX_TOKENS, Tokens
from vivace.conversation.turn import Turn
from vivace.engines.base import Tally
from vivace.gateway.metrics import Metrics
from vivace.protocol.events import Event

__all__ = ["Meter", "Outlet"]

log = logging.getLogger("vivace.turns")


class Outlet(Protocol):
    """Where a connection's events go. Waits while the reader is slow.

    What was sent is taken out of the list, so that whoever stops the sending knows what was not.
    """

    async def send(self, events: list[Event]) -> None: ...


class Meter:
    __slots__ = ("before", "first", "started", "tally", "tokens", "waited")

    def __init__(self) -> None:
        self.started = time.perf_counter()
        self.first: float | None = None
        self.waited: float | None = None
        """Seconds from asking the engine to its first word."""
        self.tally: Tally | None = None
        """What an engine that works on it has noted."""
        self.before = Tokens()
        """What was taken before the engine was asked that works on it now: thoughts that were
        ended, and what engines said that died."""
        self.tokens: Tokens | None = None
        """As the engine counted; None when it did not come to that."""

    @property
    def taken(self) -> Tally | None:
        """What was noted, by all that worked on it."""
        tally, before = self.tally, self.before
        if before == Tokens():
            return tally
        tally = tally or Tally()
        read = before.input or tally.input
        return Tally(read, before.cached, before.output + tally.output)

    def counted(self, tokens: Tokens) -> Tokens:
        """The same as an engine counted the last part: what came before was read again for it, but
        is output and no input to whoever asked."""
        before = self.before
        if before != Tokens():
            tokens = replace(
                tokens,
                input=before.input or tokens.input,
                cached=before.cached,
                output=before.output + tokens.output,
                reasoning=before.reasoning + tokens.reasoning,
            )
        return tokens.within(MAX_TOKENS)

    def goes_on(self, output: int, reasoning: int) -> None:
        """An engine is asked anew, for what follows so many tokens of the one before."""
        tally, before = self.tally or Tally(), self.before
        self.before = Tokens(
            before.input or tally.input,
            before.output + output,
            before.cached if before.input else tally.cached,
            before.reasoning + reasoning,
        )
        self.tally = Tally()  # whoever stops it before that begins counts nothing twice

    def report(self, metrics: Metrics, turn: Turn, model: str, request_id: str) -> None:
        """The turn has ended: to the metrics and the log."""
        tokens, ended = self.tokens or Tokens(), time.perf_counter()
        metrics.turns.labels(model, turn.status).inc()
        metrics.duration.labels(model).observe(ended - self.started)
        if self.first is not None:
            metrics.first_token.labels(model).observe(self.first - self.started)
        for kind, count in (
            ("input", tokens.input),
            ("cached", tokens.cached),
            ("output", tokens.output),
        ):
            metrics.tokens.labels(model, kind).inc(count)
        log.info(
            "turn request_id=%s turn=%s model=%s status=%s in=%d cached=%d out=%d ms=%.1f",
            request_id,
            turn.id,
            model,
            turn.status,
            tokens.input,
            tokens.cached,
            tokens.output,
            (ended - self.started) * 1000,
        )

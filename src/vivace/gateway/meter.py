"""What is learnt of a turn while it runs, and where its events go."""

from __future__ import annotations

import logging
import time
from typing import Protocol

from msgspec.structs import replace

from vivace.conversation.deltas import Tokens
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
    __slots__ = ("first", "started", "tally", "thinking", "tokens", "waited")

    def __init__(self) -> None:
        self.started = time.perf_counter()
        self.first: float | None = None
        self.waited: float | None = None
        """Seconds from asking the engine to its first word."""
        self.tally: Tally | None = None
        """What an engine that works on it has noted."""
        self.thinking: Tally | None = None
        """What thinking had taken when it was ended, so that the answer was asked for anew."""
        self.tokens: Tokens | None = None
        """As the engine counted; None when it did not come to that."""

    @property
    def taken(self) -> Tally | None:
        """What was noted, of thoughts and answer together."""
        tally, thinking = self.tally, self.thinking
        if tally is None or thinking is None:
            return tally
        read = thinking.input or tally.input
        return Tally(read, thinking.cached, thinking.output + tally.output)

    def counted(self, tokens: Tokens) -> Tokens:
        """The same as an engine counted the answer: thoughts were read again for it, but are output
        and no input to whoever asked."""
        thinking = self.thinking
        if thinking is None:
            return tokens
        return replace(
            tokens,
            input=thinking.input or tokens.input,
            cached=thinking.cached,
            output=thinking.output + tokens.output,
            reasoning=thinking.output + tokens.reasoning,
        )

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

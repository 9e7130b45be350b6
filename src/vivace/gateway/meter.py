"""What is learnt of a turn while it runs, and where its events go."""

from __future__ import annotations

import logging
import time
from typing import Protocol

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
    __slots__ = ("first", "started", "tally", "tokens", "unsent", "waited")

    def __init__(self) -> None:
        self.started = time.perf_counter()
        self.unsent: list[Event] = []
        self.first: float | None = None
        self.waited: float | None = None
        """Seconds from asking the engine to its first word."""
        self.tally: Tally | None = None
        """What an engine that works on it has noted."""
        self.tokens: Tokens | None = None
        """As the engine counted; None when it did not come to that."""

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

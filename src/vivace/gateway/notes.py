"""What is noted of a client's requests beside their answers: in the log, and in the metrics."""

from __future__ import annotations

import logging
from collections import Counter

from vivace.gateway.metrics import Metrics
from vivace.protocol.requests import CreateResponse
from vivace.protocol.tracing import trace_id

__all__ = ["Notes"]

log = logging.getLogger("vivace.turns")


class Notes:
    def __init__(self, metrics: Metrics, request_id: str) -> None:
        self._metrics = metrics
        self._request_id = request_id

    def name(self, request: CreateResponse | None) -> str:
        """By which the log can be searched: the request's id, and the trace that it is part of."""
        if request is None or request.traceparent is None:
            return self._request_id
        return f"{self._request_id} trace={trace_id(request.traceparent)}"

    def skipped(self, request: CreateResponse) -> None:
        """Items that mean nothing here."""
        counts = Counter(request.skipped)
        if not counts:
            return
        for kind, count in counts.items():
            self._metrics.skipped.labels(kind).inc(count)
        told = " ".join(f"{kind}={count}" for kind, count in sorted(counts.items()))
        log.info("skipped items request_id=%s %s", self.name(request), told)

    def refused(self, code: str | None, request: CreateResponse | None = None) -> None:
        self._metrics.refused.labels(code or "unknown").inc()
        log.info("refused request_id=%s code=%s", self.name(request), code or "unknown")

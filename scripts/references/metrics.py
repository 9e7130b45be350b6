"""What ``/metrics`` tells Prometheus, from the registry itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import get_args

from msgspec import Struct
from prometheus_client.metrics import MetricWrapperBase

from scripts.references.tables import code, page, table
from vivace.conversation.states import Status
from vivace.counters.local import LocalLimiter
from vivace.gateway.metrics import Metrics
from vivace.scheduling.memory import Kind as Held
from vivace.scheduling.memory import Memory
from vivace.scheduling.queue import KINDS
from vivace.supervisor import Supervisor

__all__ = ["LABELS", "Metric", "every_metric", "text"]

_INTRODUCTION = """
`GET /metrics` is read by Prometheus; like the API it asks for a key where there are keys.
`deploy/prometheus` and `deploy/grafana` have a configuration and a dashboard. Nothing is counted
per token or per key, and no label holds what a client wrote: names of models and tiers are those of
vivace.toml.

An engine that keeps figures of its own, as vLLM does, has them on the same page, below these.
"""


def _words(values: tuple[str, ...]) -> str:
    return ", ".join(map(code, values))


LABELS = {
    "code": "of the error: [errors](errors.md)",
    "engine": "`name` of the engine in vivace.toml",
    "kind": f"of a turn: {_words(KINDS)}; of tokens: `input`, `cached` (of the input, those that "
    f"were in the cache), `output`; of memory: {_words(get_args(Held))}; of an order: `cancel`, "
    "`interrupt`, `steer`",
    "known": "`yes` or `no`",
    "model": "that answered",
    "outcome": "`answered`, or `unanswered` by the gateway that has the turn",
    "reason": "`died` (the engine is gone), `silent` (it has work and does none of it) or "
    "`failed` (it answered with an error)",
    "status": f"with which it ended: {_words(get_args(Status)[2:])}",
    "task": "of the server, by what it looks after",
    "tier": "`name` of the tier, or the model of an engine without one",
    "type": "of the item, as the client calls it; `other` for the rest",
    "version": "of Vivace",
    "write": "`attempt` (another engine goes on), `park` (it waits for its client) or `end`",
}
_AS_TOLD = {"counter": ("_total", "counter"), "info": ("_info", "gauge")}
"""How the name of a kind ends, and as what it is told."""


class Metric(Struct, frozen=True):
    name: str
    type: str
    labels: tuple[str, ...]
    meaning: str


def every_metric() -> list[Metric]:
    return sorted(_metrics(), key=lambda metric: metric.name)


def _metrics() -> Iterator[Metric]:
    metrics = Metrics()
    metrics.show_tasks(Supervisor())
    metrics.show_store(lambda: True)
    metrics.show_limits(LocalLimiter())
    metrics.show_memory(Memory(1, 1))
    for collector in metrics.registry._collector_to_names:  # noqa: SLF001 - it tells nobody else
        for family in collector.collect():
            source = collector if isinstance(collector, MetricWrapperBase) else family
            labels = getattr(source, "_labelnames", ())
            if family.type == "info":  # what it tells is in its labels
                labels = tuple(family.samples[0].labels)
            ending, kind = _AS_TOLD.get(family.type, ("", family.type))
            yield Metric(family.name + ending, kind, tuple(labels), family.documentation)


def text() -> str:
    metrics = table(
        ("metric", "type", "labels", "meaning"),
        (
            (code(each.name), each.type, ", ".join(map(code, each.labels)), each.meaning)
            for each in every_metric()
        ),
    )
    labels = table(("label", "meaning"), ((code(name), words) for name, words in LABELS.items()))
    return page(
        "Metrics",
        _INTRODUCTION,
        f"## Metrics by name\n\nA histogram `x` is `x_bucket`, `x_sum` and `x_count`.\n\n{metrics}",
        f"## Labels\n\n{labels}",
    )

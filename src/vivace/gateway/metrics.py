"""What Prometheus reads. Counted per turn, never per token: a token is too small to pay for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Info,
    generate_latest,
)
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from vivace import __version__
from vivace.counters.base import Limiter
from vivace.scheduling.memory import Memory
from vivace.supervisor import Supervisor

__all__ = ["Metrics"]

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)


class Metrics:
    CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        Info("vivace_build", "Which Vivace this is.", registry=self.registry).info(
            {"version": __version__}
        )
        self.open_connections = Gauge(
            "vivace_connections", "Open connections, of every kind.", registry=self.registry
        )
        self.unfinished = Gauge(
            "vivace_unfinished_bytes",
            "Of bodies and messages that are not whole yet.",
            registry=self.registry,
        )
        self.connections = Gauge(
            "vivace_websocket_connections", "Open WebSockets.", registry=self.registry
        )
        self.running = Gauge(
            "vivace_turns_running", "Turns running now.", ["model"], registry=self.registry
        )
        self.turns = Counter(
            "vivace_turns", "Turns ended.", ["model", "status"], registry=self.registry
        )
        self.refused = Counter(
            "vivace_requests_refused",
            "Requests refused before a turn began.",
            ["code"],
            registry=self.registry,
        )
        self.resent = Counter(
            "vivace_resent_conversations",
            "Conversations sent whole, by whether the turn that they go on from was known.",
            ["known"],
            registry=self.registry,
        )
        self.skipped = Counter(
            "vivace_items_skipped",
            "Items of other servers in a conversation, which mean nothing here.",
            ["type"],
            registry=self.registry,
        )
        self.failovers = Counter(
            "vivace_failovers",
            "Turns that went on at another engine, by what became of theirs.",
            ["reason"],
            registry=self.registry,
        )
        self.takeovers = Counter(
            "vivace_takeovers",
            "Turns taken from a gateway that is gone: killed, or not heard of for seconds.",
            registry=self.registry,
        )
        self.parked = Counter(
            "vivace_turns_parked",
            "Of these, turns that had to wait for their client.",
            registry=self.registry,
        )
        self.lost = Counter(
            "vivace_turns_lost",
            "Turns that failed because words of theirs were lost with their gateway (lost_midway).",
            registry=self.registry,
        )
        self.fenced = Counter(
            "vivace_fenced_writes",
            "Writes that came too late: the turn had ended, or another gateway had taken it.",
            ["write"],
            registry=self.registry,
        )
        self.asked = Counter(
            "vivace_orders_asked",
            "Cancels, interrupts and steers that were passed on to another gateway.",
            ["kind", "outcome"],
            registry=self.registry,
        )
        self.carried_out = Counter(
            "vivace_orders_carried_out",
            "Cancels, interrupts and steers that other gateways passed on to this one.",
            ["kind"],
            registry=self.registry,
        )
        self.tokens = Counter(
            "vivace_tokens", "Tokens read and written.", ["model", "kind"], registry=self.registry
        )
        self.first_token = Histogram(
            "vivace_first_token_seconds",
            "Time to first token (TTFT): from the request to the first delta.",
            ["model"],
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.duration = Histogram(
            "vivace_turn_seconds",
            "From the request to the end of the turn.",
            ["model"],
            buckets=_SECONDS,
            registry=self.registry,
        )

        self.queue = Gauge(
            "vivace_queue_length",
            "Turns that wait for an engine.",
            ["tier", "kind"],
            registry=self.registry,
        )
        self.queue_wait = Histogram(
            "vivace_queue_wait_seconds",
            "From the request to the engine.",
            ["tier", "kind"],
            buckets=(0.0005, 0.001, 0.002, *_SECONDS),
            registry=self.registry,
        )
        self.engine_running, self.engine_slots, self.engine_up, self.engine_circuit_open = (
            Gauge(f"vivace_engine_{name}", text, ["engine"], registry=self.registry)
            for name, text in (
                ("running", "Turns on this engine."),
                ("slots", "How many it takes at once."),
                ("up", "Whether it is running."),
                ("circuit_open", "Whether it is left alone: it failed too often, or asked for it."),
            )
        )

    def show_tasks(self, supervisor: Supervisor) -> None:
        self.registry.register(_Tasks(supervisor))

    def show_store(self, works: Callable[[], bool]) -> None:
        up = Gauge("vivace_store_up", "Whether turns can be kept.", registry=self.registry)
        up.set_function(works)

    def show_limits(self, limiter: Limiter) -> None:
        self.registry.register(_Limits(limiter))

    def show_memory(self, memory: Memory) -> None:
        self.registry.register(_Memory(memory))

    def exposition(self) -> bytes:
        return generate_latest(self.registry)


class _Tasks(Collector):
    """Asks the supervisor when somebody reads, so that nothing is counted twice."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor

    def collect(self) -> Iterable[Metric]:
        up = GaugeMetricFamily("vivace_task_up", "Whether it is running.", labels=["task"])
        restarts = CounterMetricFamily(
            "vivace_task_restarts", "How often it failed and was started again.", labels=["task"]
        )
        for name, watched in self._supervisor.watched.items():
            up.add_metric([name], watched.up)
            restarts.add_metric([name], watched.restarts)
        alive = GaugeMetricFamily("vivace_asyncio_tasks", "Alive, of every kind.", _alive())
        return up, restarts, alive


def _alive() -> int:
    """A number that only ever grows is a leak."""
    try:
        return len(asyncio.all_tasks())
    except RuntimeError:  # nothing runs yet: a collector is asked once when it is made known
        return 0


class _Limits(Collector):
    """Asks the limiter when somebody reads."""

    def __init__(self, limiter: Limiter) -> None:
        self._limiter = limiter

    def collect(self) -> Iterable[Metric]:
        shared = GaugeMetricFamily(
            "vivace_limits_shared",
            "Whether limits are counted with all other gateways (fleet.valkey); otherwise this one "
            "gives out its share.",
            float(self._limiter.shared),
        )
        losses = CounterMetricFamily(
            "vivace_limits_losses",
            "How often they could not be any more; each lets pass at most one limit more.",
            self._limiter.losses,
        )
        return shared, losses


class _Memory(Collector):
    """Asks the ledger when somebody reads."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory

    def collect(self) -> Iterable[Metric]:
        held = GaugeMetricFamily(
            "vivace_memory_bytes",
            "What requests, turns that can be continued and background events take in memory.",
            labels=["kind"],
        )
        for kind, size in self._memory.kinds().items():
            held.add_metric([kind], size)
        limit = GaugeMetricFamily(
            "vivace_memory_limit_bytes", "How much they may take in all.", self._memory.limit
        )
        return held, limit

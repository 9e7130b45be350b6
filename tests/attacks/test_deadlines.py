"""Clients that take nothing, or do not say what they want, are left when the time is over.

The gateway runs in this process, and the clock of its connections goes only when a test says so.
"""

from __future__ import annotations

import asyncio
import json
import socket as tcp
import struct
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from functools import partial
from types import SimpleNamespace
from typing import Any

import httpx
import msgspec
import pytest

from tests.attacks.conftest import SCRIPT
from tests.attacks.plugs import FLOOD, create, frame, handshake, heard, plug, request
from tests.support.http import bearer, keys
from tests.support.server import RunningGateway, configuration
from tests.support.waiting import PATIENCE_S, eventually
from vivace.engines.scripted import Script
from vivace.gateway import connections

LIMITS = {"head_seconds": 1, "message_seconds": 1, "slow_reader_seconds": 1}


class Timed:
    """A gateway whose connections grow older by ``elapse``."""

    def __init__(self, running: RunningGateway) -> None:
        self.now = 1000.0
        self.running = running
        self.connections = running.gateway.connections

    @property
    def port(self) -> int:
        return self.running.port

    def elapse(self, seconds: float) -> None:
        self._on_loop(lambda: self._elapse(seconds))

    def _elapse(self, seconds: float) -> None:
        self.now += seconds
        self.connections._end_late()
        self.connections._end_unread(self.connections.limits.slow_reader_seconds)

    def metric(self, name: str) -> float:
        return float(self._on_loop(lambda: self._metric(name)))

    def _metric(self, name: str) -> float:
        self.running.gateway.dispatch.measure()
        families = self.running.gateway.metrics.registry.collect()
        samples = (sample for family in families for sample in family.samples)
        return sum(sample.value for sample in samples if sample.name == name)

    @property
    def due(self) -> int:
        """How many are waited for to say the rest."""
        return len(self.connections._due)

    @property
    def open(self) -> int:
        return len(self.connections._open)

    def ask(self, owner: str, **body: Any) -> httpx.Response:
        with self.running.http as http:
            headers = bearer(owner)
            return http.post("/v1/responses", json=body, headers=headers, timeout=PATIENCE_S)

    def _on_loop(self, work: Any) -> Any:
        async def on_loop() -> Any:
            return work()

        doing = asyncio.run_coroutine_threadsafe(on_loop(), self.running._loop)
        return doing.result(PATIENCE_S)

    def is_left_in_time(self) -> bool:
        """Whether nothing is open any more; else it grows late for those that are."""
        self.elapse(0.6)
        return self.open == 0


@pytest.fixture
def gateway(monkeypatch: pytest.MonkeyPatch) -> Iterator[Timed]:
    config = configuration(
        limits=LIMITS, keys=keys("ada", "ben"), engine={"slots": 2}, server={"port": 0}
    )
    replies = msgspec.toml.decode(FLOOD + SCRIPT, type=Script).replies
    running = RunningGateway(replies, config=config)
    # What is said to a client that is gone need not be whole, and to check it takes seconds.
    running._server.config.app = running.gateway.app
    with running:
        timed = Timed(running)
        monkeypatch.setattr(connections, "time", SimpleNamespace(monotonic=lambda: timed.now))
        yield timed
        eventually(lambda: timed.open == 0)
        assert unfinished(timed) == 0
        eventually(lambda: timed.metric("vivace_engine_running") == 0)
        assert timed.ask("ben", input="hi").json()["status"] == "completed"


# -- readers that take nothing --------------------------------------------------------------------


def test_unread_streams_of_either_kind_give_their_slots_back(gateway: Timed) -> None:
    asked = create("flood", stream=True)
    frames = frame(json.dumps({"type": "response.create", **asked}).encode())
    with (
        ThreadPoolExecutor() as pool,
        plug(gateway, request("POST /v1/responses", asked), buffer=4096),
        plug(gateway, handshake(), buffer=4096) as socket,
    ):
        socket.recv(12)
        socket.sendall(frames)
        eventually(lambda: gateway.metric("vivace_engine_running") == 2)
        waits = pool.submit(lambda: gateway.ask("ben", **create("hi")))
        eventually(lambda: gateway.metric("vivace_queue_length") == 1)
        assert not waits.done()
        eventually(gateway.is_left_in_time)
        assert waits.result(PATIENCE_S).json()["status"] == "completed"


def test_a_reader_that_does_not_take_what_is_kept_is_dropped(gateway: Timed) -> None:
    asked = create("lump", background=True, store=True)
    kept = gateway.ask("ada", **asked).json()["id"]
    eventually(lambda: gateway.metric("vivace_engine_running") == 0)
    eventually(lambda: gateway.open == 0)
    body = request(f"GET /v1/responses/{kept}")
    replay = request(f"GET /v1/responses/{kept}?stream=true")
    with plug(gateway, body, buffer=4096) as one, plug(gateway, replay, buffer=4096) as other:
        assert one.recv(12) == other.recv(12) == b"HTTP/1.1 200"
        eventually(gateway.is_left_in_time)


def test_a_steady_reader_of_a_large_body_is_not_dropped(gateway: Timed) -> None:
    """A steady reader may take longer in all than one that takes nothing."""
    with plug(gateway, request("POST /v1/responses", create("lump")), buffer=8192) as one:
        for _ in range(20):
            take(one, 200_000)
            gateway.elapse(0.9)
            assert gateway.open == 1
        eventually(gateway.is_left_in_time)


def take(one: tcp.socket, count: int) -> None:
    while count > 0:
        data = one.recv(min(count, 65_536))
        assert data
        count -= len(data)


# -- those who do not say what they want ----------------------------------------------------------


def test_half_requests_are_gone_after_their_deadline(gateway: Timed) -> None:
    whole = request("POST /v1/responses", create("hi"))
    halves = [b"", b"GET", whole[:30], handshake()[:60], whole[:-1], whole.split(b"{")[0]]
    with ExitStack() as stack:
        plugs = [stack.enter_context(plug(gateway, half)) for half in halves * 3]
        trickle = stack.enter_context(plug(gateway, b"GET /healthz HTTP/1.1\r\n"))
        fragments = stack.enter_context(plug(gateway, handshake()))
        fragments.recv(500)
        fragments.sendall(frame(b" " * 100, 1, fin=False))
        eventually(lambda: gateway.due == len(plugs) + 2)
        for number in range(1, 4):
            trickle.sendall(f"x-{number}: y\r\n".encode())
            fragments.sendall(frame(b" " * 100, 0, fin=False))
            eventually(partial(has_received, gateway, 100 * (number + 1)))
            gateway.elapse(0.3)
            assert gateway.due == len(plugs) + 2
        gateway.elapse(0.3)
        answers = [heard(one) for one in (*plugs, trickle)]
        closed = heard(fragments)
    for answer in answers:
        assert answer.startswith(b"HTTP/1.1 408 "), answer
        assert b"did not arrive in time" in answer
    assert closed[2:].startswith(struct.pack("!H", 1008) + b"A message must be whole within 1 ")


def unfinished(gateway: Timed) -> float:
    return gateway.metric("vivace_unfinished_bytes")


def has_received(gateway: Timed, count: int) -> bool:
    return unfinished(gateway) >= count


def test_a_large_body_on_a_slow_line_is_not_late_and_a_small_one_is(gateway: Timed) -> None:
    head, body = request("POST /v1/responses", create("x " * 1_000_000)).split(b"\r\n\r\n")
    step = 600_000
    with plug(gateway, head + b"\r\n\r\n") as one:
        for start in range(0, len(body), step):
            one.sendall(body[start : start + step])
            sent = min(start + step, len(body))
            if sent < len(body):
                eventually(partial(has_received, gateway, sent))
                gateway.elapse(1.1)
        assert one.recv(12) == b"HTTP/1.1 400"  # longer than the model takes
    with plug(gateway, head + b"\r\n\r\n") as one:
        one.sendall(body[:10_000])
        eventually(partial(has_received, gateway, 10_000))
        gateway.elapse(1.1)
        with suppress(ConnectionError):
            assert one.recv(12) == b"HTTP/1.1 408"

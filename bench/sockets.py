"""Idle WebSockets in one process, and what one active stream feels of them.

The gateway runs in its own process, the idle clients in another, the measuring client in a third.
The scripted engine replays a prepared answer at a set rate; no model is involved. A bare
``websockets`` server that writes the same bytes at the same rate is measured in the same way and
run: the ratios are what to quote, since machines differ.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import itertools
import multiprocessing
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.synchronize import Event

import psutil
from websockets.asyncio.client import connect

from bench._bare_websocket import bare_server
from bench._hiccups import Span, watched
from bench._report import Report, percentile
from bench._server import cpu, raise_file_limit, served_script
from bench.events import CREATE


async def _open_idle(port: int, count: int, opened: Event, leave: Event) -> None:
    """Raw handshakes: a client library would need more memory than the server we measure."""
    key = base64.b64encode(os.urandom(16)).decode()
    request = (
        f"GET /v1/responses HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\n"
        f"Connection: Upgrade\r\nSec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n"
    ).encode()
    streams = []

    async def one() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request)
        answer = await reader.readuntil(b"\r\n\r\n")
        assert b" 101 " in answer.split(b"\r\n")[0], answer
        streams.append((reader, writer))

    for start in range(0, count, 100):
        await asyncio.gather(*(one() for _ in range(min(100, count - start))))
    opened.set()
    await asyncio.to_thread(leave.wait)


def _idle_clients(port: int, count: int, opened: Event, leave: Event) -> None:
    raise_file_limit()
    asyncio.run(_open_idle(port, count, opened, leave))


@contextlib.contextmanager
def idle_clients(port: int, count: int) -> Iterator[None]:
    """So many open WebSockets that say nothing, in a process of their own."""
    opened, leave = multiprocessing.Event(), multiprocessing.Event()
    clients = multiprocessing.Process(target=_idle_clients, args=(port, count, opened, leave))
    clients.start()
    try:
        while not opened.wait(1):
            if not clients.is_alive():
                raise RuntimeError("the idle clients could not connect")
        yield
    finally:
        leave.set()
        clients.join()


async def deltas_of_a_stream(port: int) -> list[Span]:
    """Between one delta and the next of one stream, as its client sees them."""
    async with connect(
        f"ws://127.0.0.1:{port}/v1/responses", compression=None, max_size=None
    ) as socket:
        await socket.send(CREATE)
        times = []
        async for message in socket:
            if b"output_text.delta" in (message.encode() if isinstance(message, str) else message):
                times.append(time.perf_counter())
            elif "response.completed" in str(message)[:60]:
                break
        return list(itertools.pairwise(times))


def lengths(spans: list[Span]) -> list[float]:
    return [until - since for since, until in spans]


@dataclass
class Measured:
    """One server with its idle connections: bytes of each, the stream's p99 gap, CPU of a token."""

    memory: float
    late: float
    cost: float


def measure(report: Report, name: str, port: int, pid: int, count: int) -> Measured:
    server = psutil.Process(pid)
    alone = asyncio.run(deltas_of_a_stream(port))
    report.spread(f"{name}: gap between tokens, alone", lengths(alone), "ms", 1000)
    before = server.memory_info().rss
    started = time.perf_counter()
    with idle_clients(port, count):
        took = time.perf_counter() - started
        report.say(f"{name}: connections opened per second", count / took)
        memory = (server.memory_info().rss - before) / count
        report.say(f"{name}: memory per connection", memory / 1024, "KiB")
        used, begun = cpu(pid), time.perf_counter()
        with watched() as hiccups:
            spans = asyncio.run(deltas_of_a_stream(port))
        used, lasted = cpu(pid) - used, time.perf_counter() - begun
        report.say(f"{name}: CPU during the stream", used / lasted * 100, "% of a core")
        gaps = lengths(spans)
        report.spread(f"{name}: gap between tokens, among them", gaps, "ms", 1000)
        report.say(f"{name}: longest gap", max(gaps) * 1000, "ms")
        report.say(f"{name}: tokens per second", len(gaps) / sum(gaps))
        fair = report.fair(gaps, spans, hiccups)
    return Measured(memory, percentile(fair, 0.99), used / len(gaps))


def main() -> None:
    report, options = Report.from_arguments(
        "sockets",
        "idle WebSockets in one process, and one active stream among them (a replayed answer)",
        "uvicorn",
        "websockets",
        "uvloop",
        connections=(10_000, "idle WebSockets"),
        rate=(1000, "tokens per second of the active stream"),
        seconds=(10, "length of the active stream"),
    )
    raise_file_limit()
    count, rate = options.connections, options.rate
    report.say("idle connections", count)
    with served_script(" word", times=rate * options.seconds, rate=rate) as (port, process):
        ours = measure(report, "gateway", port, process.pid, count)
        with bare_server(port, CREATE, rate) as (bare_port, bare_process):
            bare = measure(report, "bare", bare_port, bare_process.pid, count)
    report.say("memory per connection, of the bare server's", ours.memory / bare.memory)
    report.say("p99 gap among them, of the bare server's", ours.late / bare.late)
    report.say("CPU per token, times the bare server's", ours.cost / bare.cost)
    report.goal(
        f"p99 gap under 10 ms at {rate} tokens/s among {count} connections",
        met=ours.late < 0.010,
        measured=f"{ours.late * 1000:.2f} ms",
    )
    report.end()


if __name__ == "__main__":
    main()

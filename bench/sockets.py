"""Idle WebSockets in one process, and what one active stream feels of them.

The gateway runs in its own process, the idle clients in another, the measuring client in a third.
The scripted engine replays a prepared answer at a set rate; no model is involved.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import itertools
import json
import multiprocessing
import os
import resource
import time
from collections.abc import Iterator
from multiprocessing.synchronize import Event

import psutil
from websockets.asyncio.client import connect

from bench._report import Report, percentile
from bench._server import served_script


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


def raise_file_limit() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


async def gaps_of_a_stream(port: int) -> list[float]:
    """Seconds between the deltas of one stream, as its client sees them."""
    async with connect(
        f"ws://127.0.0.1:{port}/v1/responses", compression=None, max_size=None
    ) as socket:
        await socket.send(json.dumps({"type": "response.create", "input": "go", "store": False}))
        times = []
        async for message in socket:
            if b"output_text.delta" in (message.encode() if isinstance(message, str) else message):
                times.append(time.perf_counter())
            elif "response.completed" in str(message)[:60]:
                break
        return [later - earlier for earlier, later in itertools.pairwise(times)]


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
    tokens = options.rate * options.seconds
    with served_script(" word", times=tokens, rate=options.rate) as (port, process):
        gateway = psutil.Process(process.pid)
        before = gateway.memory_info().rss
        alone = asyncio.run(gaps_of_a_stream(port))
        report.spread("gap between tokens, no other connection", alone, "ms", 1000)

        started = time.perf_counter()
        with idle_clients(port, options.connections):
            took = time.perf_counter() - started
            report.say("idle connections", options.connections)
            report.say("connections opened per second", options.connections / took)
            per_connection = (gateway.memory_info().rss - before) / options.connections
            report.say("memory per connection", per_connection / 1024, "KiB")

            gateway.cpu_percent()
            psutil.cpu_percent(percpu=True)
            gaps = asyncio.run(gaps_of_a_stream(port))
            report.say("CPU of the gateway during the stream", gateway.cpu_percent(), "% of a core")
            cores = psutil.cpu_percent(percpu=True)
            report.say(
                "CPU of each core during the stream", ", ".join(f"{core:.0f}%" for core in cores)
            )
            report.spread("gap between tokens, among idle connections", gaps, "ms", 1000)
            report.say("longest gap", max(gaps) * 1000, "ms")
            report.say("tokens per second", len(gaps) / sum(gaps))

    p99 = percentile(gaps, 0.99) * 1000
    report.goal(
        f"p99 gap under 10 ms at {options.rate} tokens/s among {options.connections} connections",
        met=p99 < 10,
        measured=f"{p99:.2f} ms",
    )
    report.end()


if __name__ == "__main__":
    main()

"""How many events one gateway process sends in a second, one token to an event and ten.

Ten is what an event carries when 10 ms of a stream of 1,000 tokens/s go together: what a client
gets that is that far behind, or whose engine drafts.

The scripted engine plays as fast as it can (a replayed answer, no model); it lives in the gateway's
process, so its own work counts against the gateway. The gateway is held to one core, the counting
client has the other.
"""

from __future__ import annotations

import json
import os
import selectors
import time
from typing import Any

import psutil

from bench._raw_socket import open_socket, send_text
from bench._report import Report
from bench._server import served_script

_DELTA = b'"response.output_text.delta"'
_END = b'{"type":"response.completed"'


def run(port: int, streams: int) -> tuple[int, float]:
    """Deltas and seconds until every stream has ended."""
    selector = selectors.DefaultSelector()
    create = json.dumps({"type": "response.create", "input": "go", "store": False})
    sockets = [open_socket(port) for _ in range(streams)]
    rest = dict.fromkeys(sockets, b"")
    for each in sockets:
        selector.register(each, selectors.EVENT_READ, each)
    started = time.perf_counter()
    for each in sockets:
        send_text(each, create)
    deltas = ended = 0
    while ended < streams:
        for key, _ in selector.select():
            each = key.data
            data = rest[each] + each.recv(1 << 20)
            deltas += data.count(_DELTA)
            if _END in data:
                ended += 1
                selector.unregister(each)
            # A mark cut in two must still be seen, and one seen must not be counted again.
            rest[each] = data[-(len(_DELTA) - 1) :]
    seconds = time.perf_counter() - started
    for each in sockets:
        each.close()
    return deltas, seconds


def main() -> None:
    report, options = Report.from_arguments(
        "events",
        "events per second of one gateway process on one core (a replayed answer)",
        "uvicorn",
        "websockets",
        "uvloop",
        "msgspec",
        tokens=(20_000, "tokens of each stream"),
        streams=(8, "streams at once"),
        rounds=(5, "how often"),
    )
    best = measure(report, options, 1)
    measure(report, options, 10)
    report.goal("40,000 events per second", met=best >= 40_000, measured=f"{best:,.0f}")
    report.end()


def measure(report: Report, options: Any, size: int) -> float:
    """Events of so many tokens each; returns the best rate."""
    with served_script(" word", times=options.tokens, rate=1e9, burst=size) as (port, process):
        gateway = psutil.Process(process.pid)
        if hasattr(os, "sched_setaffinity"):
            gateway.cpu_affinity([0])
            os.sched_setaffinity(0, {(os.cpu_count() or 1) - 1})
        run(port, options.streams)
        rates, costs = [], []
        for _ in range(options.rounds):
            before = gateway.cpu_times()
            deltas, seconds = run(port, options.streams)
            after = gateway.cpu_times()
            used = after.user + after.system - before.user - before.system
            rates.append(deltas / seconds)
            costs.append(used / deltas / size)
    report.say("tokens of an event", options.tokens * options.streams / deltas)
    report.spread(f"events per second, {size} tokens each", rates, "/s")
    if size > 1:
        report.spread("tokens per second in these", [rate * size for rate in rates], "/s")
    report.spread("CPU per token, engine included", costs, "µs", 1e6)
    return max(rates)


if __name__ == "__main__":
    main()

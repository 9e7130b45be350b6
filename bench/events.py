"""How many events one gateway process sends in a second, one token to an event and ten.

Ten is what an event carries when 10 ms of a stream of 1,000 tokens/s go together: what a client
gets that is that far behind, or whose engine drafts.

The scripted engine plays as fast as it can (a replayed answer, no model); it lives in the gateway's
process, so its own work counts against the gateway. The gateway is held to one core, the counting
client has the other. Machines differ, so a bare ``websockets`` server that writes the same bytes is
measured in turn with it, and the ratio is what to quote.
"""

from __future__ import annotations

import json
import os
import selectors
import time
from typing import Any

import psutil

from bench._bare_websocket import bare_server
from bench._cores import FIRST_CORE, OTHER_CORES
from bench._raw_socket import open_socket, send_text
from bench._report import Report
from bench._server import cpu, served_script

_DELTA = b'"response.output_text.delta"'
_END = b'{"type":"response.completed"'


CREATE = json.dumps({"type": "response.create", "input": "go", "store": False})


def run(port: int, streams: int, create: str = CREATE) -> tuple[int, float]:
    """Deltas and seconds until every stream has ended."""
    selector = selectors.DefaultSelector()
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
            came = each.recv(1 << 20)
            if not came:
                raise RuntimeError("the server closed a stream before its end")
            data = rest[each] + came
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
    with (
        served_script(" word", times=options.tokens, rate=1e9, burst=size) as gateway,
        bare_server(gateway[0], CREATE) as bare,
    ):
        both = {"gateway": gateway, "bare": bare}
        for _, process in both.values():
            psutil.Process(process.pid).cpu_affinity(list(FIRST_CORE))
        os.sched_setaffinity(0, OTHER_CORES)
        for port, _ in both.values():
            run(port, options.streams)
        rates: dict[str, list[float]] = {name: [] for name in both}
        costs: dict[str, list[float]] = {name: [] for name in both}
        for _ in range(options.rounds):
            for name, (port, process) in both.items():
                before = cpu(process.pid)
                deltas, seconds = run(port, options.streams)
                rates[name].append(deltas / seconds)
                costs[name].append((cpu(process.pid) - before) / deltas / size)
    report.say("tokens of an event", options.tokens * options.streams / deltas)
    report.spread(f"events per second, {size} tokens each", rates["gateway"], "/s")
    if size > 1:
        tokens = [rate * size for rate in rates["gateway"]]
        report.spread("tokens per second in these", tokens, "/s")
    report.spread("CPU per token, engine included", costs["gateway"], "µs", 1e6)
    report.spread("a bare websockets server, same bytes", rates["bare"], "/s")
    report.ratio("events per second, of the bare server's", rates["gateway"], rates["bare"])
    report.ratio("CPU per token, times the bare server's", costs["gateway"], costs["bare"])
    return max(rates["gateway"])


if __name__ == "__main__":
    main()

"""This tree beside an earlier commit, taking turns in one run: what the change between them costs.

Both serve at the same time and are asked one after the other, in an order that changes from pair
to pair, so that each figure of one has a neighbour of the other under the same load. Each part
measures as the benchmark of its name does; events and sockets replay a prepared answer, pipeline is
way (e) on a real vLLM.

Seconds are what counts, and on a busy machine they vary more than the trees do. ``instructions`` is
for there: the instructions of an event in the gateway's process, counted by valgrind, are the same
whatever else runs. They leave out what the kernel does, which is the same for both.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import psutil
from tests.support.ports import free_port

from bench import _files, events, sockets
from bench._cores import FIRST_CORE, OTHER_CORES
from bench._peers import MODEL, ROOT, serve_vivace
from bench._report import Report, percentile, ratio_of_neighbours
from bench._rig import EngineClock, Figures, share_out
from bench._server import cpu, raise_file_limit, served_script
from bench._ways import OverWebSocket, tool_output

Pairs = dict[str, list[float]]
"""Figures of the old tree and of the new, one of each a pair."""

PARTS = ("events", "instructions", "sockets", "pipeline")


@contextlib.contextmanager
def earlier(commit: str) -> Iterator[Path]:
    """The ``src`` of an earlier commit, in a folder of its own."""
    command = ["git", "-C", str(ROOT), "archive", commit, "src"]
    archive = subprocess.run(command, capture_output=True, check=True).stdout
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(fileobj=BytesIO(archive)) as files:
            files.extractall(folder, filter="data")
        yield Path(folder) / "src"


def in_turns(pairs: int) -> Iterator[str]:
    for pair in range(pairs):
        yield from ("old", "new") if pair % 2 else ("new", "old")


def compare(report: Report, what: str, figures: Pairs, unit: str, scale: float) -> None:
    for name in ("old", "new"):
        report.spread(f"{what}, {name}", figures[name], unit, scale)


def measure_events(report: Report, options: Any, trees: dict[str, Path]) -> None:
    costs: Pairs = {name: [] for name in trees}
    with contextlib.ExitStack() as stack:
        servers = {
            name: stack.enter_context(
                served_script(" word", times=options.tokens, rate=1e9, source=source)
            )
            for name, source in trees.items()
        }
        for _, process in servers.values():
            psutil.Process(process.pid).cpu_affinity(list(FIRST_CORE))
        for port, _ in servers.values():
            events.run(port, 8)
        for name in in_turns(options.pairs):
            port, process = servers[name]
            before = cpu(process.pid)
            deltas, _ = events.run(port, 8)
            costs[name].append((cpu(process.pid) - before) / deltas)
    compare(report, "CPU per event", costs, "µs", 1e6)
    ratio, low, high = ratio_of_neighbours(costs["new"], costs["old"])
    report.goal(
        "CPU per event: the whole interval at most 1.05 of the old",
        met=high <= 1.05,
        measured=f"{ratio:.3f} (95% interval {low:.3f} to {high:.3f}, {options.pairs} pairs)",
    )


def measure_instructions(report: Report, options: Any, trees: dict[str, Path]) -> None:
    """Two runs of a tree that differ in the length of their answers, so that their starts do not
    count."""
    if shutil.which("valgrind") is None:
        report.say("instructions", "not counted: valgrind is not installed")
        return
    short, long, streams = 100, 1_100, 4
    counts = {
        name: [_instructions(source, times, streams) for times in (short, long)]
        for name, source in trees.items()
    }
    each = {
        name: (after - before) / (streams * (long - short))
        for name, (before, after) in counts.items()
    }
    for name, figure in each.items():
        report.say(f"instructions per event, {name}", figure)
    ratio = each["new"] / each["old"]
    report.goal(
        "instructions per event: at most 1.05 of the old",
        met=ratio <= 1.05,
        measured=f"{ratio:.3f}",
    )


def _instructions(source: Path, times: int, streams: int) -> int:
    """All that a gateway executes from its start to its end, with so many answers between."""
    command = ("valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null")
    script = served_script(" word", times=times, rate=1e9, source=source, under=command)
    with script as (port, process):
        events.run(port, streams)
        process.terminate()
        assert process.stderr is not None
        told = process.stderr.read().decode(errors="replace")
    found = re.search(r"Collected : (\d+)", told)
    if found is None:
        raise RuntimeError(f"valgrind counted nothing: {told[-500:]}")
    return int(found[1])


def measure_sockets(report: Report, options: Any, trees: dict[str, Path]) -> None:
    raise_file_limit()
    late: Pairs = {name: [] for name in trees}
    costs: Pairs = {name: [] for name in trees}
    memory: dict[str, float] = {}
    with contextlib.ExitStack() as stack:
        servers = {}
        for name, source in trees.items():
            server = served_script(" word", times=5000, rate=1000, source=source)
            port, process = servers[name] = stack.enter_context(server)
            asyncio.run(sockets.deltas_of_a_stream(port))
            before = psutil.Process(process.pid).memory_info().rss
            stack.enter_context(sockets.idle_clients(port, options.connections))
            held = psutil.Process(process.pid).memory_info().rss - before
            memory[name] = held / options.connections / 1024
            report.say(f"memory per idle connection, {name}", memory[name], "KiB")
        for name in in_turns(options.pairs):
            port, process = servers[name]
            before_cpu = cpu(process.pid)
            gaps = sockets.lengths(asyncio.run(sockets.deltas_of_a_stream(port)))
            costs[name].append((cpu(process.pid) - before_cpu) / len(gaps))
            late[name].append(percentile(gaps, 0.99))
    compare(report, "p99 gap of a stream among them", late, "ms", 1000)
    compare(report, "CPU of the gateway per token", costs, "µs", 1e6)
    report.ratio_goal("p99 gap among idle connections, against the old", *_new_old(late), 1.03)
    report.ratio_goal("CPU among idle connections, against the old", *_new_old(costs), 1.03)
    report.goal(
        "memory per idle connection: at most 1.03 of the old",
        met=memory["new"] <= 1.03 * memory["old"],
        measured=f"{memory['new'] / memory['old']:.3f}",
    )


def _new_old(figures: Pairs) -> tuple[list[float], list[float]]:
    return figures["new"], figures["old"]


def measure_pipeline(report: Report, options: Any, trees: dict[str, Path]) -> None:
    python, model = str(_files.vllm_python()), _files.vllm_model()
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        ports = {}
        for name, source in trees.items():
            ports[name] = free_port()
            server = serve_vivace(python, model, ports[name], Path(folder), source)
            share_out(stack.enter_context(server).pid)
        os.sched_setaffinity(0, OTHER_CORES)
        figures = asyncio.run(_loops(ports, options))
    compare(report, "turn", {name: each.roundtrip for name, each in figures.items()}, "ms", 1000)
    compare(report, "first token", {name: each.first for name, each in figures.items()}, "ms", 1000)
    new, old = figures["new"], figures["old"]
    report.ratio_goal("overhead of a turn, against the old", new.roundtrip, old.roundtrip, 1.03)
    report.ratio_goal("overhead of a first token, against the old", new.first, old.first, 1.03)


async def _loops(ports: dict[str, int], options: Any) -> dict[str, Figures]:
    """Conversations of ten turns, each turn on both; what a client waits beyond vLLM's core."""
    figures = {name: Figures() for name in ports}
    clocks = {name: EngineClock(port) for name, port in ports.items()}
    for conversation in range(max(1, options.pairs // 2)):
        ways = {name: OverWebSocket(name, port, MODEL, 8) for name, port in ports.items()}
        for turn in range(10):
            order = sorted(ports, reverse=bool(turn % 2))
            for name in order:
                text = f"This is conversation {name} {conversation}.\n" + tool_output(turn)
                timing = await ways[name].turn(text)
                lap = await clocks[name].lap()
                if turn:  # the first connects
                    figures[name].add(timing, lap)
        for way in ways.values():
            await way.close()
    return figures


_MEASURE: dict[str, Callable[[Report, Any, dict[str, Path]], None]] = {
    "events": measure_events,
    "instructions": measure_instructions,
    "sockets": measure_sockets,
    "pipeline": measure_pipeline,
}


def main() -> None:
    report, options = Report.from_arguments(
        "against",
        "this tree beside an earlier commit, in turns",
        "uvicorn",
        "websockets",
        "uvloop",
        "msgspec",
        commit=("HEAD", "the earlier commit"),
        parts=("events,sockets", f"which of {', '.join(PARTS)}"),
        pairs=(12, "how often each is asked"),
        tokens=(20_000, "events: tokens of each of eight streams"),
        connections=(5_000, "sockets: idle WebSockets of each"),
    )
    report.say("earlier commit", options.commit)
    with earlier(options.commit) as source:
        trees = {"old": source, "new": ROOT / "src"}
        for part in options.parts.split(","):
            started = time.monotonic()
            _MEASURE[part](report, options, trees)
            report.say(f"{part} took", time.monotonic() - started, "s")
    report.end()


if __name__ == "__main__":
    main()

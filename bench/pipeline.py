"""The whole pipeline beside its peers, on the same real engine settings, turn by turn in one run.

(a) bare AsyncLLM; (b1) vllm serve, HTTP and SSE, the whole history every turn; (b2) the same with
previous_response_id; (c) LiteLLM before it; (d) Vivace over HTTP and SSE; (e) Vivace over WebSocket
with incremental input. Every server has a vLLM of its own with equal settings; the ways take turns,
so that each turn of one has a neighbour of the other under the same load.

The engine computes on one core and everything else, the client too, has the other: as on a machine
whose GPU leaves the processor to the servers.

Overhead is what the client waits beyond the engine. Two clocks take the engine's own time away, so
that its noise, which is much larger here, is not in it: vLLM's figures for that request
(request_queue_time + request_inference_time; prefill for the first token), and then what the bare
AsyncLLM of (a) still needed in the same turn: handing the request to its core process and the
tokens back, which every way but a rewrite of vLLM pays.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import statistics
import subprocess
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

import psutil

from bench import _files
from bench._cores import FIRST_CORE, OTHER_CORES
from bench._peers import MODEL, serve_bare, serve_litellm, serve_vivace, serve_vllm
from bench._plot import bars
from bench._report import Report, ratio_of
from bench._server import cpu, free_port, threads
from bench._ways import (
    ChatHistory,
    FullHistory,
    OverWebSocket,
    OverWebSocketWithTools,
    PreviousResponse,
    Timing,
    Way,
    tool_output,
)

PEERS = ("b1", "b2", "c", "d", "e")
PARSED = "e, parsers on"
COUNT = "Stream {}. Count upwards from one, one number a line, without end."

# -- the engine's own figures ---------------------------------------------------------------------

_FIGURE = re.compile(
    r"vllm:request_(queue|prefill|decode|inference)_time_seconds_(sum|count)\{.*\} (.*)"
)


class EngineClock:
    """How long the engine itself took since the last lap, by its own metrics."""

    def __init__(self, port: int) -> None:
        self._address = f"http://127.0.0.1:{port}/metrics"
        self._before = self._read()

    def _read(self) -> dict[str, float]:
        with urllib.request.urlopen(self._address) as answer:
            found = _FIGURE.findall(answer.read().decode())
        return {f"{what}_{kind}": float(value) for what, kind, value in found}

    async def lap(self) -> dict[str, float]:
        """Seconds by phase since the last lap; waits for the engine to have written them down."""
        while True:
            now = self._read()
            if now.get("inference_count", 0) > self._before.get("inference_count", 0):
                break
            await asyncio.sleep(0.002)
        lap = {name: now[name] - self._before.get(name, 0.0) for name in now}
        self._before = now
        return lap


def share_out(pid: int) -> None:
    """The engine's core process to its core, everything else to the others."""
    for process in [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]:
        cores = FIRST_CORE if "EngineCor" in process.name() else OTHER_CORES
        for task in threads(process.pid):
            with contextlib.suppress(OSError):
                os.sched_setaffinity(int(task.name), cores)


# -- (a) ------------------------------------------------------------------------------------------


class Bare:
    """(a), told what to do over a pipe; it measures inside."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def turns(self, turns: list[tuple[str, str]], max_tokens: int) -> dict[str, Any]:
        given = [{"conversation": name, "text": text} for name, text in turns]
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"turns": given, "max_tokens": max_tokens}) + "\n")
        self._process.stdin.flush()
        while not (line := self._process.stdout.readline()).startswith("{"):
            if not line:
                raise RuntimeError("the bare AsyncLLM has ended")
        answer: dict[str, Any] = json.loads(line)  # other lines are vLLM's log
        return answer

    def turn(self, name: str, text: str, max_tokens: int) -> tuple[Timing, dict[str, float]]:
        done = self.turns([(name, text)], max_tokens)
        return Timing(done["first"], done["wall"], done["tokens"], ""), done["engine"]


# -- figures --------------------------------------------------------------------------------------


class Figures:
    """Seconds outside the engine's core, turn by turn."""

    def __init__(self) -> None:
        self.roundtrip: list[float] = []
        self.first: list[float] = []

    def add(self, timing: Timing, lap: dict[str, float]) -> None:
        self.roundtrip.append(timing.wall - lap["queue_sum"] - lap["inference_sum"])
        self.first.append(timing.first - lap["queue_sum"] - lap["prefill_sum"])

    def beyond(self, bare: Figures) -> Figures:
        """What is left when AsyncLLM's own part, of the same turn, is taken away."""
        left = Figures()
        left.roundtrip = _less(self.roundtrip, bare.roundtrip)
        left.first = _less(self.first, bare.first)
        return left


def _less(ours: list[float], bare: list[float]) -> list[float]:
    return [mine - its for mine, its in zip(ours, bare, strict=True)]


class Rig:
    """All servers, and a client of each kind when it is asked for."""

    def __init__(self, ports: dict[str, int], processes: dict[str, Any]) -> None:
        vllm, ours = ports["vllm"], ports["vivace"]
        self.kinds: dict[str, tuple[type[Way], int, int]] = {
            "b1": (FullHistory, vllm, vllm),
            "b2": (PreviousResponse, vllm, vllm),
            "d": (PreviousResponse, ours, ours),
            "e": (OverWebSocket, ours, ours),
        }
        self.parsed = (OverWebSocketWithTools, ours, ours)
        if "litellm" in ports:
            self.kinds["c"] = (ChatHistory, ports["litellm"], vllm)
        self.bare = Bare(processes["bare"])
        owners = {"a": "bare", "b": "vllm", "d": "vivace", "e": "vivace"}
        self.pids = {name: processes[owner].pid for name, owner in owners.items()}
        self._clocks = {port: EngineClock(port) for port in (vllm, ours)}

    def client(self, name: str, conversation: str, tokens: int) -> Way:
        kind, port, _ = self.parsed if name == PARSED else self.kinds[name]
        return kind(conversation, port, MODEL, tokens)

    async def lap(self, name: str) -> dict[str, float]:
        return await self._clocks[self.kinds[name][2]].lap()


# -- the work -------------------------------------------------------------------------------------


async def agent_loop(rig: Rig, turns: int, tokens: int) -> dict[str, Figures]:
    """All ways take each turn one after the other, in an order that changes."""
    names = ["a", *rig.kinds]
    figures = {name: Figures() for name in names}
    ways = {name: rig.client(name, name, tokens) for name in rig.kinds}
    for turn in range(turns):
        names = [*names[1:], names[0]]
        for name in names:
            # Each conversation begins with its own name, so that none finds another's cache.
            text = f"This is conversation {name}.\n" + tool_output(turn)
            if name == "a":
                timing, lap = rig.bare.turn(name, text, tokens)
            else:
                timing = await ways[name].turn(text)
                lap = await rig.lap(name)
            if turn:  # the first connects
                figures[name].add(timing, lap)
        print(f"  turn {turn + 1} of {turns}", end="\r", flush=True)
    for way in ways.values():
        await way.close()
    return figures


async def short_requests(rig: Rig, rounds: int) -> tuple[dict[str, Figures], dict[str, Figures]]:
    """Connect and ask something short, then ask again on the kept connection."""
    names = ["a", *rig.kinds]
    cold = {name: Figures() for name in names}
    warm = {name: Figures() for name in names}
    for number in range(rounds):
        names = [*names[1:], names[0]]
        for name in names:
            texts = (f"Say yes to {name} {number}.", f"Say no to {name} {number}.")
            if name == "a":
                for figures, text in zip((cold, warm), texts, strict=True):
                    figures[name].add(*rig.bare.turn(f"{text}", text, 4))
                continue
            way = rig.client(name, name, 4)
            for figures, text in zip((cold, warm), texts, strict=True):
                timing = await way.turn(text)
                figures[name].add(timing, await rig.lap(name))
                way.forget()
            await way.close()
    return cold, warm


async def streams(rig: Rig, name: str, count: int, tokens: int) -> tuple[float, int]:
    """Tokens per second of so many conversations at once, and how many tokens."""
    if name == "a":
        done = rig.bare.turns(
            [(f"{time.monotonic()}", COUNT.format(number)) for number in range(count)], tokens
        )
        return done["tokens"] / done["wall"], done["tokens"]
    clients = [rig.client(name, f"s{number}", tokens) for number in range(count)]
    started = time.perf_counter()
    timings = await asyncio.gather(
        *(client.turn(COUNT.format(number)) for number, client in enumerate(clients))
    )
    seconds = time.perf_counter() - started
    for client in clients:
        await client.close()
    written = sum(timing.tokens for timing in timings)
    return written / seconds, written


async def throughput(report: Report, rig: Rig, options: Any) -> dict[str, list[float]]:
    """Tokens per second beside (a), and what a token costs the serving process."""
    names = ["a", "b1", "d", "e", PARSED]
    costs: dict[str, list[float]] = {name: [] for name in names}
    for count in (1, 8):
        rates: dict[str, list[float]] = {name: [] for name in names}
        for each in range(options.rounds + 1):
            names = [*names[1:], names[0]]
            for name in names:
                pid = rig.pids[name[0]]
                before = cpu(pid)
                rate, written = await streams(rig, name, count, options.stream_tokens)
                if not each:
                    continue  # its prompts were not cached
                rates[name].append(rate)
                if count == 8:
                    costs[name].append((cpu(pid) - before) / written)
            print(f"  {count} streams, round {each} of {options.rounds}", end="\r", flush=True)
        for name, values in sorted(rates.items()):
            report.spread(f"({name}) tokens/s, {count} streams", values, "/s")
        ratio, low, high = ratio_of(rates["e"], rates["a"])
        report.goal(
            f"(e) against (a), tokens/s at {count} streams: at least 0.98",
            met=high >= 0.98,
            measured=f"{ratio:.3f} (95% interval {low:.3f} to {high:.3f}, {len(rates['e'])} pairs)",
        )
    for name, values in sorted(costs.items()):
        report.spread(f"({name}) CPU of the server per token", values, "µs", 1e6)
    beyond = {name: _less(values, costs["a"]) for name, values in costs.items() if name != "a"}
    for name, values in sorted(beyond.items()):
        report.spread(f"({name}) CPU per token, beyond (a)", values, "µs", 1e6)
    return beyond


def say_all(report: Report, what: str, figures: dict[str, Figures]) -> dict[str, Figures]:
    """Print both clocks; returns what is beyond (a)."""
    for name, each in sorted(figures.items()):
        report.spread(f"({name}) {what}, outside vLLM's core", each.roundtrip, "ms", 1000)
    left = {name: figures[name].beyond(figures["a"]) for name in PEERS if name in figures}
    for name, each in left.items():
        report.spread(f"({name}) {what}, beyond (a)", each.roundtrip, "ms", 1000)
    for name, each in left.items():
        report.spread(f"({name}) {what}, first token, beyond (a)", each.first, "ms", 1000)
    return left


async def measure(
    report: Report, options: Any, ports: dict[str, int], processes: dict[str, Any]
) -> None:
    for process in processes.values():
        share_out(process.pid)
    os.sched_setaffinity(0, OTHER_CORES)
    rig = Rig(ports, processes)
    for name in rig.kinds:
        first = rig.client(name, "warm-up", 4)
        await first.turn("Say yes.")
        await rig.lap(name)
        await first.close()
    rig.bare.turn("warm-up", "Say yes.", 4)

    loop = say_all(report, "turn", await agent_loop(rig, options.turns, options.tokens))
    cold, warm = await short_requests(rig, options.rounds)
    cold = say_all(report, "connect and ask", cold)
    say_all(report, "short request", warm)
    costs = await throughput(report, rig, options)

    e, b1, b2 = loop["e"], loop["b1"], loop["b2"]
    report.ratio_goal("roundtrip overhead, (e) against (b1)", e.roundtrip, b1.roundtrip, 0.10)
    report.ratio_goal("roundtrip overhead, (e) against (b2)", e.roundtrip, b2.roundtrip, 0.20)
    report.ratio_goal("CPU per token beyond (a), (e) against (b1)", costs["e"], costs["b1"], 0.40)
    best = min(("b1", "b2"), key=lambda name: statistics.median(loop[name].first))
    what = f"first token, pipeline part, (e) against ({best})"
    report.ratio_goal(what, e.first, loop[best].first, 0.25)
    what = "connect and first turn, (e) against (b1)"
    report.ratio_goal(what, cold["e"].roundtrip, cold["b1"].roundtrip, 1.0)
    if options.plot:
        bars(
            options.plot,
            f"{options.turns}-turn agent loop, milliseconds beyond bare AsyncLLM (median, p90)",
            {LABELS[name]: each.roundtrip for name, each in loop.items()},
            {LABELS[name]: each.first for name, each in loop.items()},
        )


LABELS = {
    "b1": "vllm serve, full history",
    "b2": "vllm serve, previous id",
    "c": "LiteLLM before it",
    "d": "Vivace, HTTP",
    "e": "Vivace, WebSocket",
}


def main() -> None:
    report, options = Report.from_arguments(
        "pipeline",
        "Vivace beside its peers on vLLM with Qwen2.5-Coder-0.5B on CPU",
        turns=(20, "turns of the agent loop"),
        tokens=(12, "tokens of each answer"),
        rounds=(10, "pairs of the other measurements"),
        stream_tokens=(24, "tokens of each stream"),
        litellm=("", "the litellm program; without it (c) is left out"),
        python=(str(_files.vllm_python()), "a Python that has vLLM"),
        plot=("", "write a picture of the loop to this file"),
    )
    asked = [options.python, "-c", "import vllm; print(vllm.__version__)"]
    version = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.split()[-1]
    report.say("vllm", version)
    model = _files.vllm_model()
    ports = {"vllm": free_port(), "vivace": free_port()}
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        processes = {
            "bare": stack.enter_context(serve_bare(options.python, model)),
            "vllm": stack.enter_context(serve_vllm(options.python, model, ports["vllm"])),
            "vivace": stack.enter_context(
                serve_vivace(options.python, model, ports["vivace"], Path(folder))
            ),
        }
        if options.litellm:
            ports["litellm"] = free_port()
            proxy = serve_litellm(options.litellm, ports["litellm"], ports["vllm"], Path(folder))
            processes["litellm"] = stack.enter_context(proxy)
        print("  all servers are ready", flush=True)
        asyncio.run(measure(report, options, ports, processes))
    report.end()


if __name__ == "__main__":
    main()

"""The whole pipeline beside its peers, on the same real engine settings, turn by turn in one run.

(a) bare AsyncLLM; (b1) vllm serve, HTTP and SSE, the whole history every turn; (b2) the same with
previous_response_id; (c) LiteLLM before it; (d) Vivace over HTTP and SSE; (e) Vivace over WebSocket
with incremental input. Every server has a vLLM of its own with equal settings; the ways take turns,
so that each turn of one has a neighbour of the other under the same load.

Overhead is what the client waits beyond the engine: its time less the engine's own figure for that
request (vLLM's request_queue_time + request_inference_time, and prefill for the first token). So
the engine's noise, which is much larger here, is not in it.
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
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil

from bench import _files
from bench._bare_vllm import SETTINGS
from bench._report import Report, ratio_of
from bench._server import free_port, wait_until_ready
from bench._ways import (
    ChatHistory,
    FullHistory,
    OverWebSocket,
    PreviousResponse,
    Timing,
    Way,
    tool_output,
)

ROOT = Path(__file__).parents[1]
MODEL = "qwen2.5-coder-0.5b"
ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_LOGGING_LEVEL": "WARNING",
    "VLLM_ENABLE_RESPONSES_API_STORE": "1",
    # It listens on loopback for the length of this run, and keys would be one more cost to it.
    "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true",
    "PYTHONPATH": f"{ROOT}/src:{ROOT}",
}

CONFIG = """
version = 1
[server]
port = {port}
[store]
path = ":memory:"
[[engines]]
name = "vllm"
kind = "vllm"
model = "{model}"
path = "{path}"
context = {context}
[engines.arguments]
{arguments}
"""

# -- processes ------------------------------------------------------------------------------------


@contextlib.contextmanager
def running(command: list[str], port: int | None, ready: str) -> Iterator[subprocess.Popen[str]]:
    quiet = None if os.environ.get("VIVACE_BENCH_LOGS") else subprocess.DEVNULL
    process = subprocess.Popen(
        command,
        env={**os.environ, **ENVIRONMENT},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE if port is None else quiet,
        stderr=quiet,
        text=True,
    )
    try:
        if port is not None:
            wait_until_ready(port, process, ready, 300)
        else:
            assert process.stdout is not None
            while process.stdout.readline().strip() != ready:
                if process.poll() is not None:
                    raise RuntimeError(f"{command[1]} did not start")
        yield process
    finally:
        with contextlib.suppress(psutil.NoSuchProcess):
            for child in psutil.Process(process.pid).children(recursive=True):
                child.terminate()
        process.terminate()
        process.wait(30)


def serve_bare(python: str, model: Path) -> contextlib.AbstractContextManager[Any]:
    return running([python, "-m", "bench._bare_vllm", str(model)], None, "ready")


def serve_vllm(python: str, model: Path, port: int) -> contextlib.AbstractContextManager[Any]:
    flags = []
    for name, value in SETTINGS.items():
        flag = f"--{name.replace('_', '-')}"
        if isinstance(value, bool):
            flags += [flag] if value else []
        else:
            flags += [flag, str(value)]
    command = [python, "-m", "vllm.entrypoints.openai.api_server", "--model", str(model)]
    command += ["--served-model-name", MODEL, "--port", str(port), "--host", "127.0.0.1"]
    return running([*command, "--disable-uvicorn-access-log", *flags], port, "/health")


def serve_vivace(
    python: str, model: Path, port: int, folder: Path
) -> contextlib.AbstractContextManager[Any]:
    given = {name: value for name, value in SETTINGS.items() if name != "max_model_len"}
    arguments = "\n".join(f"{name} = {json.dumps(value)}" for name, value in given.items())
    context = SETTINGS["max_model_len"]
    text = CONFIG.format(port=port, model=MODEL, path=model, context=context, arguments=arguments)
    path = folder / "vivace.toml"
    path.write_text(text)
    return running([python, "-m", "vivace.cli", "serve", "-c", str(path)], port, "/readyz")


def serve_litellm(
    program: str, port: int, behind: int, folder: Path, model: str = MODEL
) -> contextlib.AbstractContextManager[Any]:
    path = folder / "litellm.yaml"
    path.write_text(
        "model_list:\n"
        f"  - model_name: {model}\n"
        "    litellm_params:\n"
        f"      model: openai/{model}\n"
        f"      api_base: http://127.0.0.1:{behind}/v1\n"
        "      api_key: none\n"
        "litellm_settings:\n  telemetry: false\n"
    )
    command = [program, "--config", str(path), "--port", str(port), "--host", "127.0.0.1"]
    return running([*command, "--telemetry", "False"], port, "/health/liveliness")


# -- the engine's own figures ---------------------------------------------------------------------

_FIGURE = re.compile(
    r"vllm:request_(queue|prefill|decode|inference)_time_seconds_(sum|count)\{.*\} (.*)"
)


class EngineClock:
    """How long the engine itself took for the last request, by its own metrics."""

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


# -- figures --------------------------------------------------------------------------------------


class Figures:
    def __init__(self) -> None:
        self.roundtrip: list[float] = []
        self.first: list[float] = []
        self.per_token: list[float] = []
        self.cold = 0.0

    def add(self, timing: Timing, lap: dict[str, float]) -> None:
        engine = lap["queue_sum"] + lap["inference_sum"]
        self.roundtrip.append(timing.wall - engine)
        self.first.append(timing.first - lap["queue_sum"] - lap["prefill_sum"])
        if timing.tokens > 1:
            writing = timing.wall - timing.first - lap["decode_sum"]
            self.per_token.append(writing / (timing.tokens - 1))


# -- the run --------------------------------------------------------------------------------------


async def loop(
    ways: dict[str, Way], clocks: dict[str, EngineClock], turns: int
) -> dict[str, Figures]:
    """All ways take each turn one after the other, in an order that changes."""
    figures = {name: Figures() for name in ways}
    names = list(ways)
    for turn in range(turns):
        names = [*names[1:], names[0]]
        for name in names:
            # Each conversation begins with its own name, so that none finds another's cache.
            text = f"This is conversation {name}.\n" + tool_output(turn)
            timing = await ways[name].turn(text)
            lap = await clocks[name].lap()
            if turn == 0:
                engine = lap["queue_sum"] + lap["inference_sum"]
                figures[name].cold = timing.wall - engine
            else:
                figures[name].add(timing, lap)
        print(f"  turn {turn + 1} of {turns}", end="\r", flush=True)
    return figures


async def streams(way: type[Way], port: int, count: int, tokens: int) -> tuple[float, float]:
    """Tokens per second of so many requests at once, and the seconds they took."""
    clients = [way(f"s{number}", port, MODEL, tokens) for number in range(count)]
    for client in clients:
        await client.turn("Say yes.")
    text = "Count upwards from one, one number a line, without end."
    started = time.perf_counter()
    timings = await asyncio.gather(*(client.turn(text) for client in clients))
    seconds = time.perf_counter() - started
    for client in clients:
        await client.close()
    return sum(timing.tokens for timing in timings) / seconds, seconds


def bare_rate(process: subprocess.Popen[str], count: int, tokens: int) -> float:
    text = "Count upwards from one, one number a line, without end."
    messages = [{"role": "user", "content": text}]
    request = {"messages": messages, "max_tokens": tokens, "copies": count}
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps(request) + "\n")
    process.stdin.flush()
    answer = json.loads(process.stdout.readline())
    return float(answer["tokens"]) / float(answer["wall"])


def cpu(pid: int) -> float:
    """Of the serving process alone; the engine's core is a process of its own."""
    times = psutil.Process(pid).cpu_times()
    return times.user + times.system


def report_overhead(report: Report, figures: dict[str, Figures]) -> None:
    for name, each in figures.items():
        report.spread(f"({name}) roundtrip overhead", each.roundtrip, "ms", 1000)
    for name, each in figures.items():
        report.spread(f"({name}) first token, pipeline part", each.first, "ms", 1000)
    for name, each in figures.items():
        report.say(f"({name}) connect and first turn, overhead", each.cold * 1000, "ms")


async def measure(
    report: Report, options: Any, ports: dict[str, int], pids: dict[str, Any]
) -> None:
    kinds: dict[str, tuple[type[Way], int, int]] = {
        "b1": (FullHistory, ports["vllm"], ports["vllm"]),
        "b2": (PreviousResponse, ports["vllm"], ports["vllm"]),
        "d": (PreviousResponse, ports["vivace"], ports["vivace"]),
        "e": (OverWebSocket, ports["vivace"], ports["vivace"]),
    }
    if "litellm" in ports:
        kinds["c"] = (ChatHistory, ports["litellm"], ports["vllm"])
    for kind, port, _ in kinds.values():
        warm = kind("warm-up", port, MODEL, 4)
        await warm.turn("Say yes.")
        await warm.close()
    clocks = {port: EngineClock(port) for port in {engine for *_, engine in kinds.values()}}
    ways = {
        name: kind(name, port, MODEL, options.tokens) for name, (kind, port, _) in kinds.items()
    }
    figures = await loop(ways, {n: clocks[kinds[n][2]] for n in kinds}, options.turns)
    for way in ways.values():
        await way.close()
    report_overhead(report, figures)
    best_first = min(("b1", "b2"), key=lambda name: statistics.median(figures[name].first))

    rates: dict[str, list[float]] = {name: [] for name in ("a", "b1", "d", "e")}
    costs: dict[str, list[float]] = {name: [] for name in ("b1", "d", "e")}
    for count in (1, 8):
        for name in rates:
            rates[name].clear()
        for _ in range(options.rounds):
            rates["a"].append(bare_rate(pids["bare"], count, options.stream_tokens))
            for name in ("b1", "d", "e"):
                kind, port, _ = kinds[name]
                pid = pids["vllm" if name == "b1" else "vivace"].pid
                before = cpu(pid)
                rate, seconds = await streams(kind, port, count, options.stream_tokens)
                rates[name].append(rate)
                costs[name].append((cpu(pid) - before) / (rate * seconds))
        for name, values in rates.items():
            report.spread(f"({name}) tokens/s, {count} streams", values, "/s")
        ratio, low, high = ratio_of(rates["e"], rates["a"])
        report.goal(
            f"(e) against (a), tokens/s at {count} streams: at least 0.98",
            met=high >= 0.98,
            measured=f"{ratio:.3f} (95% interval {low:.3f} to {high:.3f}, {len(rates['e'])} pairs)",
        )
    for name, values in costs.items():
        report.spread(f"({name}) CPU of the server per token", values, "µs", 1e6)

    e, b1, b2 = figures["e"], figures["b1"], figures["b2"]
    report.ratio_goal("roundtrip overhead, (e) against (b1)", e.roundtrip, b1.roundtrip, 0.10)
    report.ratio_goal("roundtrip overhead, (e) against (b2)", e.roundtrip, b2.roundtrip, 0.20)
    report.ratio_goal("per-token overhead (CPU), (e) against (b1)", costs["e"], costs["b1"], 0.40)
    better = figures[best_first].first
    report.ratio_goal(
        f"first token, pipeline part, (e) against ({best_first})", e.first, better, 0.25
    )
    report.goal(
        "connect and first turn, (e) no worse than (b1)",
        met=e.cold <= b1.cold,
        measured=f"{e.cold * 1000:.1f} ms against {b1.cold * 1000:.1f} ms",
    )


def main() -> None:
    report, options = Report.from_arguments(
        "pipeline",
        "Vivace beside its peers on vLLM with Qwen2.5-Coder-0.5B on CPU",
        turns=(20, "turns of the agent loop"),
        tokens=(12, "tokens of each answer"),
        rounds=(10, "pairs of the stream measurements"),
        stream_tokens=(24, "tokens of each stream"),
        litellm=("", "the litellm program; without it (c) is left out"),
        python=(str(_files.vllm_python()), "a Python that has vLLM"),
    )
    asked = [options.python, "-c", "import vllm; print(vllm.__version__)"]
    version = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.split()[-1]
    report.say("vllm", version)
    model = _files.vllm_model()
    ports = {"vllm": free_port(), "vivace": free_port()}
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        pids = {
            "bare": stack.enter_context(serve_bare(options.python, model)),
            "vllm": stack.enter_context(serve_vllm(options.python, model, ports["vllm"])),
            "vivace": stack.enter_context(
                serve_vivace(options.python, model, ports["vivace"], Path(folder))
            ),
        }
        if options.litellm:
            ports["litellm"] = free_port()
            proxy = serve_litellm(options.litellm, ports["litellm"], ports["vllm"], Path(folder))
            stack.enter_context(proxy)
        print("  all servers are ready", flush=True)
        asyncio.run(measure(report, options, ports, pids))
    report.end()


if __name__ == "__main__":
    main()

"""Our overhead laid bare: an engine that costs nothing, behind us and behind a plain HTTP server.

The scripted engine plays a prepared answer at a set rate and reads prompts in no time (no model is
involved). (a) the engine itself; (b1) a plain HTTP and SSE server before it, the whole history each
turn; (b2) the same with previous_response_id; (c) LiteLLM before that; (d) Vivace over HTTP; (e)
Vivace over WebSocket. A loop of turns with a kilobyte of tool output each, the ways in turn.
"""

from __future__ import annotations

import asyncio
import contextlib
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil
from tests.support.ports import free_port

from bench._peers import serve_litellm
from bench._report import Report
from bench._server import served_script, wait_until_ready, words
from bench._ways import (
    ChatHistory,
    FullHistory,
    OverWebSocket,
    PreviousResponse,
    Way,
    tool_output,
)
from vivace.engines.base import Card, Chat, Work
from vivace.engines.scripted import Capacity, Reply, Say, Script, ScriptedEngine
from vivace.protocol.items import Message


async def bare_turn(engine: ScriptedEngine, turn: int) -> tuple[float, float]:
    """Seconds to the first delta and to the end, with nothing in between."""
    items = [Message(role="user", content=tool_output(turn))]
    started = time.perf_counter()
    first = 0.0
    async for _ in engine.generate(Work(id="r", model="local-model", prompt=Chat(items=items))):
        first = first or time.perf_counter() - started
    return first, time.perf_counter() - started


class Samples:
    def __init__(self) -> None:
        self.wall: list[float] = []
        self.first: list[float] = []
        self.cpu: list[float] = []


async def loop(
    ways: dict[str, tuple[Way, int | None]], engine: ScriptedEngine, turns: int, tokens: int
) -> dict[str, Samples]:
    """Each way takes each turn; what is kept is the time beyond the bare engine's in that round."""
    samples = {name: Samples() for name in ways}
    names = list(ways)
    for turn in range(turns):
        names = [*names[1:], names[0]]
        bare_first, bare_wall = await bare_turn(engine, turn)
        for name in names:
            way, pid = ways[name]
            before = psutil.Process(pid).cpu_times() if pid else None
            timing = await way.turn(f"This is conversation {name}.\n" + tool_output(turn))
            if turn == 0:
                continue  # it connects
            samples[name].wall.append(max(0.0, timing.wall - bare_wall))
            samples[name].first.append(max(0.0, timing.first - bare_first))
            if before is not None:
                after = psutil.Process(pid).cpu_times()
                used = after.user + after.system - before.user - before.system
                samples[name].cpu.append(used / tokens)
    return samples


def measure(report: Report, options: Any, rate: int) -> None:
    port, command = free_port(), [sys.executable, "-m", "bench._plain_server"]
    command += [str(port), str(rate), str(options.tokens)]
    engine = ScriptedEngine(
        "bare",
        [Card("local-model", 131_072)],
        Script((Reply(then=(Say(words(options.tokens)),)),)),
        Capacity(rate=rate),
    )
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        plain = stack.enter_context(subprocess.Popen(command))
        stack.callback(plain.terminate)
        wait_until_ready(port, plain)
        ours, process = stack.enter_context(served_script(words(options.tokens), rate=rate))
        model, limit = "local-model", options.tokens + 1
        ways: dict[str, tuple[Way, int | None]] = {
            "b1": (FullHistory("b1", port, model, limit), plain.pid),
            "b2": (PreviousResponse("b2", port, model, limit), plain.pid),
            "d": (PreviousResponse("d", ours, model, limit), process.pid),
            "e": (OverWebSocket("e", ours, model, limit), process.pid),
        }
        if options.litellm:
            proxy = free_port()
            stack.enter_context(serve_litellm(options.litellm, proxy, port, folder, model))
            ways["c"] = (ChatHistory("c", proxy, model, limit), None)
        samples = asyncio.run(loop(ways, engine, options.turns, options.tokens))
    for name, each in samples.items():
        report.spread(f"{rate}/s ({name}) turn, beyond the engine", each.wall, "ms", 1000)
    for name, each in samples.items():
        report.spread(f"{rate}/s ({name}) first token, beyond", each.first, "ms", 1000)
    for name, each in samples.items():
        if each.cpu:
            mean = statistics.mean(each.cpu) * 1e6
            report.say(f"{rate}/s ({name}) CPU of the server per token", mean, "µs")


def main() -> None:
    report, options = Report.from_arguments(
        "overhead",
        "beyond a scripted engine: Vivace and a plain HTTP server (a replayed answer)",
        "uvicorn",
        "starlette",
        "websockets",
        turns=(40, "turns of the loop"),
        tokens=(200, "tokens of each answer"),
        litellm=("", "the litellm program; without it (c) is left out"),
    )
    for rate in (1000, 3000):
        measure(report, options, rate)
    report.end()


if __name__ == "__main__":
    main()

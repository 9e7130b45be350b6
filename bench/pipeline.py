"""The whole pipeline beside its peers, on the same real engine settings, turn by turn in one run.

(a) bare AsyncLLM, from token ids to token ids; (b1) vllm serve, HTTP and SSE, the whole history
every turn; (b2) the same with previous_response_id; (c) LiteLLM before it; (d) Vivace over HTTP and
SSE; (e) Vivace over WebSocket with incremental input. Every server has a vLLM of its own with equal
settings; the ways take turns, so that each turn of one has a neighbour of the other under the same
load.

The engine computes on one core and everything else, the client too, has the other: as on a machine
whose GPU leaves the processor to the servers.

Overhead is what the client waits beyond the engine. Two clocks take the engine's own time away, so
that its noise, which is much larger here, is not in it: vLLM's figures for that request
(request_queue_time + request_inference_time; prefill for the first token), and then what the bare
AsyncLLM of (a) still needed in the same turn: handing the request to its core process and the
tokens back, which every way but a rewrite of vLLM pays.

With --model tiny the engine is a random model that costs little, whose text is forced: the loop
begins after histories of 2,000 to 100,000 tokens, and one stream is drafted from its prediction.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Sequence
from itertools import chain, product
from pathlib import Path
from typing import Any, TypeVar

from tests.support.ports import free_port
from tokenizers import Tokenizer

from bench import _files, _tiny_model
from bench._peers import MODEL, serve_vivace
from bench._plot import bars
from bench._report import Report, ratio_of
from bench._rig import PARSED, Figures, Rig, less, serving, sharing
from bench._ways import OverWebSocket, OverWebSocketForetold, tool_output

PEERS = ("b1", "b2", "c", "d", "e")
Some = TypeVar("Some")
COUNT = "Stream {}. Count upwards from one, one number a line, without end."

# -- the work -------------------------------------------------------------------------------------


async def agent_loop(
    rig: Rig, turns: int, tokens: int, histories: Sequence[str] = ("",)
) -> list[dict[str, Figures]]:
    """All ways take each turn one after the other, in an order that changes; for every history
    that a conversation may begin with."""
    names, places = rig.names, [*range(len(histories))]
    figures = [{name: Figures() for name in names} for _ in places]
    ways = [
        {name: rig.client(name, f"{name}{place}", tokens) for name in names} for place in places
    ]
    for turn in range(turns + 1):
        names, places = _rotated(names), _rotated(places)
        for place, name in product(places, names):
            # Each conversation begins with its own name, so that none finds another's cache.
            history = histories[place] if not turn else ""
            text = f"This is conversation {name}{place}.\n{history}{tool_output(turn)}"
            timing, lap = await rig.turn(name, ways[place][name], text)
            if turn:  # the first connects
                figures[place][name].add(timing, lap)
        print(f"  turn {turn} of {turns}", end="\r", flush=True)
    for way in chain(*(each.values() for each in ways)):
        await way.close()
    return figures


def _rotated(some: list[Some]) -> list[Some]:
    return [*some[1:], some[0]]


async def short_requests(rig: Rig, rounds: int) -> tuple[dict[str, Figures], dict[str, Figures]]:
    """Connect and ask something short, then ask again on the kept connection."""
    names = rig.names
    cold = {name: Figures() for name in names}
    warm = {name: Figures() for name in names}
    for number in range(rounds):
        names = _rotated(names)
        for name in names:
            texts = (f"Say yes to {name} {number}.", f"Say no to {name} {number}.")
            way = rig.client(name, f"{name} {number}", 4)
            for figures, text in zip((cold, warm), texts, strict=True):
                figures[name].add(*await rig.turn(name, way, text))
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
            names = _rotated(names)
            for name in names:
                before = rig.cpu(name)
                rate, written = await streams(rig, name, count, options.stream_tokens)
                if not each:
                    continue  # its prompts were not cached
                rates[name].append(rate)
                if count == 8:
                    costs[name].append((rig.cpu(name) - before) / written)
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
    beyond = {name: less(values, costs["a"]) for name, values in costs.items() if name != "a"}
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
    for name, each in left.items():
        report.spread(f"({name}) {what}, CPU of the server, beyond (a)", each.cpu, "ms", 1000)
    return left


async def measure(report: Report, options: Any, rig: Rig) -> None:
    await rig.warm_up()
    [figures] = await agent_loop(rig, options.turns - 1, options.tokens)
    loop = say_all(report, "turn", figures)
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

# -- long histories, on an engine that costs little -----------------------------------------------


def history_of(tokens: int, tokenizer: Tokenizer) -> str:
    """So many tokens of tool output, or a few more."""
    parts: list[str] = []
    while tokens > 0:
        parts.append(tool_output(1000 + len(parts)))
        tokens -= len(tokenizer.encode(parts[-1]).ids)
    return "\n".join(parts)


async def measure_histories(report: Report, options: Any, rig: Rig, tokenizer: Tokenizer) -> None:
    lengths = [int(length) for length in options.histories.split(",")]
    await rig.warm_up()
    histories = [history_of(length, tokenizer) for length in lengths]
    figures = await agent_loop(rig, options.turns, options.tokens, histories)
    loops = {
        length: say_all(report, f"turn at {length:,} tokens", each)
        for length, each in zip(lengths, figures, strict=True)
    }
    for length, loop in loops.items():
        for peer in ("b1", "b2"):
            what = f"roundtrip overhead at {length:,} tokens, (e) against ({peer})"
            ours, theirs = loop["e"].roundtrip, loop[peer].roundtrip
            if peer == "b1" and length >= 30_000:
                report.ratio_goal(what, ours, theirs, 0.10)
            else:
                report.ratio(what, ours, theirs)
    short, long = min(lengths), max(lengths)
    what = f"roundtrip overhead of (e), {long:,} tokens against {short:,}"
    report.difference_goal(what, loops[long]["e"].roundtrip, loops[short]["e"].roundtrip, 2)
    what = what.replace("roundtrip overhead", "CPU beyond (a)")
    report.difference(what, loops[long]["e"].cpu, loops[short]["e"].cpu)
    if options.plot:
        named = [
            (f"{LABELS[name]}, {length // 1000}k", each)
            for name in rig.kinds
            for length, each in ((length, loop[name]) for length, loop in loops.items())
        ]
        bars(
            options.plot,
            f"{options.turns} turns after a long history, ms beyond bare AsyncLLM (median, p90)",
            {label: each.roundtrip for label, each in named},
            {label: each.first for label, each in named},
        )


async def drafted_streams(report: Report, options: Any, port: int) -> None:
    """One stream at a time over WebSocket: foretold, and with nothing to draft from."""
    rates: dict[str, list[float]] = {
        "drafted": [],
        "drafted, after the first token": [],
        "plain": [],
    }
    for number in range(options.rounds + 1):
        old = "\n".join(tool_output(100 * number + part) for part in range(5))
        drafted = OverWebSocketForetold(f"drafted {number}", port, MODEL, 4096)
        drafted.prediction = old
        plain = OverWebSocket(f"plain {number}", port, MODEL, 200)
        told = await drafted.turn(f"Rewrite this:\n{old}")
        untold = await plain.turn(f"Rewrite nothing, {number}.")
        for way in (drafted, plain):
            await way.close()
        if not number:
            continue
        rates["drafted"].append(told.tokens / told.wall)
        rates["drafted, after the first token"].append(told.tokens / (told.wall - told.first))
        rates["plain"].append(untold.tokens / untold.wall)
    for name, each in rates.items():
        report.tenths(f"(e) one stream, {name}: tokens/s", each)
    middle = statistics.median(rates["drafted"])
    report.goal(
        "(e) one stream with drafts: at least 1,000 tokens/s",
        met=middle >= 1000,
        measured=f"{middle:,.0f} (n={options.rounds})",
    )


def run_tiny(report: Report, options: Any, real: Path, folder: Path) -> None:
    model, settings = folder / "tiny", _tiny_model.SETTINGS
    report.say("model", _tiny_model.write(model, real))
    report.say("text of answers", _tiny_model.SAYS)
    if options.histories:
        tokenizer = Tokenizer.from_file(str(model / "tokenizer.json"))
        with serving(options, model, folder, **settings) as rig:
            asyncio.run(measure_histories(report, options, rig, tokenizer))
    if options.rounds:
        port = free_port()
        ours = serve_vivace(options.python, model, port, folder, drafts=True, **settings)
        with ours as process, sharing(process):
            asyncio.run(drafted_streams(report, options, port))


def main() -> None:
    report, options = Report.from_arguments(
        "pipeline",
        "Vivace beside its peers on vLLM on CPU",
        model=("qwen", "qwen: Qwen2.5-Coder-0.5B; tiny: random weights, for long histories"),
        turns=(20, "turns of the agent loop"),
        tokens=(12, "tokens of each answer"),
        rounds=(10, "pairs of the other measurements"),
        stream_tokens=(24, "tokens of each stream"),
        histories=("2000,30000,100000", "tiny: tokens of history before the loop"),
        litellm=("", "the litellm program; without it (c) is left out"),
        python=(str(_files.vllm_python()), "a Python that has vLLM"),
        plot=("", "write a picture of the loop to this file"),
    )
    asked = [options.python, "-c", "import vllm; print(vllm.__version__)"]
    version = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.split()[-1]
    report.say("vllm", version)
    report.say("load", f"{os.getloadavg()[0]:.1f} when it began")
    real = _files.vllm_model()
    with tempfile.TemporaryDirectory() as folder:
        if options.model == "tiny":
            run_tiny(report, options, real, Path(folder))
        else:
            report.say("model", real.name)
            with serving(options, real, Path(folder)) as rig:
                asyncio.run(measure(report, options, rig))
    report.end()


if __name__ == "__main__":
    main()

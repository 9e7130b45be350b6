"""Whether a keystroke stays instant while agents saturate the engine, and whether keys are fair.

The scripted engine (a replayed answer, no model) has one capacity for all: a step takes longer the
more requests are in it, and reading prompts takes time that everyone waits for. Measured over the
WebSocket, with classes and without them, in one run.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import random
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil
from tests.support.ports import free_port

from bench import _files
from bench._peers import MODEL, serve_vivace
from bench._report import Report, percentile, ratio_of
from bench._server import delayed, served
from bench._socket import Client

CONFIG = """
version = 1
[server]
port = {{port}}
[limits]
turns_in_flight = 512
turns_waiting = 4096
[store]
path = ":memory:"
[[engines]]
name = "shared"
kind = "scripted"
model = "local-model"
script = "script.toml"
rate = {rate}
growth = {growth}
prefill_rate = {prefill}
prefill_chunk = 512
patient_chunk = {patient}
slots = {slots}
reserved = {reserved}
[[tiers]]
name = "fast"
engines = ["shared"]
queue = 4096
[[tiers]]
name = "limited"
engines = ["shared"]
[tiers.limits]
requests_per_minute = 1
"""

KEYS = """
[[keys]]
name = "{name}"
sha256 = "{digest}"
"""

RATE, GROWTH, PREFILL = 100, 0.01, 20_000
"""A step takes 10 ms alone and 1% more for every further request."""


def config(*, classes: bool, keys: str = "", slots: int = 24) -> str:
    """Without classes everything goes to the engine as it comes, as most servers do."""
    given = (
        {"slots": slots, "reserved": slots // 3, "patient": 64}
        if classes
        else {"slots": 1024, "reserved": 0, "patient": 512}
    )
    return CONFIG.format(rate=RATE, growth=GROWTH, prefill=PREFILL, **given) + keys


def script() -> str:
    """Short at the cursor; for agents of a length whose distribution has a heavy tail."""
    dice = random.Random(5)
    lengths = {f"length {number:02d}": 12 * dice.paretovariate(1.2) for number in range(64)}
    return "".join(
        f'[[replies]]\nwhen = "^{asked}"\n'
        f'then = [{{ do = "say", text = " word", times = {min(1000, int(length))} }}]\n'
        for asked, length in {"quick": 8, "fair": 40, **lengths}.items()
    )


class Typist(Client):
    async def turn(self, text: str, **body: Any) -> dict[str, Any]:
        """Figures of one turn: when the first token and the end came, and what was foretold."""
        create = {"model": "fast", "input": text, "store": False}
        started = await self.send("create", **create | body)
        seen: dict[str, Any] = {"first": None, "begun": None, "foretold": None, "tokens": 0}
        while True:
            event = await self.event()
            now = time.perf_counter() - started
            match event["type"]:
                case "response.queued":
                    seen["foretold"] = seen["foretold"] or event["queue"]["estimated_seconds"]
                case "response.in_progress":
                    seen["begun"] = now
                case "response.output_text.delta":
                    seen["first"] = seen["first"] or now
                    seen["tokens"] += 1
                case "response.completed" | "response.incomplete":
                    return seen | {"wall": now, "response": event["response"]}
                case "error":
                    return seen | {"wall": now, "refused": event["error"]["code"]}


async def agent(port: int, stop: asyncio.Event, number: int, found: list[dict[str, Any]]) -> None:
    """Long prompts and answers of random length, one after the other."""
    dice = random.Random(number)
    async with Typist.at(port) as client:
        while not stop.is_set():
            prompt = f"length {dice.randrange(64):02d} {number} " + "context " * 300
            tier = {"service_tier": "flex"} if number % 8 == 7 else {}
            since = time.perf_counter()
            found.append(await client.turn(prompt, **tier) | {"since": since})
            # Sometimes many come at once, sometimes few: a queue that never changes is no test.
            await asyncio.sleep(dice.paretovariate(1.2) - 1 if int(since / 10) % 2 else 0)


async def keystrokes(port: int, count: int, **body: Any) -> list[float]:
    """Completions with a thousand tokens of context, one after the other, as a person types."""
    times = []
    async with Typist.at(port) as client:
        for _ in range(count):
            # Nothing of it may be cached, neither from the last run.
            mark = time.perf_counter_ns()
            text = "quick " + "".join(f"{mark} line {n}\n" for n in range(170))
            seen = await client.turn(text, max_output_tokens=8, **body)
            times.append(seen["first"])
            await asyncio.sleep(0.02)
    return times


async def loaded(
    port: int, count: int, agents: int, **body: Any
) -> tuple[list[float], list[dict[str, Any]]]:
    stop, found = asyncio.Event(), list[dict[str, Any]]()
    tasks = [asyncio.create_task(agent(port, stop, n, found)) for n in range(agents)]
    await asyncio.sleep(3)
    times = await keystrokes(port, count, **body)
    stop.set()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return times, found


def classes(report: Report, options: Any) -> list[dict[str, Any]]:
    with served(config(classes=True), script_toml=script()) as (port, process):
        alone = asyncio.run(keystrokes(port, options.keystrokes))
        gateway = psutil.Process(process.pid)
        before, started = sum(gateway.cpu_times()[:2]), time.perf_counter()
        with_classes, found = asyncio.run(loaded(port, options.keystrokes, options.agents))
        seconds = time.perf_counter() - started
        busy = (sum(gateway.cpu_times()[:2]) - before) / seconds
    with served(config(classes=False), script_toml=script()) as (port, _):
        # With a tool it counts as an agent's turn: nothing tells it from the others.
        without, _ = asyncio.run(
            loaded(port, options.keystrokes // 10, options.agents, tools=[TOOL])
        )
    report.spread("first token of a completion, engine idle", alone, "ms", 1000)
    report.spread(f"  beside {options.agents} agents, with classes", with_classes, "ms", 1000)
    report.spread(f"  beside {options.agents} agents, without", without, "ms", 1000)
    report.say("gateway's share of a core meanwhile", busy)
    ratio = percentile(with_classes, 0.99) / percentile(alone, 0.99)
    report.goal("p99 beside agents at most 1.3 of idle", met=ratio <= 1.3, measured=f"{ratio:.2f}")
    report.goal("gateway below 70% of a core", met=busy < 0.7, measured=f"{busy:.0%}")
    return found


# -- fairness -------------------------------------------------------------------------------------


def key_table(names: list[str]) -> str:
    return "".join(
        KEYS.format(name=name, digest=hashlib.sha256(name.encode()).hexdigest()) for name in names
    )


async def share(
    port: int, name: str, streams: int, seconds: float, all_are_here: asyncio.Barrier
) -> int:
    """Tokens a key gets with so many requests open at a time."""
    tokens = 0

    async def one(number: int) -> None:
        nonlocal tokens
        async with Typist.at(port, name) as client:
            await all_are_here.wait()
            until = time.perf_counter() + seconds
            while time.perf_counter() < until:
                seen = await client.turn(f"fair {number}", tools=[TOOL])
                if time.perf_counter() < until:
                    tokens += seen["tokens"]

    await asyncio.gather(*(one(number) for number in range(streams)))
    return tokens


TOOL = {"type": "function", "name": "f", "description": "", "parameters": {"type": "object"}}


def fairness(report: Report, options: Any) -> None:
    modest = [f"key{number}" for number in range(7)]
    names = [*modest, "greedy"]

    async def all_of(port: int, greedy: int) -> list[int]:
        barrier = asyncio.Barrier(4 * len(modest) + greedy)
        streams = dict.fromkeys(modest, 4) | {"greedy": greedy}
        return await asyncio.gather(
            *(share(port, name, n, options.seconds, barrier) for name, n in streams.items())
        )

    keys = key_table(names)
    with served(config(classes=True, keys=keys), script_toml=script()) as (port, _):
        fair = asyncio.run(all_of(port, 4))
        unfair = asyncio.run(all_of(port, 4 * 50))
    kept = [after / before for before, after in zip(fair[:-1], unfair[:-1], strict=True)]
    whole = sum(unfair[:-1]) / sum(fair[:-1])
    report.say("tokens of each, all alike", " ".join(map(str, fair)))
    report.say("tokens of each, the last sends 50 times", " ".join(map(str, unfair)))
    report.say("all others together keep", f"{whole:.0%}")
    report.goal("every key keeps 90%", met=min(kept) >= 0.9, measured=f"{min(kept):.0%}")


# -- placement ------------------------------------------------------------------------------------

REPLICA = """
[[engines]]
name = "replica{number}"
kind = "scripted"
model = "model{number}"
rate = 2000
prefill_rate = 1e6
"""


async def traces(port: int, conversations: int, turns: int) -> int:
    """Agents that go on turn by turn; returns the prompt tokens that were cached."""

    async def trace(number: int) -> int:
        cached = 0
        previous = ""
        text = "You are a coding agent. " * 40 + f"This is task {number}. "
        async with Typist.at(port) as client:
            for turn in range(turns):
                after = {"previous_response_id": previous} if previous else dict[str, str]()
                seen = await client.turn(f"{text} {turn} " + "output " * 100, **after)
                previous = seen["response"]["id"]
                cached += seen["response"]["usage"]["input_tokens_details"]["cached_tokens"]
                await asyncio.sleep(random.Random(number * turns + turn).random() * 0.05)
        return cached

    return sum(await asyncio.gather(*(trace(number) for number in range(conversations))))


def affinity(report: Report) -> None:
    cached = {}
    for count in (1, 4):
        head = "version = 1\n[server]\nport = {port}\n[store]\npath = ':memory:'\n"
        engines = "".join(REPLICA.format(number=number) for number in range(count))
        names = ", ".join(f'"replica{number}"' for number in range(count))
        tier = f'[[tiers]]\nname = "fast"\nengines = [{names}]\n'
        with served(head + engines + tier) as (port, _):
            cached[count] = asyncio.run(traces(port, 48, 12))
    kept = cached[4] / cached[1]
    report.say("cached tokens on one replica", cached[1])
    report.say("cached tokens on four", cached[4])
    report.goal("four replicas keep 95% of them", met=kept >= 0.95, measured=f"{kept:.1%}")


# -- a real engine --------------------------------------------------------------------------------


async def beside_prefill(port: int, number: int) -> float:
    """The first token of a completion that comes while a long prompt is being read."""
    async with Typist.at(port) as agent, Typist.at(port) as typist:
        long = f"Task {number}.\n" + "\n".join(
            f"def function_{number}_{line}(value):\n    return value + {line}"
            for line in range(200)
        )
        model = {"model": MODEL, "temperature": 0}
        reading = asyncio.create_task(agent.turn(long, max_output_tokens=2, tools=[TOOL], **model))
        await asyncio.sleep(0.7)
        seen = await typist.turn(f"Complete: def add_{number}(", max_output_tokens=4, **model)
        await reading
        return float(seen["first"])


def real(report: Report, options: Any) -> None:
    kinds: dict[str, dict[str, Any]] = {
        "with classes": {"long_prefill_token_threshold": 256},
        "without": {"scheduling_policy": "fcfs", "long_prefill_token_threshold": 0},
    }
    times: dict[str, list[float]] = {name: [] for name in kinds}
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        ports = {name: free_port() for name in kinds}
        for name, arguments in kinds.items():
            server = serve_vivace(
                options.python, _files.vllm_model(), ports[name], Path(folder), **arguments
            )
            stack.enter_context(server)
        for number in range(options.pairs):
            for name, port in ports.items():
                times[name].append(asyncio.run(beside_prefill(port, number)))
            print(f"  pair {number + 1} of {options.pairs}", end="\r", flush=True)
    for name, values in times.items():
        report.spread(f"vLLM: completion beside a long prefill, {name}", values, "ms", 1000)
    ratio, low, high = ratio_of(times["with classes"], times["without"])
    report.say("with classes, of without", f"{ratio:.2f} (95% interval {low:.2f} to {high:.2f})")


# -- refusals and predictions ---------------------------------------------------------------------


async def refusals(port: int, gateway: int, count: int) -> list[tuple[float, float]]:
    """How long each took, and for how long of that one of the two processes waited for a core: two
    processes take turns here, and any third on the machine is in the way of both."""
    both = (gateway, os.getpid())
    async with Typist.at(port) as client:
        await client.turn("quick", model="limited")
        times = []
        for _ in range(count):
            before = sum(map(delayed, both))
            seen = await client.turn("quick", model="limited")
            assert seen["refused"] == "rate_limit_exceeded"
            times.append((seen["wall"], min(seen["wall"], sum(map(delayed, both)) - before)))
        return times


def limited(report: Report) -> None:
    with served(config(classes=True), script_toml=script()) as (port, process):
        times = asyncio.run(refusals(port, process.pid, 300))
    worked = [wall - waited for wall, waited in times]
    report.spread("refusal over a limit", [wall for wall, _ in times], "ms", 1000)
    report.spread("  of it waiting for a core", [waited for _, waited in times], "ms", 1000)
    report.spread("  the rest", worked, "ms", 1000)
    late = percentile(worked, 0.99) * 1000
    report.goal("refused within 5 ms of work (p99)", met=late < 5, measured=f"{late:.2f} ms")


def predictions(report: Report, found: list[dict[str, Any]]) -> None:
    """How well waits were foretold to those that waited over 200 ms, once there was a past."""
    opened = min(each["since"] for each in found) + 5
    waited = [
        (each["foretold"], each["begun"])
        for each in sorted(found, key=lambda each: float(each["since"]))
        if each["since"] > opened
        if each["foretold"] and each["begun"] and each["begun"] > 0.2
    ]
    if len(waited) < 20:
        report.say("turns that waited over 200 ms", len(waited))
        return
    mean = statistics.mean(real for _, real in waited[: len(waited) // 2])
    later = waited[len(waited) // 2 :]
    ours = [abs(told - real) / real for told, real in later]
    theirs = [abs(mean - real) / real for _, real in later]
    bias = statistics.mean((told - real) / real for told, real in later)
    within = sum(1 for error in ours if error <= 0.3) / len(ours)
    report.spread("turns that waited over 200 ms", [real for _, real in later], "s")
    report.spread("error of the foretold wait", ours, "of it")
    report.spread("error of a running mean", theirs, "of it")
    report.say("bias of the foretold wait", bias)
    better = statistics.median(ours) < statistics.median(theirs)
    report.goal("closer than a running mean", met=better, measured=f"{statistics.median(ours):.2f}")
    report.goal("within 30% for 80% of them", met=within >= 0.8, measured=f"{within:.0%}")


def main() -> None:
    report, options = Report.from_arguments(
        "tiers",
        "classes, fairness, limits and predictions on one scripted engine (a replayed answer)",
        "websockets",
        keystrokes=(300, "completions of each measurement"),
        agents=(64, "agents beside them"),
        seconds=(15.0, "of each measurement of fairness"),
        pairs=(0, "pairs on vLLM, with classes and without"),
        python=(str(_files.vllm_python()), "a Python that has vLLM"),
    )
    found = classes(report, options)
    fairness(report, options)
    limited(report)
    predictions(report, found)
    affinity(report)
    if options.pairs:
        real(report, options)
    report.end()


if __name__ == "__main__":
    main()

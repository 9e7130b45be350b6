"""What a link to an engine node costs: the same engine in the gateway's process, and on a node.

The engine is a scripted one that replays a prepared answer and reads prompts in no time; no model
is involved. Whatever is compared takes turns in one run, one of each a pair, in an order that
changes from pair to pair. Clients are WebSockets; turns are passing ones (store: false).

first    the first token of an engine that says it at once, so that all of it is ours
streams  64 streams, 100 tokens/s each (an engine's step of 64 tokens every 10 ms): tokens/s, CPU of
         the gateway per event; CPU of the node per token, beside the same engine in a process that
         only reads it, which runs while the other gateway does: both have the same company
flat     8 streams of an engine that says all it has at once: CPU of the gateway per event
stop     over a link alone: from closing an answer to the end of the engine's work on the node, by a
         clock that both processes share; beside prompts of 1 MB that go to the same node over the
         same link, to an engine there that does not read them
steer    the same from a client's steer on, through a gateway that takes the prompts of 1 MB from
         another client
parts    the log and the frames alone, 64 streams a step, without sockets or an event loop
fleet    a kept turn through two gateways on PostgreSQL with two nodes, in turn, beside one process
         with its own engine on SQLite; the engine says all at once, so that all of it is ours.
         Limits are counted by each gateway alone
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from bench import _link_stops, events
from bench._linked import (
    Played,
    alone,
    embedded,
    gateway,
    node,
    on_a_node,
    says,
)
from bench._report import ENOUGH, Report, difference_of, ratio_of_neighbours
from bench._server import cpu, delayed
from bench.against import in_turns
from bench.durable import SQLITE, database
from bench.steer import Redirecting
from vivace.conversation.deltas import TextDelta
from vivace.conversation.log import Said
from vivace.link.frames import Run, Tallied, decode_to_gateway, encode
from vivace.link.gateway_end import GatewayEnd
from vivace.link.node_end import NodeEnd

PARTS = ("first", "streams", "flat", "stop", "steer", "parts", "fleet")
STREAMS = 64
RATE = 100
AT_ONCE = 1e9
"""Tokens a second: all that there is in one turn of the engine's event loop."""
ROUNDS = 4
"""On a machine that stands still most of the time it is measured so often, to have fair samples."""
MEGABYTE = 1_000_000
WAITED = 0.0005
"""Seconds for which all processes together may have waited for a core, in a sample that counts."""

_NOTHING = msgspec.Raw(b"\xc0")
Pairs = dict[str, list[float]]
_TOLD = {"old": "embedded", "new": "node"}


def pairs_of() -> Pairs:
    return {"old": [], "new": []}


def spreads(report: Report, what: str, found: Pairs, unit: str, scale: float) -> None:
    for name, told in _TOLD.items():
        report.spread(f"{what}, {told}", found[name], unit, scale)


# -- the first token ------------------------------------------------------------------------------


@dataclass
class Server:
    port: int
    pids: tuple[int, ...]

    def kept_waiting(self) -> float:
        """Seconds for which its processes could have run and others had the core, so far."""
        return sum(map(delayed, self.pids))


@dataclass(frozen=True)
class Turn:
    """Seconds to the first word and to the end, and how long a core was waited for."""

    first: float
    end: float
    waited: float


async def turns(servers: dict[str, Server], pairs: int) -> dict[str, list[Turn]]:
    done: dict[str, list[Turn]] = {"old": [], "new": []}
    us = Server(0, (os.getpid(),))
    async with contextlib.AsyncExitStack() as stack:
        clients = {
            name: await stack.enter_async_context(Redirecting.at(server.port))
            for name, server in servers.items()
        }
        for number, name in enumerate(in_turns(pairs + 10)):
            client, server = clients[name], servers[name]
            before = server.kept_waiting() + us.kept_waiting()
            sent = await client.send("create", input="go", store=False)
            (came,) = await client.deltas(1)
            waited = server.kept_waiting() + us.kept_waiting() - before
            await client.until_end()
            ended = time.perf_counter()
            if number >= 20:  # the first ten pairs warm up
                done[name].append(Turn(came - sent, ended - sent, waited))
            await asyncio.sleep(0.002)
    return done


def first(report: Report, options: Any) -> None:
    played = Played(AT_ONCE, (says(5),))
    done: dict[str, list[Turn]] = {"old": [], "new": []}
    with embedded(played) as (port, pid), on_a_node(played) as (linked, its, there):
        servers = {"old": Server(port, (pid,)), "new": Server(linked, (its, there.process.pid))}
        for _ in range(ROUNDS):
            for name, each in asyncio.run(turns(servers, options.turns)).items():
                done[name] += each
            if len(undisturbed(done)["new"]) >= ENOUGH:
                break
    came = {name: [each.first for each in found] for name, found in done.items()}
    ends = {name: [each.end for each in found] for name, found in done.items()}
    spreads(report, "first token", came, "ms", 1000)
    spreads(report, "end of a turn", ends, "ms", 1000)
    report.difference("first token, p50, all pairs", came["new"], came["old"])
    ran = {name: [each.first - each.waited for each in found] for name, found in done.items()}
    report.difference("the same, less what they waited for a core", ran["new"], ran["old"])
    fair = undisturbed(done)
    aside = f"{len(done['new']) - len(fair['new'])} of {len(done['new'])} pairs"
    report.say("set aside: others had the core", aside)
    if len(fair["new"]) < min(ENOUGH, options.turns):
        found = f"{len(fair['new'])}"
        report.goal(f"first token: {ENOUGH} pairs to judge by", met=False, measured=found)
        return
    spreads(report, "first token, undisturbed", fair, "ms", 1000)
    report.difference_goal("first token, p50", fair["new"], fair["old"], 0.6)


def undisturbed(done: dict[str, list[Turn]]) -> Pairs:
    """First tokens of the pairs in which nobody waited long for a core."""
    pairs = zip(done["old"], done["new"], strict=True)
    fair = [pair for pair in pairs if all(each.waited <= WAITED for each in pair)]
    return {"old": [old.first for old, _ in fair], "new": [new.first for _, new in fair]}


# -- streams --------------------------------------------------------------------------------------


@dataclass
class Streamed:
    """What one run of many streams took."""

    rate: float
    """Tokens a second."""
    cost: float
    """Seconds of the gateway's CPU per event."""
    joined: float
    """Tokens of an event: more than one where the gateway was behind."""


def streamed(port: int, pid: int, streams: int, tokens: int) -> Streamed:
    before = cpu(pid)
    deltas, seconds = events.run(port, streams)
    total = streams * tokens
    return Streamed(total / seconds, (cpu(pid) - before) / deltas, total / deltas)


def streams(report: Report, options: Any) -> None:
    tokens = int(RATE * options.seconds)
    played = Played(RATE, (says(tokens),))
    done: dict[str, list[Streamed]] = {"old": [], "new": []}
    nodes: list[float] = []
    alones: list[float] = []
    with (
        embedded(played) as (old, old_pid),
        on_a_node(played) as (new, new_pid, there),
        alone(RATE, tokens) as bare,
    ):
        servers = {"old": (old, old_pid), "new": (new, new_pid)}
        for port, _ in servers.values():
            events.run(port, STREAMS)
        bare.begin(STREAMS)
        bare.cost()
        for name in in_turns(options.pairs):
            before = cpu(there.process.pid)
            if name == "old":
                bare.begin(STREAMS)
            done[name].append(streamed(*servers[name], STREAMS, tokens))
            if name == "old":
                alones.append(bare.cost())
            else:
                nodes.append((cpu(there.process.pid) - before) / (STREAMS * tokens))
    judge_rates(report, done)
    judge_gateway(report, f"{STREAMS} streams at {RATE}/s", done, goal=True)
    judge_node(report, nodes, alones)


def judge_rates(report: Report, done: dict[str, list[Streamed]]) -> None:
    rates = {name: [each.rate for each in runs] for name, runs in done.items()}
    spreads(report, f"tokens/s of {STREAMS} streams at {RATE}/s", rates, "/s", 1)
    ratio, low, high = ratio_of_neighbours(rates["new"], rates["old"])
    report.goal(
        f"tokens/s of {STREAMS} streams at {RATE}/s, of embedded: at least 0.97",
        met=high >= 0.97,
        measured=f"{ratio:.3f} (95% interval {low:.3f} to {high:.3f}, {len(rates['new'])} pairs)",
    )


def judge_gateway(
    report: Report, where: str, done: dict[str, list[Streamed]], *, goal: bool
) -> None:
    costs = {name: [each.cost for each in runs] for name, runs in done.items()}
    spreads(report, f"{where}: gateway's CPU per event", costs, "µs", 1e6)
    for name, told in _TOLD.items():
        joined = statistics.median(each.joined for each in done[name])
        report.say(f"{where}: tokens of an event, {told}", joined)
    report.ratio(f"{where}: gateway's CPU, of embedded", costs["new"], costs["old"])
    if goal:
        middle = statistics.median(costs["new"]) * 1e6
        report.goal(
            "gateway's CPU per event from nodes, p50: at most 25 µs",
            met=middle <= 25,
            measured=f"{middle:.1f} µs ({len(costs['new'])} runs)",
        )


def judge_node(report: Report, nodes: list[float], alones: list[float]) -> None:
    report.spread("the node's CPU per token", nodes, "µs", 1e6)
    report.spread("the same engine alone: CPU per token", alones, "µs", 1e6)
    more, low, high = (1e6 * each for each in difference_of(nodes, alones))
    report.goal(
        "the node's CPU per token beyond its engine's: at most 8 µs",
        met=low <= 8,
        measured=f"{more:.1f} µs (95% interval {low:.1f} to {high:.1f}, {len(nodes)} pairs)",
    )


def flat(report: Report, options: Any) -> None:
    played = Played(AT_ONCE, (says(options.tokens),))
    done: dict[str, list[Streamed]] = {"old": [], "new": []}
    with embedded(played) as old, on_a_node(played) as (port, pid, _):
        servers = {"old": old, "new": (port, pid)}
        for each, _ in servers.values():
            events.run(each, 8)
        for name in in_turns(options.pairs):
            done[name].append(streamed(*servers[name], 8, options.tokens))
    judge_gateway(report, "8 streams, all at once", done, goal=False)


# -- the log and the frames alone -----------------------------------------------------------------


def parts(report: Report, options: Any) -> None:
    costs: dict[str, list[float]] = {"log": [], "frame": [], "gateway": []}
    for _ in range(options.pairs):
        for name, seconds in steps(200).items():
            costs[name].append(seconds)
    for name, what in (
        ("log", "the node's log, per token"),
        ("frame", "the node's frame, per token"),
        ("gateway", "the gateway's end, per token"),
    ):
        report.spread(f"{STREAMS} streams a step: {what}", costs[name], "µs", 1e6)


def steps(count: int) -> dict[str, float]:
    """Seconds per token of each part, over so many steps of an engine."""
    here, there = GatewayEnd(), NodeEnd()
    there.joined("g")
    streams = []
    for number in range(STREAMS):
        whole = Run(0, f"run{number}", f"resp_{number}", 1, 1, "e", "", 2.0, _NOTHING)
        stream, sent = here.run(whole, None)
        streams.append(stream)
        for _ in there.received("g", sent, 0.0):
            pass
    used = dict.fromkeys(("log", "frame", "gateway"), 0.0)
    for step in range(count):
        began = time.thread_time()
        for number in range(STREAMS):
            said = (Said(1, TextDelta(" word", ids=(step,))),)
            there.said(f"run{number}", said, Tallied(1, 0, step, step), 0.0)
        logged = time.thread_time()
        frame = encode(there.outgoing("g"))
        framed = time.thread_time()
        for message in decode_to_gateway(frame):
            here.received(message)
        for stream in streams:
            while stream.entries:
                stream.take()
                here.taken(stream)
        heard = here.heard()
        read = time.thread_time()
        for _ in there.received("g", heard, 0.0) if heard is not None else ():
            pass
        again = time.thread_time()
        used["log"] += logged - began + again - read
        used["frame"] += framed - logged
        used["gateway"] += read - framed
    return {name: seconds / (count * STREAMS) for name, seconds in used.items()}


# -- the whole fleet ------------------------------------------------------------------------------


async def kept_turns(ports: dict[str, list[int]], pairs: int) -> Pairs:
    """Seconds of a kept turn; those of a fleet go through its gateways in turn."""
    took = pairs_of()
    async with contextlib.AsyncExitStack() as stack:
        clients = {
            name: itertools.cycle(
                [await stack.enter_async_context(Redirecting.at(port)) for port in each]
            )
            for name, each in ports.items()
        }
        for number, name in enumerate(in_turns(pairs + 10)):
            client = next(clients[name])
            sent = await client.send("create", input="go")
            await client.until_end()
            if number >= 20:
                took[name].append(time.perf_counter() - sent)
            await asyncio.sleep(0.002)
    return took


def fleet(report: Report, options: Any) -> None:
    played = Played(AT_ONCE, (says(20),))
    with (
        database() as url,
        node(played, name="a") as one,
        node(played, name="b") as other,
        embedded(played, SQLITE) as (single, _),
        gateway([one, other], f'url = "{url}"') as (left, _),
        gateway([one, other], f'url = "{url}"') as (right, _),
    ):
        took = asyncio.run(kept_turns({"old": [single], "new": [left, right]}, options.turns))
    report.spread("a kept turn, one process on SQLite", took["old"], "ms", 1000)
    report.spread("a kept turn, the whole fleet", took["new"], "ms", 1000)
    report.ratio_goal("a turn through the whole fleet", took["new"], took["old"], 2.0)


_MEASURE: dict[str, Callable[[Report, Any], None]] = {
    "first": first,
    "streams": streams,
    "flat": flat,
    "stop": _link_stops.stop,
    "steer": _link_stops.steer,
    "parts": parts,
    "fleet": fleet,
}


def main() -> None:
    report, options = Report.from_arguments(
        "link",
        "an engine on a node beside the same in the gateway (scripted: it replays an answer)",
        "uvicorn",
        "websockets",
        "uvloop",
        "msgspec",
        parts=(",".join(PARTS), "which parts"),
        pairs=(12, "how often each is measured for CPU and tokens/s"),
        seconds=(3.0, "seconds of a run of 64 streams"),
        tokens=(5_000, "tokens of each of eight streams that come all at once"),
        turns=(300, "turns of each kind, and steers"),
        large=(10.0, "prompts of 1 MB a second, beside steers"),
    )
    report.say("load of the machine, per minute", f"{os.getloadavg()[0]:.1f}")
    for part in options.parts.split(","):
        _MEASURE[part](report, options)
    report.say("load of the machine at the end", f"{os.getloadavg()[0]:.1f}")
    report.end()


if __name__ == "__main__":
    main()

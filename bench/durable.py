"""What it costs that turns are kept: beside turns that are not, and beside an earlier commit.

The engine is a scripted one that replays a prepared answer; no model is involved. Whatever is
compared takes turns in one run, one of each a pair, in an order that changes from pair to pair:

against     passing turns (store: false) of this tree and of --against: CPU per event
sqlite      kept turns and passing ones of one server on SQLite: CPU per event, the first token
postgres    the same on PostgreSQL, behind an engine whose first token takes 10 ms
steer       kept turns and passing ones: from a steer to the engine's stop, as told by a turn that
            waits for the only slot and is told that it begins; and to the steer's receipt

Where CPU is measured the server has one core and the client the other. PostgreSQL is started for
this, with fsync on; how long the disk takes to sync is measured beside it, for a kept turn ends
with one sync.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import psutil

from bench import events
from bench._cores import FIRST_CORE, OTHER_CORES
from bench._hiccups import Hiccups, Span, watched
from bench._peers import ROOT
from bench._report import ENOUGH, Report, percentile, ratio_of_neighbours
from bench._server import cpu, served, served_script
from bench.against import earlier, in_turns
from bench.steer import Redirecting

PARTS = ("against", "sqlite", "postgres", "steer")
STREAMS = 8
ROUNDS = 4
"""On a machine that stands still most of the time it is measured so often, to have fair samples."""

_SERVER = """
version = 1
[server]
port = {{port}}
[store]
{store}
[[engines]]
name = "yardstick"
kind = "scripted"
model = "local-model"
script = "script.toml"
rate = {rate}
slots = {slots}
"""
SQLITE = 'path = "vivace.db"'


@contextlib.contextmanager
def serving(store: str, rate: float, *acts: str, slots: int = 64) -> Iterator[tuple[int, int]]:
    """The port and the process of a server whose engine does this, whatever it is asked."""
    script = f"[[replies]]\nthen = [{', '.join(acts)}]\n"
    config = _SERVER.format(store=store, rate=rate, slots=slots)
    with served(config, source=ROOT / "src", script_toml=script) as (port, process):
        yield port, process.pid


def says(times: int) -> str:
    return f'{{ do = "say", text = " word", times = {times} }}'


def stalls(seconds: float) -> str:
    return f'{{ do = "stall", seconds = {seconds} }}'


# -- CPU ------------------------------------------------------------------------------------------


@contextlib.contextmanager
def apart(pid: int) -> Iterator[None]:
    """Meanwhile a server has its core, and we keep to the others."""
    psutil.Process(pid).cpu_affinity(list(FIRST_CORE))
    os.sched_setaffinity(0, OTHER_CORES)
    try:
        yield
    finally:
        os.sched_setaffinity(0, FIRST_CORE | OTHER_CORES)


def cost_of(port: int, pid: int, *, store: bool) -> float:
    """Seconds of CPU per event of some streams at once."""
    before = cpu(pid)
    deltas, _ = events.run(port, STREAMS, create=_create(store))
    return (cpu(pid) - before) / deltas


def _create(store: bool) -> str:
    return json.dumps({"type": "response.create", "input": "go", "store": store})


def compare_costs(
    report: Report, what: str, ours: list[float], theirs: list[float], most: float
) -> None:
    ratio, low, high = ratio_of_neighbours(ours, theirs)
    report.goal(
        f"{what}: at most {most:.3g}",
        met=low <= most,
        measured=f"{ratio:.3f} (95% interval {low:.3f} to {high:.3f}, {len(ours)} pairs)",
    )


def against(report: Report, options: Any) -> None:
    if not options.against:
        report.say("against", "left out: no commit was given (--against REV)")
        return
    report.say("against the commit", options.against)
    costs: dict[str, list[float]] = {"old": [], "new": []}
    with earlier(options.against) as source, contextlib.ExitStack() as stack:
        servers = {}
        for name, tree in (("old", source), ("new", ROOT / "src")):
            script = served_script(" word", times=options.tokens, rate=1e9, source=tree)
            port, process = servers[name] = stack.enter_context(script)
            stack.enter_context(apart(process.pid))
            cost_of(port, process.pid, store=False)
        for name in in_turns(options.pairs):
            port, process = servers[name]
            costs[name].append(cost_of(port, process.pid, store=False))
    for name, each in costs.items():
        report.spread(f"passing turns, {name}: CPU per event", each, "µs", 1e6)
    what = "passing turns, CPU per event, of the other commit's (0.97 of its speed)"
    compare_costs(report, what, costs["new"], costs["old"], 1 / 0.97)


# -- seconds --------------------------------------------------------------------------------------


@dataclass
class Timed:
    """Seconds from the request to the first word, and to the end."""

    first: list[float]
    end: list[float]


async def timed(port: int, pairs: int) -> dict[str, Timed]:
    """Kept turns and passing ones on one connection, in turn."""
    done = {name: Timed([], []) for name in ("old", "new")}
    async with Redirecting.at(port) as client:
        for number, name in enumerate(in_turns(pairs + 10)):
            sent = await client.send("create", input="go", store=name == "new")
            (first,) = await client.deltas(1)
            await client.until_end()
            end = time.perf_counter()
            if number >= 20:  # the first ten pairs warm up
                done[name].first.append(first - sent)
                done[name].end.append(end - sent)
            await asyncio.sleep(0.002)
    return done


def compare_times(
    report: Report, where: str, port: int, pairs: int, *, first: float, end: float | None
) -> None:
    """``first`` and ``end`` are how many milliseconds more a kept turn may take."""
    done = asyncio.run(timed(port, pairs))
    for name, told in (("new", "kept"), ("old", "passing")):
        report.spread(f"{where}, {told}: first token", done[name].first, "ms", 1000)
        report.spread(f"{where}, {told}: end", done[name].end, "ms", 1000)
    what = f"{where}: a kept turn's first token, beside a passing one's"
    report.difference_goal(what, done["new"].first, done["old"].first, first)
    what = f"{where}: a kept turn's end, beside a passing one's"
    if end is not None:
        report.difference_goal(what, done["new"].end, done["old"].end, end)
    else:
        report.difference(what, done["new"].end, done["old"].end)


def sqlite(report: Report, options: Any) -> None:
    costs: dict[str, list[float]] = {"old": [], "new": []}
    with serving(SQLITE, 1e9, says(options.tokens)) as (port, pid), apart(pid):
        for store in (False, True):
            cost_of(port, pid, store=store)
        for name in in_turns(options.pairs):
            costs[name].append(cost_of(port, pid, store=name == "new"))
    report.spread("SQLite, kept: CPU per event", costs["new"], "µs", 1e6)
    report.spread("SQLite, passing: CPU per event", costs["old"], "µs", 1e6)
    what = "SQLite: CPU per event of kept turns, of passing ones'"
    compare_costs(report, what, costs["new"], costs["old"], 1.15)
    with serving(SQLITE, 1000, says(20)) as (port, _):
        compare_times(report, "SQLite, 1,000 tok/s", port, options.turns, first=0.2, end=None)


def postgres(report: Report, options: Any) -> None:
    with database() as url, serving(f'url = "{url}"', 1000, stalls(0.01), says(20)) as (port, _):
        where = "PostgreSQL, first token after 10 ms"
        before = syncs(options.turns)
        compare_times(report, where, port, options.turns, first=0.3, end=2.0)
    report.spread("the disk: fdatasync of 8 KB", before + syncs(options.turns), "ms", 1000)


def syncs(count: int) -> list[float]:
    """Seconds that the disk takes for what a commit waits for."""
    took = []
    with tempfile.NamedTemporaryFile() as file:
        for _ in range(count):
            file.seek(0)
            file.write(os.urandom(8192))
            file.flush()
            began = time.perf_counter()
            os.fdatasync(file.fileno())
            took.append(time.perf_counter() - began)
    return took


@contextlib.contextmanager
def database() -> Iterator[str]:
    from tests.support.postgres import Postgres  # which only this part needs

    server = Postgres()
    try:
        yield server.database()
    finally:
        server.stop()


# -- steers ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Stopped:
    """One steer: seconds until another turn had the engine, and until its receipt."""

    freed: float
    receipt: float
    span: Span


async def redirects(port: int, pairs: int) -> dict[str, list[Stopped]]:
    """Kept turns and passing ones, steered while another turn waits for the only slot."""
    done: dict[str, list[Stopped]] = {"old": [], "new": []}
    async with Redirecting.at(port) as client, Redirecting.at(port) as other:
        for name in in_turns(pairs):
            began = await client.send("create", input="go", store=name == "new")
            target = (await client.until("response.created"))["response"]["id"]
            await client.deltas(5)
            await other.send("create", input="go", store=False)
            waiting = (await other.until("response.queued"))["response"]["id"]
            await client.deltas(15)
            sent = await client.send("steer", previous_response_id=target, input="elsewhere")
            freed, receipt = await asyncio.gather(
                arrival(other, "response.in_progress"), arrival(client, "response.steer.accepted")
            )
            done[name].append(Stopped(freed - sent, receipt - sent, (began, max(freed, receipt))))
            successor = (await client.until("response.created"))["response"]["id"]
            for each, running in ((client, successor), (other, waiting)):
                await each.send("interrupt", response_id=running)
                await each.until("response.incomplete")
    return done


async def arrival(client: Redirecting, kind: str) -> float:
    await client.until(kind)
    return time.perf_counter()


def steer(report: Report, options: Any) -> None:
    done: dict[str, list[Stopped]] = {"old": [], "new": []}
    hiccups = Hiccups()
    with serving(SQLITE, 1000, says(100_000), slots=1) as (port, _):
        for _ in range(ROUNDS):
            with watched() as seen:
                for name, each in asyncio.run(redirects(port, options.turns)).items():
                    done[name] += each
            hiccups.spans += seen.spans
            kept = done["new"]
            if len(hiccups.outside(kept, [each.span for each in kept])) >= ENOUGH:
                break
    for name, told in (("new", "kept"), ("old", "passing")):
        freed, receipts = ([getattr(each, what) for each in done[name]] for what in _TIMES)
        report.spread(f"{told}: from steer to the engine's stop", freed, "ms", 1000)
        report.spread(f"{told}: from steer to receipt", receipts, "ms", 1000)
    fair = report.fair(kept, [each.span for each in kept], hiccups)
    late = percentile([each.freed for each in fair], 0.99) * 1000
    report.goal(
        "kept turns: from steer to the engine's stop, p99 at most 2 ms",
        met=late <= 2,
        measured=f"{late:.2f} ms (n={len(fair)})",
    )


_TIMES = ("freed", "receipt")

_MEASURE: dict[str, Callable[[Report, Any], None]] = {
    "against": against,
    "sqlite": sqlite,
    "postgres": postgres,
    "steer": steer,
}


def main() -> None:
    report, options = Report.from_arguments(
        "durable",
        "what it costs that turns are kept (a scripted engine, which replays an answer)",
        "uvicorn",
        "websockets",
        "uvloop",
        "msgspec",
        "asyncpg",
        against=("", "a commit whose passing turns are measured beside this tree's"),
        parts=(",".join(PARTS), "which parts"),
        pairs=(12, "how often each is measured for CPU"),
        tokens=(10_000, "tokens of each of eight streams, for CPU"),
        turns=(300, "turns of each kind, and steers"),
    )
    report.say("load of the machine, per minute", f"{os.getloadavg()[0]:.1f}")
    for part in options.parts.split(","):
        _MEASURE[part](report, options)
    report.say("load of the machine at the end", f"{os.getloadavg()[0]:.1f}")
    report.end()


if __name__ == "__main__":
    main()

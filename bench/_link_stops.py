"""How soon a stop reaches an engine on a node, for ``scripts/bench link``.

The engine says 1,000 tokens/s and notes when its work was ended, by a clock that all processes of a
machine share. Beside it the node has an engine that takes prompts of any size and reads none.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import multiprocessing
import random
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from typing import Any

from bench._hiccups import Hiccups, Span, watched
from bench._linked import KEY, LARGE, MODEL, NodeProcess, Played, node, on_a_node, says
from bench._report import ENOUGH, Report, percentile
from bench._socket import Client
from bench.durable import arrival
from bench.steer import Redirecting
from vivace.engines.base import Chat, Work
from vivace.engines.remote import Address, Node, RemoteEngine
from vivace.node.app import new_loop
from vivace.protocol.items import Message

ROUNDS = 4
"""On a machine that stands still most of the time it is measured so often, to have fair samples."""
MEGABYTE = 1_000_000
PLAYED = Played(1000, (says(100_000),), large=True)


@dataclass(frozen=True)
class Stopped:
    """One stop: seconds until the engine's work was over, and until a client knew of it."""

    stopped: float
    receipt: float
    span: Span


def rounds(
    count: int, stops: Callable[[int, bool], list[Stopped]]
) -> tuple[list[Stopped], list[Stopped], Hiccups]:
    """Without large prompts and beside them, until there are enough fair ones of the latter."""
    quiet: list[Stopped] = []
    beside: list[Stopped] = []
    hiccups = Hiccups()
    stops(20, False)
    for _ in range(ROUNDS):
        quiet += stops(count, False)
        with watched() as seen:
            beside += stops(count, True)
        hiccups.spans += seen.spans
        if len(hiccups.outside(beside, [each.span for each in beside])) >= ENOUGH:
            break
    return quiet, beside, hiccups


# -- over a link alone ----------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def linked(there: NodeProcess) -> AsyncIterator[dict[str, RemoteEngine]]:
    """The engines of a node, by their names."""
    here = Node(Address(there.url, KEY), "gateway_bench")
    running = asyncio.create_task(here.run())
    try:
        await asyncio.wait_for(here.linked.wait(), 10)
        yield {engine.offer.name: engine for engine in here.engines}
    finally:
        here.close()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


def work(number: int, model: str, text: str) -> Work:
    items = [Message(role="user", content=text)]
    return Work(id=f"resp_{model}_{number}", model=model, prompt=Chat(items=items))


async def answered(engine: RemoteEngine, asked: Work) -> None:
    async for _ in engine.generate(asked):
        pass


async def stops(there: NodeProcess, count: int, large: bool) -> list[Stopped]:
    """Each while a prompt of a megabyte is somewhere on its way, if there is to be one."""
    done = []
    dice = random.Random(1)
    async with linked(there) as engines:
        for number in range(count):
            began = time.perf_counter()
            asked = work(number, MODEL, "go")
            beside: asyncio.Task[None] | None = None
            async with contextlib.aclosing(engines["yardstick"].generate(asked)) as deltas:
                for _ in range(20):
                    await anext(deltas)
                if large:
                    prompt = work(number, LARGE, f"{number} " + "x" * MEGABYTE)
                    beside = asyncio.create_task(answered(engines[LARGE], prompt))
                await asyncio.sleep(dice.choice((0, 0, 0.001, 0.002, 0.003)))
                closed = time.perf_counter()
            stopped = await asyncio.to_thread(there.stopped, asked.id)
            done.append(Stopped(stopped - closed, 0.0, (began, stopped)))
            if beside is not None:
                await beside
    return done


def stop(report: Report, options: Any) -> None:
    with node(PLAYED, notes=True) as there:

        def run(count: int, large: bool) -> list[Stopped]:
            with asyncio.Runner(loop_factory=new_loop) as runner:  # a gateway's
                return runner.run(stops(there, count, large))

        quiet, beside, hiccups = rounds(options.turns, run)
    told = "link alone, from the stop to the engine's"
    report.spread(f"{told}", [each.stopped for each in quiet], "ms", 1000)
    report.spread(f"{told}, beside 1 MB", [each.stopped for each in beside], "ms", 1000)
    fair = report.fair(beside, [each.span for each in beside], hiccups)
    late = percentile([each.stopped for each in fair], 0.99) * 1000
    report.goal(
        "a stop reaches the engine over a link beside a prompt of 1 MB, p99 at most 3 ms",
        met=late <= 3,
        measured=f"{late:.2f} ms (n={len(fair)})",
    )


# -- through a gateway ----------------------------------------------------------------------------


async def steers(port: int, there: NodeProcess, count: int) -> list[Stopped]:
    done = []
    async with Redirecting.at(port) as client:
        for _ in range(count):
            began = await client.send("create", model=MODEL, input="go", store=False)
            target = (await client.until("response.created"))["response"]["id"]
            await client.deltas(20)
            sent = await client.send("steer", previous_response_id=target, input="elsewhere")
            receipt = await arrival(client, "response.steer.accepted")
            stopped = await asyncio.to_thread(there.stopped, target)
            done.append(Stopped(stopped - sent, receipt - sent, (began, max(stopped, receipt))))
            successor = (await client.until("response.created"))["response"]["id"]
            await client.send("interrupt", response_id=successor)
            await client.until("response.incomplete")
    return done


async def _ask_large(port: int, every: float) -> None:
    """A prompt of a megabyte every so many seconds, each a conversation of its own."""
    loop = asyncio.get_running_loop()
    due = loop.time()
    async with Client.at(port) as client:
        for number in itertools.count(1):
            text = f"{number} " + "x" * MEGABYTE
            await client.send("create", model=LARGE, input=text, store=False)
            while (event := await client.event())["type"] != "response.completed":
                if event["type"] in ("error", "response.failed"):
                    raise RuntimeError(json.dumps(event)[:500])
            due = max(due + every, loop.time())
            await asyncio.sleep(due - loop.time())


def _large(port: int, every: float) -> None:
    asyncio.run(_ask_large(port, every))


@contextlib.contextmanager
def large_prompts(port: int, a_second: float) -> Iterator[None]:
    """Meanwhile they go out, from a process of their own."""
    asking = multiprocessing.Process(target=_large, args=(port, 1 / a_second), daemon=True)
    asking.start()
    try:
        yield
        if not asking.is_alive():
            raise RuntimeError("the client with large prompts has ended")
    finally:
        asking.terminate()
        asking.join()


def steer(report: Report, options: Any) -> None:
    with on_a_node(PLAYED, notes=True) as (port, _, there):

        def run(count: int, large: bool) -> list[Stopped]:
            beside = large_prompts(port, options.large) if large else contextlib.nullcontext()
            with beside:
                return asyncio.run(steers(port, there, count))

        quiet, beside, _ = rounds(options.turns, run)
    for told, each in (("steer", quiet), (f"beside {options.large:g} of 1 MB/s, steer", beside)):
        stopped, receipts = ([getattr(one, what) for one in each] for what in _TIMES)
        report.spread(f"{told} to the engine's stop", stopped, "ms", 1000)
        report.spread(f"{told} to receipt", receipts, "ms", 1000)


_TIMES = ("stopped", "receipt")

"""A turn whose engine is killed in mid-answer: what is lost, and how long its client waits.

Two engines of one tier, a real model, a WebSocket. At a random word of each answer the process that
writes it is killed (``kill -9``). What was said must stay, the answer must go on at the other one
and end once, with the prompt and what was said as that one's prompt. The wait is compared with the
time that the other takes to a first token of as much text that it has never seen.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import os
import random
import statistics
import sys
import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import msgspec
import psutil
import uvicorn
from msgspec.structs import replace
from tests.support.ports import free_port

from bench._files import model, vllm_model, vllm_python
from bench._report import Report
from bench._socket import Client, Event
from vivace.config import Config
from vivace.conversation.deltas import Delta
from vivace.engines.base import Chat, Engine, Sampling, Work
from vivace.engines.llamacpp import LlamaCppEngine
from vivace.gateway.app import Gateway, uvicorn_config
from vivace.protocol.items import Message
from vivace.scheduling.placement import Breaker

NAME = "qwen2.5-coder-0.5b"
GOAL = 1.3
"""How many times a cold first token the client may wait, beside the time to find out."""
ANSWER = 100
TASKS = (
    "Write a Python class for a queue with a fixed capacity, with docstrings and type hints.",
    "Explain in some detail how a hash table grows, and what that costs.",
    "Write a function that parses an INI file without the standard library, and explain it.",
    "Tell how a text editor could store its buffer, with the merits of each way.",
)
TOOL = {
    "type": "function",
    "name": "read_file",
    "description": "Reads a file of the project.",
    "parameters": {"type": "object", "properties": {"path": {"type": "string"}}},
}


def engine_config(kind: str, number: int) -> dict[str, Any]:
    common = {"name": f"{kind}{number}", "kind": kind, "model": NAME, "context": 4096}
    if kind == "llamacpp":
        return common | {"path": str(model(NAME)), "slots": 1}
    arguments = {"enforce_eager": True, "max_num_seqs": 2, "block_size": 32, "dtype": "float32"}
    environment = {
        "HF_HUB_OFFLINE": "1",
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_CPU_OMP_THREADS_BIND": "0-1",
        "VLLM_LOGGING_LEVEL": "ERROR",
    }
    return common | {
        "path": str(vllm_model(NAME)),
        "slots": 2,
        "reserved": 0,
        "tool_parser": "hermes",
        "arguments": arguments,
        "environment": environment,
    }


class Watched:
    """An engine, with what it was asked and when."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.asked: list[tuple[float, Work]] = []
        self.prompts: list[list[int]] = []
        """As vLLM itself was given them."""
        self.killed = False
        self._generate = engine.generate
        engine.generate = self._noted  # type: ignore[method-assign]

    async def _noted(self, work: Work) -> AsyncGenerator[Delta, None]:
        self.asked.append((time.perf_counter(), work))
        self._note_prompts()
        async with contextlib.aclosing(self._generate(work)) as deltas:
            async for delta in deltas:
                yield delta

    def _note_prompts(self) -> None:
        core = getattr(self.engine, "_engine", None)
        if core is None or hasattr(core, "noted"):
            return
        generate, core.noted = core.generate, True

        def noted(asked: Any, *more: Any, **named: Any) -> Any:
            self.prompts.append(list(asked["prompt_token_ids"]))
            return generate(asked, *more, **named)

        core.generate = noted

    def kill(self) -> float:
        """With all that runs under it. It is not started again meanwhile: on one machine that would
        take the other's time."""
        self.engine._watching.cancel()  # type: ignore[attr-defined] # noqa: SLF001
        if isinstance(self.engine, LlamaCppEngine):
            pid = self.engine.pid
        else:
            core = self.engine._engine  # type: ignore[attr-defined] # noqa: SLF001
            [process] = core.engine_core.resources.engine_manager.processes
            pid = process.pid
        one = psutil.Process(pid)
        self.killed = True
        for each in (one, *one.children(recursive=True)):
            each.kill()
        return time.perf_counter()

    async def back(self) -> None:
        if self.killed:
            self.killed = False
            await self.engine.stop()
            await self.engine.start()
            await self.warm_up()

    async def warm_up(self) -> None:
        """Nobody's first question, which takes some engines longer than all others."""
        chat = Chat(items=(Message(role="user", content="Count to ten."),))
        work = Work(id="warm-up", model=NAME, prompt=chat, sampling=Sampling(max_tokens=8))
        async with contextlib.aclosing(self._generate(work)) as deltas:
            async for _ in deltas:
                pass

    async def first_token(self, work: Work) -> float:
        began = time.perf_counter()
        async with contextlib.aclosing(self._generate(work)) as deltas:
            async for _ in deltas:
                return time.perf_counter() - began
        raise AssertionError("it said nothing")


class Run(msgspec.Struct, frozen=True):
    found_out: float
    waited: float
    cold: float
    broken: tuple[str, ...]


async def one(
    client: Client, engines: list[Watched], dice: random.Random, number: int, *, tools: bool
) -> Run | None:
    for each in engines:
        each.asked.clear()
        each.prompts.clear()
    task = TASKS[number % len(TASKS)]
    more = {"tools": [TOOL]} if tools else {}
    await client.send(
        "create",
        instructions=_new_to_all(dice),
        input=task,
        model="pool",
        temperature=0,
        max_output_tokens=ANSWER,
        **more,
    )
    kill_at = dice.randrange(5, ANSWER - 30)
    events: list[Event] = []
    killed = resumed = 0.0
    before = 0
    while not events or not events[-1]["type"].endswith((".completed", ".incomplete", ".failed")):
        events.append(await client.event())
        if not events[-1]["type"].endswith(".delta"):
            continue
        count = sum(event["type"].endswith(".delta") for event in events)
        if count == kill_at:
            killed = next(each for each in engines if each.asked).kill()
            before = count
        elif killed and not resumed and any(len(each.asked) and _goes_on(each) for each in engines):
            resumed = time.perf_counter()
    if not killed:
        return None  # the answer was shorter than that
    if not resumed:
        return Run(0, 0, 0, (f"it did not go on: {events[-1]['response']['status']}",))
    second = next(each for each in engines if each.asked and _goes_on(each))
    asked, work = second.asked[-1]
    cold = await second.first_token(_unseen(work, dice))
    broken = tuple(_broken(events, engines, second, before))
    return Run(asked - killed, resumed - killed, cold, broken)


def _goes_on(engine: Watched) -> bool:
    return engine.asked[-1][1].said is not None


def _unseen(work: Work, dice: random.Random) -> Work:
    """As much to read, of which nothing is cached."""
    assert isinstance(work.prompt, Chat)
    assert work.said is not None
    chat = replace(work.prompt, instructions=_new_to_all(dice))
    said = replace(work.said, trace=None)
    return replace(work, id=f"cold-{dice.random()}", prompt=chat, said=said, parent_id=None)


def _new_to_all(dice: random.Random) -> str:
    """What a prompt begins with, so that nothing of it is in any cache."""
    return f"{dice.randrange(10**9, 10**10)} is your number. You are a helpful assistant."


def _broken(
    events: list[Event], engines: list[Watched], second: Watched, before: int
) -> Iterator[str]:
    response = events[-1]["response"]
    if response["status"] == "failed":
        yield f"failed: {response['error']}"
    ends = [e for e in events if e["type"].endswith((".completed", ".incomplete", ".failed"))]
    if len(ends) != 1:
        yield f"{len(ends)} ends"
    if [event["sequence_number"] for event in events] != list(range(len(events))):
        yield "a number is missing or comes twice"
    deltas = [e["delta"] for e in events if e["type"] == "response.output_text.delta"]
    texts = [
        part["text"]
        for item in response["output"]
        if item["type"] == "message"
        for part in item["content"]
    ]
    if "".join(deltas) != "".join(texts):
        yield "the output is not what was streamed"
    said = second.asked[-1][1].said
    assert said is not None
    if len(said.deltas) < before:
        yield f"{before} deltas were seen, and {len(said.deltas)} told to the other engine"
    first = next(each for each in engines if each is not second)
    if second.prompts and second.prompts[0] != first.prompts[0] + (said.ids or []):
        yield "the second prompt is not the first and what was said"
    usage = response["usage"]
    if not ANSWER * 0.9 <= usage["output_tokens"] <= ANSWER and response["status"] != "completed":
        yield f"{usage['output_tokens']} tokens counted of {ANSWER}"
    if usage["input_tokens"] > 400:
        yield f"{usage['input_tokens']} tokens of input: what was said was counted twice"


@contextlib.asynccontextmanager
async def served(kind: str) -> AsyncIterator[tuple[Gateway, int, list[Watched]]]:
    engines = [engine_config(kind, number) for number in range(2)]
    raw = {
        "version": 1,
        "server": {"port": free_port()},
        "store": {"path": ":memory:"},
        "engines": engines,
        "tiers": [{"name": "pool", "engines": [each["name"] for each in engines]}],
    }
    config = msgspec.convert(raw, Config)
    gateway = Gateway(config, Path.cwd())
    server = uvicorn.Server(uvicorn_config(gateway, config))
    async with gateway.running():
        serving = asyncio.create_task(server.serve())
        while not server.started:
            await asyncio.sleep(0.05)
        watched = [Watched(each) for each in gateway.catalogue.engines]
        for each in watched:
            await each.warm_up()
        yield gateway, config.server.port, watched
        server.should_exit = True
        await serving


def _forgive(gateway: Gateway) -> None:
    """So many deaths would shut an engine out for a while, as they should."""
    for known in gateway.dispatch._scheduler._engines.values():  # noqa: SLF001
        known.breaker = Breaker()


async def measured(report: Report, kind: str, kills: int, seed: int) -> None:
    dice = random.Random(seed)
    runs: list[Run] = []
    number = missed = 0
    async with served(kind) as (gateway, port, engines), Client.at(port) as client:
        while len(runs) < kills:
            number += 1
            run = await one(client, engines, dice, number, tools=kind == "vllm" and number % 2 == 1)
            missed += run is None
            if run is not None:
                runs.append(run)
                for problem in run.broken:
                    report.say(f"kill {len(runs)}", problem)
            for each in engines:
                await each.back()
            _forgive(gateway)
    report.say("answers that ended before their engine was to die", missed)
    good = [run for run in runs if not run.broken]
    report.say("kills", len(runs))
    report.goal(
        "everything said stays, one end, usage once",
        met=len(good) == len(runs),
        measured=f"{len(good)} of {len(runs)}",
    )
    report.spread("from the kill to another engine", [run.found_out for run in good], "ms", 1000)
    report.spread("from the kill to the next word", [run.waited for run in good], "ms", 1000)
    report.spread("cold first token of as much", [run.cold for run in good], "ms", 1000)
    shares = [(run.waited - run.found_out) / run.cold for run in good]
    report.goal(
        f"the next word within {GOAL} of a cold first token, behind finding out",
        met=statistics.median(shares) <= GOAL,
        measured=f"median {statistics.median(shares):.2f}, largest {max(shares):.2f}",
    )


def main() -> None:
    if "vllm" in sys.argv and importlib.util.find_spec("vllm") is None:
        root = Path(__file__).parents[1]
        os.environ["PYTHONPATH"] = f"{root}{os.pathsep}{root / 'src'}"
        python = str(vllm_python())
        os.execv(python, [python, "-m", "bench.failover", *sys.argv[1:]])
    report, options = Report.from_arguments(
        "failover",
        "engines killed in mid-answer",
        engine=("llamacpp", "which engine: llamacpp or vllm"),
        kills=(20, "how many"),
        seed=(1, "for the words at which they are killed"),
    )
    asyncio.run(measured(report, options.engine, options.kills, options.seed))
    report.end()


if __name__ == "__main__":
    main()

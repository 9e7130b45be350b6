"""What ``scripts/bench link`` runs in processes of their own.

``node CONFIG``: an engine node whose engines tell, on stdout, when their work was stopped: the id
of the turn and the time by ``time.perf_counter``, which all processes of a machine share. An engine
for large prompts reads none of them, as one whose model is in another process.
``alone RATE TOKENS``: a scripted engine that is read by nobody but the process it is in. For each
line with a number, so many streams at once; the answer is the CPU they took.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from pathlib import Path

from bench._linked import LARGE, MODEL
from vivace.config import load
from vivace.conversation.deltas import Delta, Finished, TextDelta, Tokens
from vivace.engine_config import EngineConfig
from vivace.engines.base import Card, Chat, Continues, Engine, Work
from vivace.engines.building import build_engine
from vivace.engines.messages import estimate_tokens
from vivace.engines.scripted import Capacity, Reply, Say, Script, ScriptedEngine
from vivace.node.app import new_loop, run_node
from vivace.protocol.items import Item, Message
from vivace.supervisor import Supervisor


class Noting:
    """An engine that tells when its work on something was over."""

    def __init__(self, inner: Engine) -> None:
        self.name, self.cards, self.continues = inner.name, inner.cards, inner.continues
        self.counts = inner.counts
        self.start, self.stop = inner.start, inner.stop
        self.healthy, self.running = inner.healthy, inner.running
        self.count, self.metrics = inner.count, inner.metrics
        self._inner = inner

    async def generate(self, work: Work) -> AsyncGenerator[Delta, None]:
        try:
            async with aclosing(self._inner.generate(work)) as deltas:
                async for delta in deltas:
                    yield delta
        finally:
            print(work.id, time.perf_counter(), flush=True)


class Unread:
    """An engine that says one word to a prompt of any size, and does not look at it."""

    continues: Continues = "no"
    counts = False

    def __init__(self, name: str, cards: Sequence[Card]) -> None:
        self.name = name
        self.cards = cards

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    def healthy(self) -> bool:
        return True

    def running(self) -> int:
        return 0

    def count(self, items: Sequence[Item], model: str) -> int:
        return estimate_tokens(items)

    def metrics(self) -> bytes:
        return b""

    async def generate(self, work: Work) -> AsyncGenerator[Delta, None]:
        yield TextDelta("yes", ids=(0,))
        yield Finished("stop", Tokens(1, 1))


def _build(config: EngineConfig, base: Path, supervisor: Supervisor) -> Engine:
    engine = build_engine(config, base, supervisor)
    return Unread(config.name, engine.cards) if config.name == LARGE else Noting(engine)


def _serve(path: Path) -> None:
    run_node(load(path), path.parent, build=_build)


# -- without a link -------------------------------------------------------------------------------


async def _read(engine: ScriptedEngine, number: int) -> None:
    items = [Message(role="user", content="go")]
    work = Work(id=f"r{number}", model=MODEL, prompt=Chat(items=items))
    async for _ in engine.generate(work):
        pass


async def _alone(rate: float, tokens: int) -> None:
    script = Script((Reply(then=(Say(" word", times=tokens),)),))
    engine = ScriptedEngine("alone", [Card(MODEL, 131_072)], script, Capacity(rate=rate))
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        streams = int(line)
        before = time.process_time()
        await asyncio.gather(*(_read(engine, number) for number in range(streams)))
        used = time.process_time() - before
        print(json.dumps({"cpu": used, "tokens": streams * tokens}), flush=True)


def main() -> None:
    what, *rest = sys.argv[1:]
    if what == "node":
        _serve(Path(rest[0]))
    else:
        with asyncio.Runner(loop_factory=new_loop) as runner:  # the node's
            runner.run(_alone(float(rest[0]), int(rest[1])))


if __name__ == "__main__":
    main()

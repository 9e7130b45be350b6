"""Whether conversations find their past in a data-parallel vLLM, whose ranks cache apart.

Conversations of several turns at once, on one rank, on two with the rank that we choose, and on two
with the one that vLLM does: how many tokens came from the cache. Starting two ranks takes minutes
and about 10 GB on a machine without a GPU. Needs the environment of scripts/install-vllm.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import os
import sys
from argparse import Namespace
from pathlib import Path

from bench._files import vllm_python
from bench._report import Report
from vivace.conversation.deltas import TextDelta
from vivace.engines.base import Chat, Engine, Sampling, Work
from vivace.protocol.items import Item, Message

_ENOUGH = 0.9
_ROOT = Path(__file__).parents[1]


async def _turn(engine: Engine, items: list[Item], name: str, owner: str, conversation: str) -> int:
    """Tokens that were cached; what is said becomes part of the conversation."""
    work = Work(
        id=f"resp_{name}",
        model=engine.cards[0].name,
        prompt=Chat(items=tuple(items)),
        sampling=Sampling(temperature=0, max_tokens=16),
        owner=owner,
        conversation=conversation,
    )
    text = "".join(
        [each.text async for each in engine.generate(work) if isinstance(each, TextDelta)]
    )
    items.append(Message(role="assistant", content=text))
    return work.tally.cached


async def _cached(engine: Engine, way: str, options: Namespace, *, chosen: bool) -> int:
    """All conversations at once, turn by turn. Each way has an owner of its own, and so no cache
    of another."""
    talks: list[list[Item]] = [[] for _ in range(options.conversations)]
    cached = 0
    for turn in range(options.turns):
        asked = []
        for number, items in enumerate(talks):
            question = f"Conversation {number}, question {turn}: " + "what is this for? " * 30
            items.append(Message(role="user", content=question))
            name = f"{way}_{number}_{turn}".replace(" ", "_")
            conversation = f"{way}/{number}" if chosen else ""
            asked.append(_turn(engine, items, name, way, conversation))
        cached += sum(await asyncio.gather(*asked))
    return cached


async def _measure(report: Report, options: Namespace) -> None:
    from tests.support.vllm import new_engine

    report.say("vllm", importlib.import_module("vllm").__version__)
    figures: dict[str, int] = {}
    for ranks, ways in (
        (1, {"one rank": False}),
        (2, {"two ranks, chosen by us": True, "two ranks, chosen by vLLM": False}),
    ):
        engine = new_engine(data_parallel_size=ranks)
        await engine.start()
        try:
            for way, chosen in ways.items():
                figures[way] = await _cached(engine, way, options, chosen=chosen)
                report.say(f"cached tokens, {way}", figures[way])
        finally:
            await engine.stop()
    one, ours, theirs = figures.values()
    report.goal(
        f"cached on two ranks: at least {_ENOUGH:g} of what one rank has",
        met=ours >= _ENOUGH * one,
        measured=f"{ours / max(1, one):.2f}; as vLLM chooses {theirs / max(1, one):.2f}",
    )


def main() -> None:
    if importlib.util.find_spec("vllm") is None:
        python, path = str(vllm_python()), os.pathsep.join((str(_ROOT / "src"), str(_ROOT)))
        command = [python, "-m", "bench.ranks", *sys.argv[1:]]
        os.execve(python, command, {**os.environ, "PYTHONPATH": path})
    report, options = Report.from_arguments(
        "ranks",
        "cached tokens in a data-parallel vLLM",
        conversations=(8, "at once"),
        turns=(5, "of each"),
    )
    asyncio.run(_measure(report, options))
    report.end()


if __name__ == "__main__":
    main()

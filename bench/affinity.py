"""Whether a conversation finds its node again when each of its turns comes by another gateway.

Conversations go on turn by turn, several at once, through two gateways with four engine nodes and
one PostgreSQL, three ways in turns on the same fleet:

two     every turn by the other gateway
one     all turns by the same gateway
chance  as two, but each turn has a prompt_cache_key of its own, so that nodes are chosen as if by
        lot: what a balancer does that knows nothing of conversations

At home is the node that rendezvous hashing gives the conversation. Where a turn ran its node says.
Engines are scripted and replay an answer; each simulates a prefix cache of its own, item by item,
and a prompt token that it has not read before counts as prefilled. No model is involved.
"""

from __future__ import annotations

import asyncio
import os
import random
from argparse import Namespace
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import httpx

from bench._fleet import ENGINE, Fleet, Span
from bench._report import Report, wilson
from vivace.config import LOCAL
from vivace.scheduling.placement import Ring

NODES = ("a", "b", "c", "d")
SLOTS = 16
RATE = 400
WAYS = ("two", "one", "chance")
HOME = 0.95
MOST = 1.1

_ANSWER = 40
_SCRIPT = f'[[replies]]\nthen = [{{ do = "say", text = " word", times = {_ANSWER} }}]\n'
_FIRST, _LATER = 4000, 1600
"""Characters of a conversation's first prompt, and of each that follows: about 4 a token."""
_PAUSE = 0.1
"""Seconds of thought between two turns, at most."""
_TRIES = 20


@dataclass(frozen=True)
class Turn:
    id: str
    read: int
    """Tokens of its prompt."""
    cached: int
    tries: int = 1
    """How often it was asked for until it was answered whole."""

    @property
    def prefilled(self) -> int:
        return self.read - self.cached


@dataclass
class Way:
    """What became of the conversations that went one way."""

    conversations: list[list[Turn]] = field(default_factory=list)

    @property
    def turns(self) -> int:
        return sum(map(len, self.conversations))

    @property
    def prefilled(self) -> int:
        return sum(turn.prefilled for turns in self.conversations for turn in turns)

    @property
    def read(self) -> int:
        return sum(turn.read for turns in self.conversations for turn in turns)


# -- conversations --------------------------------------------------------------------------------


def prompt(way: str, conversation: int, turn: int) -> str:
    """Of the same length, whichever way it goes; nobody has read it before."""
    size = _LATER if turn else _FIRST
    line = f"{way:>8} {conversation:04d} {turn:04d} "
    return (line * (size // len(line) + 1))[:size]


async def converse(
    gateways: Sequence[httpx.AsyncClient], way: str, number: int, turns: int
) -> list[Turn]:
    """One turn after the other, each by the next of the gateways."""
    dice = random.Random(f"{way} {number}")
    done: list[Turn] = []
    for turn in range(turns):
        body: dict[str, Any] = {"model": "fast", "input": prompt(way, number, turn), "store": True}
        if done:
            body["previous_response_id"] = done[-1].id
        if way == "chance":
            body["prompt_cache_key"] = f"{dice.getrandbits(64):016x}"
        gateway = gateways[(number + turn) % len(gateways)]
        done.append(await answered(gateway, body))
        await asyncio.sleep(dice.random() * _PAUSE)
    return done


async def answered(gateway: httpx.AsyncClient, body: dict[str, Any]) -> Turn:
    """On a machine that is busy, nodes are lost for a moment; who is told so asks again."""
    for number in range(1, _TRIES + 1):
        reply = await gateway.post("/v1/responses", json=body)
        answer = reply.json()
        if reply.is_success and answer["status"] == "completed":
            usage = answer["usage"]
            cached = usage["input_tokens_details"]["cached_tokens"]
            return Turn(answer["id"], usage["input_tokens"], cached, number)
        await asyncio.sleep(1)
    raise RuntimeError(f"a turn was not answered: {answer.get('error')}")


async def in_rounds(ports: Sequence[int], options: Namespace) -> dict[str, Way]:
    """So many conversations at once, of one way after the other, in an order that changes."""
    done = {way: Way() for way in WAYS}
    async with AsyncExitStack() as stack:
        clients = [
            await stack.enter_async_context(
                httpx.AsyncClient(
                    base_url=f"http://127.0.0.1:{port}",
                    timeout=120,
                    limits=httpx.Limits(max_connections=options.at_once),
                )
            )
            for port in ports
        ]
        for begin in range(0, options.conversations, options.at_once):
            numbers = range(begin, min(begin + options.at_once, options.conversations))
            first = begin // options.at_once % len(WAYS)
            for way in (*WAYS[first:], *WAYS[:first]):
                used = clients[:1] if way == "one" else clients
                talks = (converse(used, way, number, options.turns) for number in numbers)
                done[way].conversations += await asyncio.gather(*talks)
    return done


# -- where they ran -------------------------------------------------------------------------------


def home(conversation: Sequence[Turn]) -> str:
    """The node on which its past is to be: a conversation is named by its first turn."""
    ring = Ring({f"{ENGINE}@{node}": SLOTS for node in NODES})
    return ring.order(f"{LOCAL}/{conversation[0].id}")[0].partition("@")[2]


def at_home(way: Way, worked: Mapping[str, Sequence[Span]]) -> int:
    """How many turns were worked on at home, and nowhere else."""
    return sum(
        {span.node for span in worked[turn.id]} == {home(turns)}
        for turns in way.conversations
        for turn in turns
    )


def stayed(way: Way, worked: Mapping[str, Sequence[Span]]) -> tuple[int, int]:
    """How many turns ran where the one before them had, and how many could have."""
    places = [[worked[turn.id][-1].node for turn in turns] for turns in way.conversations]
    pairs = [pair for nodes in places for pair in pairwise(nodes)]
    return sum(one == other for one, other in pairs), len(pairs)


def per_node(ways: Iterable[Way], worked: Mapping[str, Sequence[Span]]) -> str:
    counts = dict.fromkeys(NODES, 0)
    for way in ways:
        for turns in way.conversations:
            for turn in turns:
                counts[worked[turn.id][-1].node] += 1
    return " ".join(f"{node} {count}" for node, count in counts.items())


# -- the verdict ----------------------------------------------------------------------------------

_TOLD = {"two": "two gateways", "one": "one gateway", "chance": "nodes by lot"}


def judge(report: Report, done: Mapping[str, Way], worked: Mapping[str, Sequence[Span]]) -> None:
    for name, told in _TOLD.items():
        way = done[name]
        found, (same, later) = at_home(way, worked), stayed(way, worked)
        low, high = wilson(found, way.turns)
        report.say(
            f"{told}: turns at home",
            f"{found} of {way.turns}, {found / way.turns:.1%} (95% interval {low:.1%} to "
            f"{high:.1%})",
        )
        report.say(f"{told}: turns where the last one was", f"{same} of {later}")
        report.say(f"{told}: tokens prefilled", f"{way.prefilled:,} of {way.read:,} read")
    report.say("at home if chosen at random, computed", f"{1 / len(NODES):.1%}")
    report.say("turns of all ways on each node", per_node(done.values(), worked))
    again = sum(
        turn.tries - 1 for way in done.values() for turns in way.conversations for turn in turns
    )
    report.say("turns that had to be asked for again", again)
    share = at_home(done["two"], worked) / done["two"].turns
    report.goal(
        f"two gateways: turns at home, at least {HOME:.0%}",
        met=share >= HOME,
        measured=f"{share:.1%} ({done['two'].turns} turns)",
    )
    ratio = done["two"].prefilled / done["one"].prefilled
    lot = done["chance"].prefilled / done["one"].prefilled
    report.goal(
        f"two gateways: tokens prefilled, at most {MOST:g} of one gateway's",
        met=ratio <= MOST,
        measured=f"{ratio:.3f} (nodes by lot: {lot:.2f})",
    )


def fleet(stack: ExitStack) -> Fleet:
    return Fleet(
        stack,
        NODES,
        _SCRIPT,
        engine={"rate": RATE, "slots": SLOTS},
        tables={"tiers": [{"name": "fast", "engines": [ENGINE]}]},
    )


def main() -> None:
    report, options = Report.from_arguments(
        "affinity",
        "conversations that change their gateway at every turn (scripted engines, simulated cache)",
        "asyncpg",
        "websockets",
        conversations=(40, "of each way"),
        turns=(10, "of each conversation"),
        at_once=(8, "conversations at the same time"),
    )
    report.say("load of the machine, per minute", f"{os.getloadavg()[0]:.1f}")
    report.say("gateways, nodes, slots of each", f"2, {len(NODES)}, {SLOTS}")
    report.say("conversations at once", options.at_once)
    with ExitStack() as stack:
        there = fleet(stack)
        done = asyncio.run(in_rounds([each.port for each in there.gateways], options))
        judge(report, done, there.worked())
    report.say("load of the machine at the end", f"{os.getloadavg()[0]:.1f}")
    report.end()


if __name__ == "__main__":
    main()

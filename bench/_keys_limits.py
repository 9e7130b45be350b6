"""Whether keys that ask two gateways for more than they may get what they may, and not more."""

from __future__ import annotations

import asyncio
from argparse import Namespace
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from math import ceil
from typing import Any

from tests.support.valkey import Valkey

from bench._fleet import GATEWAYS, Span
from bench._keys import (
    CONCURRENCY,
    INPUT,
    OUTPUT,
    REQUESTS,
    TEXT,
    TIERS,
    Asker,
    Passed,
    ask_on,
    fleet_of,
    listed,
)
from bench._report import Report

MINUTE = 60.0
ROUNDING = 1e-3
"""Of what may be charged: what rounding lets pass."""


@dataclass(frozen=True)
class Charge:
    """So much was charged at some time between these."""

    begin: float
    end: float
    amount: int


def fullest(charges: Sequence[Charge], limit: int, more: float = 0.0) -> float:
    """Of all spans of time, the one in which most was charged of what may be: the share of it.
    ``more`` may be charged once. All that surely lies in a span counts."""
    worst = 0.0
    for first in charges:
        inside = sorted((each.end, each.amount) for each in charges if each.begin >= first.begin)
        total = 0
        for end, amount in inside:
            total += amount
            worst = max(worst, total / (limit * (1 + (end - first.begin) / MINUTE) + more))
    return worst


def most_at_once(spans: Iterable[Span]) -> int:
    """How many were worked on at the same time."""
    changes = sorted(
        change for span in spans for change in ((span.began, 1), (span.ended, -1))
    )  # at one time, ends come first
    running = most = 0
    for _, change in changes:
        running += change
        most = max(most, running)
    return most


def charged(tier: str, passed: Sequence[Passed]) -> list[Charge]:
    used = {"input": "input_tokens", "output": "output_tokens"}.get(tier)
    return [Charge(each.asked, each.created, each.usage[used] if used else 1) for each in passed]


@dataclass(frozen=True)
class Asked:
    """What a key got of each tier, while it asked for more."""

    passed: Mapping[str, Sequence[Passed]]
    seconds: float
    codes: Counter[str] = field(default_factory=Counter)
    """Of what was refused, or failed."""


async def ask_for_more(ports: Sequence[int], seconds: float, clients: int) -> Asked:
    limited = ("requests", "input", "output", "few")
    here = asyncio.Barrier(len(limited) * len(ports) * clients)

    def turn(tier: str, client: Asker) -> Any:
        asked = "few" if tier == "few" else "short"
        # What it may write is more than it does: the rest is given back when it has ended.
        return client.turn(tier, asked.ljust(TEXT, "."), max_output_tokens=30)

    found = await asyncio.gather(
        *(
            ask_on(port, f"key-{tier}", partial(turn, tier), seconds, here)
            for tier in limited
            for port in ports
            for _ in range(clients)
        )
    )
    each = len(ports) * clients
    turns = {
        tier: [turn for some in found[each * at : each * (at + 1)] for turn in some]
        for at, tier in enumerate(limited)
    }
    passed = {
        tier: [turn for turn in some if isinstance(turn, Passed)] for tier, some in turns.items()
    }
    codes = Counter(turn for some in turns.values() for turn in some if isinstance(turn, str))
    times = [(turn.asked, turn.created) for some in passed.values() for turn in some]
    begun, ended = min(asked for asked, _ in times), max(created for _, created in times)
    return Asked(passed, ended - begun, codes)


def judge_rates(report: Report, asked: Asked, losses: int) -> None:
    for tier, limit, what in (
        ("requests", REQUESTS, "requests"),
        ("input", INPUT, "input tokens"),
        ("output", OUTPUT, "output tokens"),
    ):
        charges = charged(tier, asked.passed[tier])
        total = sum(each.amount for each in charges)
        share = total / (limit * (1 + asked.seconds / MINUTE))
        report.say(
            f"{what}: limit a minute, and got in {asked.seconds:.0f} s",
            f"{limit:,}; {total:,} in {len(charges)} turns, {share:.0%} of what may be",
        )
        worst = fullest(charges, limit, more=losses * ceil(limit / GATEWAYS))
        report.goal(
            f"{what} through both gateways: in no span of time more than the limit",
            met=worst <= 1 + ROUNDING,
            measured=_measured(fullest(charges, limit), worst, losses),
        )
        report.goal(
            f"{what}: and the key gets at least 90% of it",
            met=share >= 0.9,
            measured=f"{share:.0%}",
        )


def _measured(exact: float, worst: float, losses: int) -> str:
    told = f"at most {exact:.1%} of it"
    return f"{told}, {worst:.1%} with what {losses} losses let pass" if losses else told


def judge_losses(report: Report, losses: int) -> None:
    """With some, limits are judged by more than they are, and many of them show nothing."""
    report.goal(
        "limits are exact: no gateway lost Valkey meanwhile",
        met=not losses,
        measured=f"{losses} losses",
    )


def judge_concurrency(report: Report, spans: Sequence[Span], losses: int) -> None:
    most = most_at_once(spans)
    report.goal(
        f"turns of a key at once, by both gateways: at most {CONCURRENCY}, and as many",
        met=CONCURRENCY <= most <= CONCURRENCY + losses * ceil(CONCURRENCY / GATEWAYS),
        measured=f"{most} ({len(spans)} turns)",
    )


def limits(report: Report, valkey: Valkey, options: Namespace) -> None:
    owners = [f"key-{tier}" for tier in TIERS]
    with ExitStack() as stack:
        fleet = fleet_of(stack, valkey, owners, rate=400, slots=64)
        before = fleet.losses
        ports = [each.port for each in fleet.gateways]
        asked = asyncio.run(ask_for_more(ports, options.seconds, options.clients))
        losses = fleet.losses - before
        worked = fleet.worked()
    judge_losses(report, losses)
    report.say("limits: refused or failed", listed(asked.codes))
    judge_rates(report, asked, losses)
    spans = [span for turn in asked.passed["few"] for span in worked[turn.id]]
    judge_concurrency(report, spans, losses)

"""Tiers: what a client may name as its model, and which of them ``auto`` means.

The rules of ``auto`` are a table, read from the top; the first that applies decides, and the
response says which it was.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec import Struct

from vivace.errors import TooManyRequests, Unavailable
from vivace.scheduling.limits import Limits
from vivace.scheduling.queue import Kind

__all__ = [
    "AUTO",
    "RULES",
    "Ask",
    "Rule",
    "Tier",
    "begins_too_late",
    "deserted",
    "kind_of",
    "queue_full",
    "route",
]

AUTO = "auto"


class Tier(Struct, frozen=True, kw_only=True):
    name: str
    engines: tuple[str, ...]
    spill: bool = False
    """Use the first engine that has room, in their order, rather than spreading conversations."""
    limits: Limits = Limits()
    queue: int = 256
    """How many may wait before one that comes; so a key that has filled the queue alone leaves
    others their share."""
    first_token: float | None = None
    """Seconds; a turn that would wait longer is refused at once rather than late."""
    grows: bool = False
    """Engine nodes may join it, so that one which lost its last engine may get another."""


def deserted(tier: str) -> Unavailable:
    """What is said of a tier that has no engine."""
    return Unavailable(
        f"No engine node that offers '{tier}' is connected; try again in a moment. If it stays so, "
        "/readyz and the log of this server say which are missing.",
        code="engine_unavailable",
        retry_after=1,
    )


def queue_full(tier: Tier, seconds: float) -> TooManyRequests:
    """What is said where as many wait as may. ``seconds``: how long one more would."""
    return TooManyRequests(
        f"{tier.queue} turns wait for '{tier.name}' already; try again later.",
        code="queue_full",
        retry_after=max(1.0, seconds),
    )


def begins_too_late(tier: Tier, seconds: float) -> TooManyRequests:
    """What is said where one would wait for so many seconds, which is longer than it may."""
    target = tier.first_token or 0.0
    return TooManyRequests(
        f"'{tier.name}' would begin after about {seconds:.0f} s, and its target is {target:g} s; "
        "try again later.",
        code="would_wait_too_long",
        retry_after=max(1.0, seconds - target),
    )


class Ask(Struct, frozen=True, kw_only=True):
    """What is known of a request before it runs."""

    fill: bool = False
    steered: bool = False
    foretold: bool = False
    """It says what its answer will mostly be: an edit, which costs about what changes."""
    background: bool = False
    tools: bool = False
    input_tokens: int = 0
    """All that the model has to read, cached or not."""
    new_tokens: int = 0
    max_tokens: int | None = None
    effort: str | None = None
    failed_before: bool = False
    """The turn it continues failed, or was cut off by its limit."""


class Rule(Struct, frozen=True):
    applies: Callable[[Ask], bool]
    tier: str
    reason: str


LONG = 16_000

RULES: tuple[Rule, ...] = (
    Rule(lambda ask: ask.fill, "fast", "a completion at the cursor"),
    Rule(lambda ask: ask.failed_before, "deep", "the turn before it did not succeed"),
    Rule(lambda ask: ask.effort in ("high", "xhigh"), "deep", "much reasoning was asked for"),
    Rule(lambda ask: ask.input_tokens > LONG, "deep", f"more than {LONG:,} tokens to read"),
    Rule(lambda ask: ask.background, "deep", "nobody waits for it"),
    Rule(lambda ask: True, "fast", "nothing asked for more"),
)


def route(ask: Ask, tiers: Mapping[str, Tier]) -> tuple[Tier, str]:
    """Which tier ``auto`` means for this request, and why."""
    for rule in RULES:
        if rule.tier in tiers and rule.applies(ask):
            return tiers[rule.tier], rule.reason
    tier = next(iter(tiers.values()))
    return tier, "there is no other tier"


SHORT_QUESTION, SHORT_ANSWER = 2_000, 1_024


def kind_of(ask: Ask) -> Kind:
    """How urgent it is: whether somebody is looking at the place where it will appear."""
    if ask.background:
        return "background"
    if ask.fill or ask.steered:
        return "interactive"
    answer = 0 if ask.foretold else ask.max_tokens or LONG
    short = ask.new_tokens <= SHORT_QUESTION and answer <= SHORT_ANSWER
    return "interactive" if short and not ask.tools else "agent"

"""Which tier ``auto`` means, and how urgent a request is: two tables, walked row by row."""

from __future__ import annotations

from typing import Any

import pytest

from vivace.scheduling.tiers import LONG, RULES, Ask, Tier, kind_of, route

TIERS = {name: Tier(name=name, engines=(name,)) for name in ("fast", "deep")}


@pytest.mark.parametrize(
    ("known", "tier", "why"),
    [
        ({}, "fast", "nothing asked for more"),
        ({"fill": True, "input_tokens": 10 * LONG}, "fast", "cursor"),
        ({"failed_before": True}, "deep", "did not succeed"),
        ({"effort": "high"}, "deep", "reasoning"),
        ({"effort": "low"}, "fast", "nothing"),
        ({"input_tokens": LONG + 1}, "deep", "to read"),
        ({"input_tokens": LONG}, "fast", "nothing"),
        ({"background": True}, "deep", "nobody waits"),
    ],
)
def test_auto_decides_by_the_first_rule_that_applies(
    known: dict[str, Any], tier: str, why: str
) -> None:
    chosen, reason = route(Ask(**known), TIERS)
    assert chosen.name == tier
    assert why in reason


def test_every_rule_can_decide_and_gives_its_reason() -> None:
    reasons = {rule.reason for rule in RULES}
    assert len(reasons) == len(RULES)
    assert RULES[-1].applies(Ask())


@pytest.mark.parametrize("only", ["fast", "deep"])
def test_a_tier_that_is_not_there_is_not_chosen(only: str) -> None:
    for known in ({}, {"effort": "high"}, {"fill": True}):
        assert route(Ask(**known), {only: TIERS[only]})[0].name == only


@pytest.mark.parametrize(
    ("known", "kind"),
    [
        ({"fill": True}, "interactive"),
        ({"steered": True, "tools": True}, "interactive"),
        ({"new_tokens": 100, "max_tokens": 200}, "interactive"),
        ({"new_tokens": 100, "max_tokens": 200, "tools": True}, "agent"),
        ({"new_tokens": 100}, "agent"),
        ({"new_tokens": 100, "max_tokens": 4000, "foretold": True}, "interactive"),
        ({"new_tokens": 9000, "foretold": True}, "agent"),
        ({"new_tokens": 9000, "max_tokens": 200}, "agent"),
        ({"fill": True, "background": True}, "background"),
    ],
)
def test_how_urgent_a_request_is(known: dict[str, Any], kind: str) -> None:
    assert kind_of(Ask(**known)) == kind

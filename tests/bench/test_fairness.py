"""The benchmark of limits and fairness: what it counts, and that it finds too much of anything."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import ExitStack

import pytest
from bench._fleet import Span
from bench._keys import CONCURRENCY, REQUESTS, TIERS, Passed, fleet_of
from bench._keys_killed import judge_kill
from bench._keys_limits import (
    Asked,
    Charge,
    ask_for_more,
    fullest,
    judge_concurrency,
    judge_losses,
    judge_rates,
    most_at_once,
)
from bench._keys_shares import GREEDY, MODEST, judge_shares
from bench._report import Report

from tests.support.valkey import Valkey


def report() -> Report:
    return Report("fairness", check=True, path=None)


def test_keys_that_ask_both_gateways_for_more_get_what_they_may() -> None:
    valkey = Valkey()
    try:
        with ExitStack() as stack:
            fleet = fleet_of(stack, valkey, [f"key-{tier}" for tier in TIERS], rate=2000, slots=64)
            ports = [each.port for each in fleet.gateways]
            asked = asyncio.run(ask_for_more(ports, 2.0, 4))
            losses, worked = fleet.losses, fleet.worked()
    finally:
        valkey.stop()
    for tier, passed in asked.passed.items():
        assert passed, tier
        assert {turn.usage["output_tokens"] for turn in passed} == {20}
        assert all(turn.id in worked for turn in passed)
    judged = report()
    judge_rates(judged, asked, losses)
    assert not [each for each in judged.missed if "more than the limit" in each]
    few = [span for turn in asked.passed["few"] for span in worked[turn.id]]
    assert 1 <= most_at_once(few) <= CONCURRENCY + losses * CONCURRENCY


# -- what is counted ------------------------------------------------------------------------------


def test_a_minutes_burst_and_what_time_gives_back_is_all_that_may_be_charged() -> None:
    burst = [Charge(0.0, 0.1, 60)]
    assert fullest([*burst, Charge(29.9, 30.0, 30)], 60) == pytest.approx(1.0, abs=0.01)
    assert fullest([*burst, Charge(29.9, 30.0, 40)], 60) > 1.1
    assert fullest([*burst, Charge(29.9, 30.0, 40)], 60, more=30) < 1
    late = [Charge(100.0, 100.1, 60), Charge(100.2, 100.3, 6)]
    assert fullest([*burst, *late], 60) == pytest.approx(66 / 60.3)


def test_a_charge_counts_only_where_it_surely_was() -> None:
    """Asked before a span of time, it may have been charged before it."""
    assert fullest([Charge(-60.0, 0.2, 60), Charge(0.0, 0.1, 60)], 60) < 1.01


def test_one_that_begins_as_another_ends_is_not_beside_it() -> None:
    spans = [Span("a", 0.0, 1.0), Span("b", 1.0, 2.0), Span("a", 1.5, 3.0)]
    assert most_at_once(spans) == 2
    assert most_at_once([]) == 0


# -- what is judged -------------------------------------------------------------------------------


def asked_for(requests: int, tokens: int) -> Asked:
    """All in the first second."""
    usage = {"input_tokens": 5 * tokens, "output_tokens": tokens}
    passed = [Passed(str(number), 0.0, 1.0, 2.0, usage) for number in range(requests)]
    return Asked({"requests": passed, "input": passed, "output": passed}, 1.0)


@pytest.mark.parametrize(
    ("requests", "tokens", "losses", "missed"),
    [
        (REQUESTS, 20, 0, 0),
        (2 * REQUESTS, 10, 0, 1),
        (2 * REQUESTS, 10, 2, 0),
        (REQUESTS, 22, 0, 2),
        (REQUESTS, 17, 0, 2),
    ],
)
def test_more_than_a_limit_is_found_and_so_is_a_key_that_gets_less(
    requests: int, tokens: int, losses: int, missed: int
) -> None:
    judged = report()
    judge_rates(judged, asked_for(requests, tokens), losses)
    assert len(judged.missed) == missed


@pytest.mark.parametrize(
    ("turns", "losses", "missed"),
    [
        (CONCURRENCY, 0, 0),
        (CONCURRENCY + 1, 0, 1),
        (CONCURRENCY + 1, 1, 0),
        (CONCURRENCY - 1, 0, 1),
    ],
)
def test_turns_at_once_must_be_as_many_as_the_limit_and_no_more(
    turns: int, losses: int, missed: int
) -> None:
    judged = report()
    judge_concurrency(judged, [Span("a", 0.0, 1.0)] * turns, losses)
    assert len(judged.missed) == missed


def test_a_run_in_which_gateways_counted_alone_shows_no_limit() -> None:
    for losses in (0, 1):
        judged = report()
        judge_losses(judged, losses)
        assert len(judged.missed) == losses


def test_a_key_that_keeps_less_than_the_others_misses_the_goal() -> None:
    alike = Counter(dict.fromkeys((*MODEST, GREEDY), 1000))
    for least, missed in ((900, 0), (890, 1)):
        judged = report()
        judge_shares(judged, alike, alike + Counter({GREEDY: 500, MODEST[3]: least - 1000}))
        assert len(judged.missed) == missed


def test_a_turn_that_is_counted_too_long_misses_the_goal() -> None:
    for seconds, whole, missed in ((30.0, 31.0, 0), (61.0, 31.0, 1), (30.0, 61.0, 1)):
        judged = report()
        judge_kill(judged, [29.0, seconds], [31.0, whole])
        assert len(judged.missed) == missed

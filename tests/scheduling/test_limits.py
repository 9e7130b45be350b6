"""Limits: what passes, what is refused and for how long, and what is given back."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.scheduling.limits_suite import GRAIN, Book, LimitsSuite, ask, refusal
from vivace.scheduling.limits import Ledger, Limits, advance, remaining, wait

limits_of_any_size = st.integers(1, 100_000)
moments = st.floats(0, 1e7)


class TestLedger(LimitsSuite):
    @pytest.fixture
    def book(self) -> Callable[[], Book]:
        return Ledger


# -- one limit ------------------------------------------------------------------------------------


@given(limits_of_any_size, moments, st.lists(st.tuples(st.floats(0, 90), st.floats(0, 1))))
def test_no_window_lets_more_pass_than_a_minutes_worth_and_the_rate(
    limit: int, now: float, steps: list[tuple[float, float]]
) -> None:
    arrival = 0.0
    passed: list[tuple[float, int]] = []
    for gap, share in steps:
        now += gap
        amount = int(share * limit)
        if not wait(arrival, 60 * amount / limit, now):
            arrival = advance(arrival, 60 * amount / limit, now)
            passed.append((now, amount))
    for first, (begin, _) in enumerate(passed):
        total = 0
        for end, amount in passed[first:]:
            total += amount
            assert total <= limit + limit / 60 * (end - begin + GRAIN)


@given(st.integers(1, 2000), moments)
def test_a_whole_minutes_worth_passes_at_once_one_by_one_and_then_nothing(
    limit: int, now: float
) -> None:
    ledger, limits = Ledger(), Limits(requests_per_minute=limit)
    for _ in range(limit):
        ask(ledger, limits, now=now)
    refusal(ledger, limits, now=now)


@given(limits_of_any_size, moments, st.floats(0, 59), st.floats(0, 1), st.floats(0, 1))
def test_the_wait_is_enough_and_hardly_more(
    limit: int, now: float, later: float, first: float, second: float
) -> None:
    amount = int(second * limit)
    cost = 60 * amount / limit
    arrival = advance(0.0, 60 * int(first * limit) / limit, now)
    now += later
    seconds = wait(arrival, cost, now)
    assert wait(arrival, cost, now + seconds) == 0
    if seconds > GRAIN:
        assert wait(arrival, cost, now + seconds - GRAIN) > 0


@given(limits_of_any_size, moments, st.floats(-60, 200))
def test_what_is_said_to_remain_passes_and_one_more_does_not(
    limit: int, now: float, ahead: float
) -> None:
    arrival = now + ahead
    left = remaining(arrival, limit, now)
    assert 0 <= left <= limit
    assert left == 0 or wait(arrival, 60 * left / limit, now) < GRAIN
    assert wait(arrival, 60 * (left + 1) / limit + GRAIN, now) > 0


# -- memory ---------------------------------------------------------------------------------------


def test_who_is_idle_is_forgotten_and_who_runs_or_owes_is_not() -> None:
    ledger, limits = Ledger(), Limits(requests_per_minute=10, output_tokens_per_minute=1)
    runs = ask(ledger, limits, owner="runs")
    owes = ask(ledger, limits, owner="owes")
    ledger.settle(owes, input_tokens=0, output_tokens=1_000_000, now=0)
    for number in range(1000):
        now = 60.0 * number
        passing = ask(ledger, limits, owner=str(number), now=now)
        ledger.settle(passing, input_tokens=0, output_tokens=0, now=now)
    assert len(ledger) < 10
    ledger.settle(runs, input_tokens=0, output_tokens=0, now=now)
    refusal(ledger, limits, owner="owes", tokens=(0, 1), now=now)


def test_one_long_request_does_not_make_all_others_be_remembered() -> None:
    ledger, limits = Ledger(), Limits(requests_per_minute=60)
    ask(ledger, limits)
    for now in range(1000):
        ledger.settle(ask(ledger, limits, now=now), input_tokens=0, output_tokens=0, now=now)
    meters = ledger._accounts["me", "fast"].meters
    assert max(len(meter._spent) for meter in meters) == 2


def test_a_refused_stranger_leaves_no_trace() -> None:
    ledger = Ledger()
    refusal(ledger, Limits(concurrency=0))
    assert len(ledger) == 0

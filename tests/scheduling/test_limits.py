"""Limits: what passes, what is refused and for how long, and what is given back."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.support.examples import examples
from vivace.errors import TooManyRequests
from vivace.scheduling.limits import Charge, Ledger, Limits, advance, headers, remaining, wait

GRAIN = 1e-3
amounts = st.integers(0, 400)
limits_of_any_size = st.integers(1, 100_000)
moments = st.floats(0, 1e7)


def ask(
    ledger: Ledger,
    limits: Limits,
    *,
    owner: str = "me",
    tier: str = "fast",
    tokens: tuple[int, int] = (0, 0),
    now: float = 0.0,
) -> Charge:
    return ledger.charge(
        owner, tier, limits, input_tokens=tokens[0], output_tokens=tokens[1], now=now
    )


def refusal(ledger: Ledger, limits: Limits, **asked: object) -> TooManyRequests:
    with pytest.raises(TooManyRequests) as caught:
        ask(ledger, limits, **asked)  # type: ignore[arg-type]
    assert caught.value.code == "rate_limit_exceeded"
    return caught.value


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


# -- refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limits", "tokens", "named"),
    [
        (Limits(requests_per_minute=1), (1, 1), "1 requests a minute"),
        (Limits(input_tokens_per_minute=9), (8, 99), "9 input tokens a minute"),
        (Limits(output_tokens_per_minute=9), (99, 8), "9 output tokens a minute"),
        (Limits(concurrency=1), (99, 99), "1 requests at a time"),
    ],
)
def test_a_refusal_names_what_was_too_much_and_is_nobody_elses(
    limits: Limits, tokens: tuple[int, int], named: str
) -> None:
    ledger = Ledger()
    ask(ledger, limits, tokens=tokens)
    refused = refusal(ledger, limits, tokens=tokens)
    assert named in refused.message
    assert "'fast'" in refused.message
    assert refused.retry_after
    ask(ledger, limits, owner="you", tokens=tokens)
    ask(ledger, limits, tier="slow", tokens=tokens)


@pytest.mark.parametrize(
    ("limits", "tokens", "named"),
    [
        (Limits(input_tokens_per_minute=9), (10, 0), "10 input tokens"),
        (Limits(output_tokens_per_minute=9), (0, 10), "10 output tokens"),
        (Limits(requests_per_minute=0), (0, 0), "1 requests"),
    ],
)
def test_what_can_never_pass_is_told_so_and_not_to_come_again(
    limits: Limits, tokens: tuple[int, int], named: str
) -> None:
    refused = refusal(Ledger(), limits, tokens=tokens)
    assert named in refused.message
    assert "never" in refused.message
    assert refused.retry_after is None


def test_the_slowest_limit_says_when_to_come_again() -> None:
    ledger = Ledger()
    limits = Limits(requests_per_minute=60, input_tokens_per_minute=60, output_tokens_per_minute=60)
    ask(ledger, limits, tokens=(50, 30))
    refused = refusal(ledger, limits, tokens=(30, 60))
    assert refused.retry_after == pytest.approx(30)
    assert "output tokens" in refused.message
    assert "30s" in refused.message
    ask(ledger, limits, tokens=(30, 60), now=30)


def test_the_end_of_a_request_makes_room_for_another() -> None:
    ledger, limits = Ledger(), Limits(concurrency=2)
    first, _ = ask(ledger, limits), ask(ledger, limits)
    refusal(ledger, limits)
    for _ in range(3):  # only the first counts
        ledger.settle(first, input_tokens=0, output_tokens=0, now=1)
    ask(ledger, limits, now=1)
    refusal(ledger, limits, now=1)


# -- settling -------------------------------------------------------------------------------------


def test_what_was_used_beyond_the_estimate_is_a_debt() -> None:
    ledger, limits = Ledger(), Limits(output_tokens_per_minute=60)
    charge = ask(ledger, limits, tokens=(0, 10))
    ledger.settle(charge, input_tokens=0, output_tokens=150, now=0)
    assert headers(ledger.windows("me", "fast", limits, 0))["x-ratelimit-remaining-tokens"] == "0"
    assert headers(ledger.windows("me", "fast", limits, 0))["x-ratelimit-reset-tokens"] == "2m30s"
    assert refusal(ledger, limits, tokens=(0, 1)).retry_after == pytest.approx(91)
    assert refusal(ledger, limits).retry_after == pytest.approx(90)
    ask(ledger, limits, tokens=(0, 1), now=91)


def test_the_clock_and_settling_do_not_both_give_back_the_same() -> None:
    ledger, limits = Ledger(), Limits(output_tokens_per_minute=60)
    long = ask(ledger, limits, tokens=(0, 60))
    ask(ledger, limits, tokens=(0, 60), now=60)
    ledger.settle(long, input_tokens=0, output_tokens=0, now=60)
    refusal(ledger, limits, tokens=(0, 1), now=60)


# -- headers --------------------------------------------------------------------------------------


def test_without_a_rate_there_are_no_headers() -> None:
    ledger = Ledger()
    ask(ledger, Limits(concurrency=3))
    assert headers(ledger.windows("me", "fast", Limits(concurrency=3), 0)) == {}


def test_headers_are_as_openai_sends_them() -> None:
    ledger = Ledger()
    limits = Limits(requests_per_minute=5000, input_tokens_per_minute=160_000)
    ask(ledger, limits, tokens=(4000, 0))
    assert headers(ledger.windows("me", "fast", limits, 0)) == {
        "x-ratelimit-limit-requests": "5000",
        "x-ratelimit-remaining-requests": "4999",
        "x-ratelimit-reset-requests": "12ms",
        "x-ratelimit-limit-tokens": "160000",
        "x-ratelimit-remaining-tokens": "156000",
        "x-ratelimit-reset-tokens": "1.5s",
    }


@pytest.mark.parametrize(
    ("tokens", "limit", "left"), [((0, 0), 10, 10), ((50, 0), 100, 50), ((50, 6), 10, 4)]
)
def test_of_input_and_output_the_scarcer_is_told(
    tokens: tuple[int, int], limit: int, left: int
) -> None:
    ledger = Ledger()
    limits = Limits(input_tokens_per_minute=100, output_tokens_per_minute=10)
    ask(ledger, limits, tokens=tokens)
    told = headers(ledger.windows("me", "fast", limits, 0))
    assert told["x-ratelimit-limit-tokens"] == str(limit)
    assert told["x-ratelimit-remaining-tokens"] == str(left)
    assert "x-ratelimit-limit-requests" not in told


@pytest.mark.parametrize(
    ("used", "told"),
    [(0, "0s"), (1, "1ms"), (20, "20ms"), (1000, "1s"), (59_999, "59.999s"), (60_000, "1m0s")],
)
def test_a_duration_reads_as_openai_writes_it(used: int, told: str) -> None:
    ledger, limits = Ledger(), Limits(input_tokens_per_minute=60_000)
    ask(ledger, limits, tokens=(used, 0))
    assert headers(ledger.windows("me", "fast", limits, 0))["x-ratelimit-reset-tokens"] == told


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


# -- in any order ---------------------------------------------------------------------------------

# One of each is worth 1, 0.25 and 4 seconds, and time goes by quarters: sums are exact.
RATES = (60, 240, 15)
LIMITS = Limits(
    requests_per_minute=60,
    input_tokens_per_minute=240,
    output_tokens_per_minute=15,
    concurrency=6,
)
PLACES = [("me", "fast"), ("me", "slow"), ("you", "fast")]
Used = tuple[int, int, int]


class Law:
    """The law itself, read aloud: no window has more than a minute's worth and the rate."""

    def __init__(self) -> None:
        self.used: list[tuple[float, Used]] = []
        self.running = 0

    def room(self, kind: int, now: float) -> float:
        rate, room, total = RATES[kind], float(RATES[kind]), 0
        for at, used in reversed(self.used):
            total += used[kind]
            room = min(room, rate + rate * (now - at) / 60 - total)
        return room

    def allows(self, asked: Used, now: float) -> bool:
        return all(amount <= self.room(kind, now) for kind, amount in enumerate(asked))


class Traffic(RuleBasedStateMachine):
    """A ledger beside the law, which knows what each request used from the day it was charged."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1000.0
        self.ledger = Ledger()
        self.laws = {place: Law() for place in PLACES}
        self.open: list[tuple[Charge, Law, int]] = []
        self.settled: list[Charge] = []

    def told(self) -> list[dict[str, str]]:
        return [headers(self.ledger.windows(*place, LIMITS, self.now)) for place in PLACES]

    @rule(quarters=st.integers(1, 300))
    def time_goes_by(self, quarters: int) -> None:
        self.now += quarters / 4

    @rule(place=st.sampled_from(PLACES), tokens=st.tuples(st.integers(0, 250), st.integers(0, 16)))
    def charge(self, place: tuple[str, str], tokens: tuple[int, int]) -> None:
        law, asked, before = self.laws[place], (1, *tokens), self.told()
        try:
            charge = ask(
                self.ledger, LIMITS, owner=place[0], tier=place[1], tokens=tokens, now=self.now
            )
        except TooManyRequests as refused:
            assert self.told() == before
            self.is_right(refused, law, asked)
            return
        assert law.allows(asked, self.now)
        assert law.running < 6
        law.running += 1
        law.used.append((self.now, asked))
        self.open.append((charge, law, len(law.used) - 1))

    def is_right(self, refused: TooManyRequests, law: Law, asked: Used) -> None:
        if refused.retry_after is None:
            assert any(amount > rate for amount, rate in zip(asked, RATES, strict=True))
        elif "at a time" in refused.message:
            assert law.running == 6
        else:
            assert law.allows(asked, self.now + refused.retry_after + 1e-9)
            assert not law.allows(asked, self.now + refused.retry_after - GRAIN)

    @precondition(lambda self: self.open)
    @rule(
        which=st.integers(0, 1000),
        shares=st.tuples(st.sampled_from([0, 0.5, 1, 2]), st.sampled_from([0, 0.5, 1, 2])),
    )
    def settle(self, which: int, shares: tuple[float, float]) -> None:
        charge, law, index = self.open.pop(which % len(self.open))
        at, (_, *estimates) = law.used[index]
        used = [int(share * each) for share, each in zip(shares, estimates, strict=True)]
        self.ledger.settle(charge, input_tokens=used[0], output_tokens=used[1], now=self.now)
        law.running -= 1
        least = [min(pair) for pair in zip(used, estimates, strict=True)]
        law.used[index] = (at, (1, least[0], least[1]))
        law.used.append((self.now, (0, used[0] - least[0], used[1] - least[1])))
        self.settled.append(charge)

    @precondition(lambda self: self.settled)
    @rule(which=st.integers(0, 1000), tokens=amounts)
    def settle_again(self, which: int, tokens: int) -> None:
        before = self.told()
        charge = self.settled[which % len(self.settled)]
        self.ledger.settle(charge, input_tokens=tokens, output_tokens=tokens, now=self.now)
        assert self.told() == before

    @invariant()
    def what_is_left_is_what_the_law_leaves(self) -> None:
        for law, told in zip(self.laws.values(), self.told(), strict=True):
            rooms = {rate: law.room(kind, self.now) for kind, rate in enumerate(RATES)}
            assert int(told["x-ratelimit-remaining-requests"]) == max(0, int(rooms.pop(60)))
            scarcer = min(rooms, key=lambda rate: (rooms[rate] / rate, rate))
            assert told["x-ratelimit-limit-tokens"] == str(scarcer)
            assert int(told["x-ratelimit-remaining-tokens"]) == max(0, int(rooms[scarcer]))
            assert re.fullmatch(r"(\d+m)?[\d.]+s|\d+ms", told["x-ratelimit-reset-tokens"])


TestAnyOrder = Traffic.TestCase
TestAnyOrder.settings = settings(deadline=None, max_examples=examples(100), stateful_step_count=40)

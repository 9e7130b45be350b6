"""What whoever counts against limits must do, whoever it is: what passes, what is refused and for
how long, and what is given back."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Protocol

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.support.examples import examples
from vivace.errors import TooManyRequests
from vivace.scheduling.limits import Limits, Window, headers

GRAIN = 1e-3


class Book(Protocol):
    """A ledger, or something that is used like one."""

    def charge(
        self,
        owner: str,
        tier: str,
        limits: Limits,
        *,
        input_tokens: int,
        output_tokens: int,
        now: float,
    ) -> Any: ...

    def settle(self, charge: Any, *, input_tokens: int, output_tokens: int, now: float) -> None: ...

    def windows(self, owner: str, tier: str, limits: Limits, now: float) -> list[Window]: ...


def ask(
    ledger: Book,
    limits: Limits,
    *,
    owner: str = "me",
    tier: str = "fast",
    tokens: tuple[int, int] = (0, 0),
    now: float = 0.0,
) -> Any:
    return ledger.charge(
        owner, tier, limits, input_tokens=tokens[0], output_tokens=tokens[1], now=now
    )


def refusal(ledger: Book, limits: Limits, **asked: object) -> TooManyRequests:
    with pytest.raises(TooManyRequests) as caught:
        ask(ledger, limits, **asked)  # type: ignore[arg-type]
    assert caught.value.code == "rate_limit_exceeded"
    return caught.value


class LimitsSuite:
    """Each subclass has a fixture ``book``, which makes an empty one."""

    @pytest.fixture
    def ledger(self, book: Callable[[], Book]) -> Book:
        return book()

    def test_in_any_order_what_passes_is_what_the_law_lets_pass(
        self, book: Callable[[], Book]
    ) -> None:
        machine = type("Traffic", (Traffic,), {"book": staticmethod(book)})
        run_state_machine_as_test(
            machine,
            settings=settings(deadline=None, max_examples=examples(100), stateful_step_count=40),
        )

    @pytest.mark.parametrize("limit", [1, 7, 60, 1000])
    def test_a_minutes_worth_passes_at_once_and_then_nothing(
        self, ledger: Book, limit: int
    ) -> None:
        limits = Limits(requests_per_minute=limit)
        for _ in range(limit):
            ask(ledger, limits, now=1e7)
        refusal(ledger, limits, now=1e7)

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
        self, ledger: Book, limits: Limits, tokens: tuple[int, int], named: str
    ) -> None:
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
        self, ledger: Book, limits: Limits, tokens: tuple[int, int], named: str
    ) -> None:
        refused = refusal(ledger, limits, tokens=tokens)
        assert named in refused.message
        assert "never" in refused.message
        assert refused.retry_after is None

    def test_the_slowest_limit_says_when_to_come_again(self, ledger: Book) -> None:
        limits = Limits(
            requests_per_minute=60, input_tokens_per_minute=60, output_tokens_per_minute=60
        )
        ask(ledger, limits, tokens=(50, 30))
        refused = refusal(ledger, limits, tokens=(30, 60))
        assert refused.retry_after == pytest.approx(30)
        assert "output tokens" in refused.message
        assert "30s" in refused.message
        ask(ledger, limits, tokens=(30, 60), now=30)

    def test_the_end_of_a_request_makes_room_for_another(self, ledger: Book) -> None:
        limits = Limits(concurrency=2)
        first, _ = ask(ledger, limits), ask(ledger, limits)
        refusal(ledger, limits)
        for _ in range(3):  # only the first counts
            ledger.settle(first, input_tokens=0, output_tokens=0, now=1)
        ask(ledger, limits, now=1)
        refusal(ledger, limits, now=1)

    def test_what_was_used_beyond_the_estimate_is_a_debt(self, ledger: Book) -> None:
        limits = Limits(output_tokens_per_minute=60)
        charge = ask(ledger, limits, tokens=(0, 10))
        ledger.settle(charge, input_tokens=0, output_tokens=150, now=0)
        assert (
            headers(ledger.windows("me", "fast", limits, 0))["x-ratelimit-remaining-tokens"] == "0"
        )
        assert (
            headers(ledger.windows("me", "fast", limits, 0))["x-ratelimit-reset-tokens"] == "2m30s"
        )
        assert refusal(ledger, limits, tokens=(0, 1)).retry_after == pytest.approx(91)
        assert refusal(ledger, limits).retry_after == pytest.approx(90)
        ask(ledger, limits, tokens=(0, 1), now=91)

    def test_the_clock_and_settling_do_not_both_give_back_the_same(self, ledger: Book) -> None:
        limits = Limits(output_tokens_per_minute=60)
        long = ask(ledger, limits, tokens=(0, 60))
        ask(ledger, limits, tokens=(0, 60), now=60)
        ledger.settle(long, input_tokens=0, output_tokens=0, now=60)
        refusal(ledger, limits, tokens=(0, 1), now=60)

    def test_without_a_rate_there_are_no_headers(self, ledger: Book) -> None:
        ask(ledger, Limits(concurrency=3))
        assert headers(ledger.windows("me", "fast", Limits(concurrency=3), 0)) == {}

    def test_headers_are_as_openai_sends_them(self, ledger: Book) -> None:
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
        self, ledger: Book, tokens: tuple[int, int], limit: int, left: int
    ) -> None:
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
    def test_a_duration_reads_as_openai_writes_it(self, ledger: Book, used: int, told: str) -> None:
        limits = Limits(input_tokens_per_minute=60_000)
        ask(ledger, limits, tokens=(used, 0))
        assert headers(ledger.windows("me", "fast", limits, 0))["x-ratelimit-reset-tokens"] == told


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

    book: Callable[[], Book]
    """A new one."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1000.0
        self.ledger = self.book()
        self.laws = {place: Law() for place in PLACES}
        self.open: list[tuple[Any, Law, int]] = []
        self.settled: list[Any] = []

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
    @rule(which=st.integers(0, 1000), tokens=st.integers(0, 400))
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

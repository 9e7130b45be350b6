"""What scheduling costs when many wait: the same as when few do.

Counted in instructions of Python, which no other process on the machine can change, and in bytes
of memory, because a copy made in C counts as one instruction however long it is.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from tests.support.counting import instructions
from vivace.errors import TooManyRequests
from vivace.scheduling.limits import Ledger, Limits
from vivace.scheduling.queue import Job
from vivace.scheduling.scheduler import Outcome, Room, Scheduler, Started
from vivace.scheduling.tiers import Tier

FEW, MANY = 10, 10_000


def job(number: int | str, owner: str) -> Job:
    return Job(
        id=f"j{number}",
        owner=owner,
        tier="t",
        kind="agent",
        place=f"p{number}",
        cost=10.0,
        since=0.0,
    )


class Crowd:
    """One turn runs, and one of each owner waits."""

    def __init__(self, owners: int, queue: int | None = None) -> None:
        tier = Tier(name="t", engines=("e",), queue=owners if queue is None else queue)
        self.scheduler = Scheduler([tier], {"e": Room(1)})
        first = self.scheduler.submit(job("first", "first"), 0.0)
        assert isinstance(first, Started)
        self.running = first
        self.jobs = [job(number, f"owner {number}") for number in range(owners)]
        for each in self.jobs:
            self.scheduler.submit(each, 0.0)
        self.numbers = iter(range(1_000_000, 2_000_000))

    def refuse(self) -> None:
        number = next(self.numbers)
        with suppress(TooManyRequests):
            self.scheduler.submit(job(number, f"stranger {number}"), 0.1)
            raise AssertionError("it was not refused")

    def take_and_leave(self) -> None:
        number = next(self.numbers)
        late = job(number, f"stranger {number}")
        self.scheduler.submit(late, 0.1)
        self.scheduler.withdraw(late)

    def finish(self) -> None:
        """The next one starts, and another comes."""
        (self.running,) = self.scheduler.finished(self.running.job, 0.1, Outcome(cost=12.0))
        number = next(self.numbers)
        self.scheduler.submit(job(number, f"stranger {number}"), 0.1)

    def look(self) -> None:
        self.scheduler.waiting(self.jobs[-1], 0.1)


ACTS: dict[str, Callable[[Crowd], None]] = {
    "a refusal": Crowd.refuse,
    "coming and leaving": Crowd.take_and_leave,
    "finishing": Crowd.finish,
    "a look at one's place": Crowd.look,
}


def crowd(act: str, owners: int) -> Crowd:
    made = Crowd(owners, owners if act == "a refusal" else 2 * MANY)
    for _ in range(3):
        ACTS[act](made)  # what is looked at a few times a second has been looked at
    return made


def memory(work: Callable[[], object]) -> int:
    """Return the bytes that ``work`` allocates at most at one moment."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("act", ACTS)
def test_ten_thousand_owners_make_nothing_dearer_than_ten(act: str) -> None:
    few, many = crowd(act, FEW), crowd(act, MANY)
    assert instructions(lambda: ACTS[act](many)) <= 2 * instructions(lambda: ACTS[act](few))
    more = memory(lambda: ACTS[act](many)) - memory(lambda: ACTS[act](few))
    assert more < MANY  # bytes; a copy of a list has eight for each owner


def test_the_shared_look_grows_with_those_that_wait_and_not_with_their_square() -> None:
    def look(owners: int) -> int:
        made = crowd("finishing", owners)
        return instructions(lambda: made.scheduler.waiting(made.jobs[-1], 9.0))

    assert look(800) <= 2.5 * look(400)


def test_filling_the_queue_is_not_quadratic() -> None:
    assert instructions(lambda: Crowd(800)) <= 2.5 * instructions(lambda: Crowd(400))


@pytest.mark.parametrize("limits", [Limits(), Limits(requests_per_minute=10**9)])
def test_a_key_with_many_open_requests_is_refused_as_cheaply_as_one_with_few(
    limits: Limits,
) -> None:
    def refuse(open_requests: int) -> int:
        ledger = Ledger()

        def charge() -> Any:
            return ledger.charge("me", "t", limits, input_tokens=1, output_tokens=1, now=1.0)

        for _ in range(open_requests):
            charge()
        refused = charge()
        return instructions(
            lambda: ledger.settle(refused, input_tokens=0, output_tokens=0, now=1.0)
        )

    assert refuse(4000) <= refuse(4)

"""Predicted waits: told from what has been, without knowing how long answers are."""

from __future__ import annotations

import heapq
import random
from statistics import mean

import pytest

from vivace.scheduling.waits import Waits


def test_without_experience_nothing_is_claimed() -> None:
    assert Waits().estimate(5, [1.0], 1) == 0.0


def test_equal_turns_are_predicted_exactly() -> None:
    waits = Waits()
    for _ in range(20):
        waits.ended(2.0)
    assert waits.estimate(0, [0.5, 1.5], 2) == 0.5
    assert waits.estimate(2, [0.5, 1.5], 2) == 2.5


def test_what_has_run_long_is_expected_to_run_on() -> None:
    waits = Waits()
    for seconds in [1.0] * 90 + [100.0] * 10:
        waits.ended(seconds)
    assert waits.estimate(0, [0.0], 1) <= 1.0
    assert waits.estimate(0, [50.0], 1) == 50.0


def test_far_back_in_the_queue_it_costs_no_more_to_tell() -> None:
    waits = Waits()
    for _ in range(100):
        waits.ended(1.0)
    assert abs(waits.estimate(10_000, [0.5] * 10, 10) - 1000) < 10


@pytest.mark.release
def test_on_heavy_tails_it_is_closer_than_a_running_mean() -> None:
    dice = random.Random(3)
    slots, ours, theirs = 8, [], []
    waits, seen = Waits(), [1.0]
    ends: list[tuple[float, float]] = []
    for _ in range(slots):
        took = dice.paretovariate(1.5)
        heapq.heappush(ends, (took, 0.0))
    queue: list[tuple[float, float, float]] = []
    now = 0.0
    for _ in range(3000):
        now, began = heapq.heappop(ends)
        waits.ended(now - began)
        seen.append(now - began)
        if queue:
            told, plain, since = queue.pop(0)
            if now - since > 0.2:
                ours.append(abs(told - (now - since)))
                theirs.append(abs(plain - (now - since)))
        heapq.heappush(ends, (now + dice.paretovariate(1.5), now))
        while len(queue) < 20:
            running = [now - start for _, start in ends]
            told = waits.estimate(len(queue), running, slots)
            plain = (len(queue) + 1) * mean(seen[-256:]) / slots
            queue.append((told, plain, now))
    assert mean(ours[500:]) < mean(theirs[500:])

"""The picture of one answer that loses its node and its gateway: what it shows, and when it is not
drawn."""

from __future__ import annotations

import pytest
from chaos.fleet.picture import paused, received, wrong
from chaos.history import Entry, Saw


def answer(count: int, kind: str = "response.completed") -> list[Entry]:
    told: list[Entry] = [
        Saw(10 + 0.02 * index, "reader", {"type": "response.output_text.delta", "delta": text})
        for index, text in enumerate(f" m1.{index}@n1.a1" for index in range(count))
    ]
    return [*told, Saw(99, "reader", {"type": kind})]


def test_the_curve_counts_the_tokens_that_arrived() -> None:
    points = received(answer(3), 9.5)
    assert [count for _, count in points] == [0, 1, 2, 3]
    assert [seconds for seconds, _ in points] == pytest.approx([0, 0.5, 0.52, 0.54])


def test_a_pause_is_the_longest_time_without_a_token_from_the_loss_on() -> None:
    points = [(0.0, 0), (1.9, 1), (1.99, 2), (2.01, 3), (2.4, 4), (3.1, 5), (9.0, 6)]
    assert paused(points, 2.0) == pytest.approx(0.7)
    assert paused(points, 2.005) == pytest.approx(0.7)
    assert paused([(0.0, 0), (1.0, 1)], 2.0) == 0


def test_nothing_is_drawn_of_an_answer_that_is_not_whole() -> None:
    whole = answer(300)
    assert wrong(whole) is None
    assert wrong(answer(299)) is not None
    assert wrong(answer(300, "response.failed")) is not None
    assert wrong([*whole[:100], *whole[99:]]) is not None
    assert wrong([]) is not None

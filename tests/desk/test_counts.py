"""Counts: times to a tenth, sums, and what is taken out of them."""

from __future__ import annotations

import pytest

from vivace.desk.counts import Counts


def waits(*seconds: float) -> Counts:
    counts = Counts()
    for each in seconds:
        counts.answered(each, remembered=False)
    return counts


@pytest.mark.parametrize("seconds", [0.001, 0.02, 0.3, 1.0, 7.5, 60.0])
def test_a_time_is_known_to_a_tenth(seconds: float) -> None:
    known = waits(seconds).wait_of(0.5)
    assert known is not None
    assert seconds <= known * 1.000001
    assert known <= seconds * 1.1


def test_half_and_nine_tenths_are_told_apart() -> None:
    counts = waits(*[0.1] * 8, 1.0, 5.0)
    assert counts.wait_of(0.5) == pytest.approx(0.1, rel=0.11)
    assert counts.wait_of(0.9) == pytest.approx(1.0, rel=0.11)


def test_what_was_remembered_was_not_waited_for() -> None:
    counts = Counts()
    counts.answered(0.001, remembered=True)
    assert counts.remembered == 1
    assert counts.wait_of(0.5) is None


def test_sums_are_of_everything() -> None:
    one, other = waits(0.1, 0.1), waits(0.1, 3.0)
    one.keys, other.keys, other.kept = 3, 4, 1
    one.add(other)
    assert (one.keys, one.kept, sum(one.waits.values())) == (7, 1, 4)
    assert one.wait_of(1.0) == pytest.approx(3.0, rel=0.11)


def test_what_is_taken_is_here_no_more_and_counting_goes_on() -> None:
    counts = waits(0.1)
    counts.offered = 2
    taken = counts.take()
    counts.answered(5.0, remembered=False)
    assert (taken.offered, sum(taken.waits.values())) == (2, 1)
    assert (counts.offered, sum(counts.waits.values())) == (0, 1)

"""What is set aside when the machine stands still, and what is not."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from bench._hiccups import Hiccups, watched
from bench._report import Report

from bench import _hiccups


def test_samples_that_overlap_a_hiccup_are_set_aside() -> None:
    hiccups = Hiccups([(10.0, 11.0), (20.0, 21.0)])
    spans = [(9.0, 10.0), (9.0, 10.5), (10.2, 10.3), (9.0, 30.0), (11.0, 20.0), (21.0, 22.0)]

    assert hiccups.outside("abcdef", spans) == ["a", "e", "f"]


class Naps:
    """Takes the place of ``time``: each nap ends as late as it is told; the last one ends all."""

    def __init__(self, late: list[float], end: Callable[[], None]) -> None:
        self._late = late
        self._end = end
        self._now = 0.0

    def perf_counter(self) -> float:
        return self._now

    def sleep(self, seconds: float) -> None:
        self._now += seconds + self._late.pop(0)
        if not self._late:
            self._end()


def test_a_nap_that_ends_late_is_a_hiccup(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = multiprocessing.Pipe()
    naps = Naps([0.0, 0.009, 0.2, 0.0], lambda: ours.send(None))
    monkeypatch.setattr(_hiccups, "time", naps)
    monkeypatch.setattr("os.sched_setaffinity", lambda pid, processors: None)
    _hiccups._sleep(0, theirs)
    [(start, end)] = ours.recv()
    assert (start, end) == pytest.approx((0.011, 0.212))


def test_sleepers_watch_each_processor_until_the_block_ends() -> None:
    others = multiprocessing.active_children()
    with watched():
        sleepers = [each for each in multiprocessing.active_children() if each not in others]
    assert len(sleepers) == len(os.sched_getaffinity(0))
    assert not any(each.is_alive() for each in sleepers)


def test_too_few_samples_are_a_goal_missed(tmp_path: Path) -> None:
    report = Report("x", check=True, path=tmp_path / "figures.json")
    hiccups = Hiccups([(0.0, 2.5)])
    spans = [(float(number), number + 1.0) for number in range(52)]

    with pytest.raises(SystemExit) as ended:
        report.fair([1.0] * 52, spans, hiccups)

    assert ended.value.code == 1
    assert report.missed

"""What is set aside when the machine stands still, and what is not."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import psutil
import pytest
from bench._hiccups import Hiccups, watched
from bench._report import Report


def test_samples_that_overlap_a_hiccup_are_set_aside() -> None:
    hiccups = Hiccups([(10.0, 11.0), (20.0, 21.0)])
    spans = [(9.0, 10.0), (9.0, 10.5), (10.2, 10.3), (9.0, 30.0), (11.0, 20.0), (21.0, 22.0)]

    assert hiccups.outside("abcdef", spans) == ["a", "e", "f"]


def test_a_sleeper_that_was_woken_late_is_a_hiccup() -> None:
    others = psutil.Process().children()
    with watched() as hiccups:
        time.sleep(0.3)
        sleeper = next(each for each in psutil.Process().children() if each not in others)
        stopped = time.perf_counter()
        sleeper.send_signal(signal.SIGSTOP)
        time.sleep(0.1)
        sleeper.send_signal(signal.SIGCONT)
        resumed = time.perf_counter()
        time.sleep(0.1)

    assert any(since < stopped + 0.05 and until > resumed - 0.05 for since, until in hiccups.spans)


def test_work_of_ours_on_every_processor_is_no_hiccup() -> None:
    """What is measured may be busy: that must not excuse it. The machine has hiccups of its own."""
    assert min(_late_beside(work=1.0) - _late_beside(work=0.0) for _ in range(3)) < 0.1


def _late_beside(*, work: float) -> float:
    """Seconds that the sleepers were late in a second with so much work on every processor."""
    with watched() as hiccups:
        until = time.perf_counter() + 1.0
        children = []
        for _ in range(os.cpu_count() or 1):
            if not (pid := os.fork()):
                while time.perf_counter() < until - 1.0 + work:
                    pass
                os._exit(0)
            children.append(pid)
        for pid in children:
            os.waitpid(pid, 0)
        time.sleep(max(0.0, until - time.perf_counter()))
    return sum(end - start for start, end in hiccups.spans)


def test_too_few_samples_are_a_goal_missed(tmp_path: Path) -> None:
    report = Report("x", check=True, path=tmp_path / "figures.json")
    hiccups = Hiccups([(0.0, 2.5)])
    spans = [(float(number), number + 1.0) for number in range(52)]

    with pytest.raises(SystemExit) as ended:
        report.fair([1.0] * 52, spans, hiccups)

    assert ended.value.code == 1
    assert report.missed

from __future__ import annotations

import json
from pathlib import Path

import pytest
from bench._report import Report, difference_of, ratio_of, wilson


def test_a_ratio_and_a_difference_are_of_medians_and_lie_in_their_intervals() -> None:
    ours, theirs = [4.0, 5.0, 6.0, 50.0, 5.0], [1.0, 2.0, 2.0, 2.0, 3.0]
    for found, whole in ((ratio_of(ours, theirs), 2.5), (difference_of(ours, theirs), 3.0)):
        middle, low, high = found
        assert middle == whole
        assert low <= middle <= high


def test_samples_that_are_all_alike_leave_no_doubt() -> None:
    assert difference_of([3.0] * 9, [1.0] * 9) == (2.0, 2.0, 2.0)


@pytest.mark.parametrize(("more", "met"), [(0.001, True), (0.003, False)])
def test_a_goal_for_a_difference_is_told_in_milliseconds(
    tmp_path: Path, more: float, *, met: bool
) -> None:
    report = Report("a", check=True, path=tmp_path / "figures.json")
    report.difference_goal("late against early", [0.010 + more] * 9, [0.010] * 9, 2)
    assert report.missed == ([] if met else ["late against early: at most 2 ms more"])
    if met:
        report.end()
    else:
        with pytest.raises(SystemExit):
            report.end()
    [goal] = json.loads((tmp_path / "figures.json").read_text())["goals"].values()
    assert goal["met"] is met
    assert goal["measured"].startswith(f"{1000 * more:+.2f} ms")


def test_a_goal_is_missed_only_when_its_whole_interval_is_on_the_wrong_side() -> None:
    report = Report("a", check=False, path=None)
    report.difference_goal("a against b", [0.001, 0.009, 0.009], [0.0, 0.0, 0.0], 2)
    assert not report.missed


def test_an_interval_of_a_share_is_wide_where_little_was_counted() -> None:
    few, many = wilson(5, 10), wilson(500, 1000)
    assert few == pytest.approx((0.237, 0.763), abs=0.001)
    assert few[0] < many[0] < 0.5 < many[1] < few[1]
    assert wilson(0, 10) == pytest.approx((0.0, 0.278), abs=0.001)
    assert wilson(0, 0) == (0.0, 1.0)

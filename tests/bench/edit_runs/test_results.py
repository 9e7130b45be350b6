"""Results are kept, a run goes on from them, and goals are read off them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from bench._report import Report
from bench.edit_runs.results import Done, Result, Results, result_of
from bench.edit_runs.tables import goals, tell
from bench.edit_runs.tasks import Task

MODEL = "a-0.5b"


def result(number: int, outcome: Any = "right", arm: str = "vivace", **more: Any) -> Result:
    fields: dict[str, Any] = {
        "task": f"task-{number}",
        "set": "made up",
        "language": "python",
        "kinds": ("one place", "fix"),
        "expect": "edit",
        "arm": arm,
        "model": MODEL,
        "outcome": outcome,
        "cause": None if outcome == "right" else "model",
        "why": "",
        "codes": (),
        "seconds": 1.0,
        "tokens": 10,
        "requests": 1,
        "regions": ((1, 2),),
        "region_right": True,
        "changed": 2,
        "reference": 2,
        "diff": "",
    }
    return Result(**{**fields, **more})


def results_of(right: int, wrong: int, arm: str = "vivace", **more: Any) -> list[Result]:
    outcomes = ["right"] * right + ["wrong"] * wrong
    return [result(number, outcome, arm, **more) for number, outcome in enumerate(outcomes)]


def missed(results: list[Result], model: str = MODEL, *, whole: bool = True) -> list[str]:
    report = Report("a", check=True, path=None)
    goals(report, results, model, whole=whole)
    return report.missed


def test_a_run_goes_on_from_what_stands_in_its_file(tmp_path: Path, negative: Task) -> None:
    path = tmp_path / "results.jsonl"
    first = Results(path, MODEL)
    kept = result_of(
        negative, "vivace", MODEL, Done(negative.text, 1.0, 0, 1, codes=("unchanged",))
    )
    first.add(kept)
    again = Results(path, MODEL)
    assert again.has(negative, "vivace")
    assert not again.has(negative, "oracle")
    assert not Results(path, "another").has(negative, "vivace")
    assert again.of([negative], ["oracle", "vivace"]) == [kept]


def test_what_shows_the_wrong_lines_is_at_fault_for_the_place(negative: Task) -> None:
    refused = Done(negative.text, 1.0, 5, 2, codes=("syntax",), regions=())
    assert result_of(negative, "vivace", MODEL, refused).cause == "place"


def test_a_way_without_regions_is_not_blamed_for_them(negative: Task) -> None:
    refused = Done(negative.text, 1.0, 5, 1, codes=("unfit",))
    assert result_of(negative, "rewrite", MODEL, refused).cause == "check"


def test_the_tables_tell_counts_shares_and_causes(capsys: pytest.CaptureFixture[str]) -> None:
    report = Report("a", check=False, path=None)
    stopped = result(9, "stopped", cause="check", codes=("syntax", "unbound"))
    tell(report, [*results_of(3, 1), stopped, *results_of(1, 3, "rewrite")])
    told = capsys.readouterr().out
    assert report.figures["outcomes"]["vivace"]["right"] == 3
    assert report.figures["by kind"]["fix"]["rewrite"]["wrong"] == 3
    assert "3 60% (23-88)" in told
    assert "3/1/0/1  60% (23-88)" in told
    assert "check (syntax+unbound), stopped 1" in told
    assert "3 and 1 of 4; with vivace alone 2" in told


def test_a_whole_set_must_reach_the_goals() -> None:
    assert missed(results_of(20, 80)) == []
    assert missed(results_of(19, 81)) == ["right: at least 20%"]
    assert missed(results_of(54, 46), "a-1.5b") == ["right: at least 55%", "wrong: at most 20%"]
    assert missed(results_of(0, 5, region_right=False), "b") == ["right regions: at least 85%"]


def test_a_sample_misses_a_goal_only_when_it_is_out_of_reach() -> None:
    assert missed(results_of(1, 11), whole=False) == []
    assert missed(results_of(0, 40), whole=False) == ["right: at least 20%"]


def test_knowing_the_place_may_not_be_worth_much_more() -> None:
    ours = results_of(17, 3)
    assert missed([*ours, *results_of(18, 2, "oracle")]) == []
    [goal] = missed([*ours, *results_of(20, 0, "oracle")])
    assert "told the place" in goal


def test_edits_may_not_grow() -> None:
    [goal] = missed(results_of(9, 0, changed=3))
    assert "changed lines" in goal


def test_nothing_tried_is_no_success() -> None:
    assert missed([]) == ["there is something to count"]

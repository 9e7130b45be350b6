"""A run over tasks and arms: everything once, in a mixed order, until its time is over."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

import pytest
from bench._edit_engine import Endpoint, Reply, TooLong
from bench.edit_quality import arms_of, jobs_for, ran
from bench.edit_runs.results import Results
from bench.edit_runs.tasks import Task

from bench.edit_sets import BadSet
from tests.bench.edit_runs.cache_task import BOUNDARY
from tests.support.server import MODEL


class Scripted(Endpoint):
    """Says the same to everybody, or that it is too long."""

    def __init__(self, said: str | None) -> None:
        super().__init__("http://127.0.0.1:1", MODEL)
        self.said = said

    def ask(self, items: object, prediction: str, most: int) -> Reply:
        if self.said is None and most > 1:
            raise TooLong("the model takes 10 tokens")
        return Reply(self.said or "", 1.0, 10, complete=True)


@pytest.fixture
def task() -> Task:
    return BOUNDARY


def options(minutes: float = 0) -> Namespace:
    return Namespace(minutes=minutes, at_once=2)


def outcome(said: str | None, task: Task, arm: str = "rewrite") -> str:
    results = Results(None, MODEL)
    ran(Scripted(said), [(task, arm)], results, options())
    [result] = results.of([task], [arm])
    return f"{result.outcome} {result.cause} {'+'.join(result.codes)}".strip()


def test_plain_answers_are_judged_in_the_same_words(task: Task) -> None:
    right = f"```python\n{task.reference}```"
    assert outcome(right, task) == "right None"
    assert outcome(right.replace("class Entry", "class Item"), task) == "damaged model"
    assert outcome(f"```python\n{task.text}```", task) == "stopped model unchanged"
    assert outcome("```python\ndef (```", task) == "stopped check syntax"
    assert outcome("no idea", task, "search_replace") == "stopped check unfit"
    assert outcome(None, task) == "stopped check cannot be asked"


def test_what_is_done_is_not_done_again(tmp_path: Path, task: Task) -> None:
    results = Results(tmp_path / "results.jsonl", MODEL)
    assert jobs_for([task], ["rewrite", "region"], results) == [(task, "rewrite"), (task, "region")]
    ran(Scripted("no idea"), [(task, "rewrite")], results, options())
    again = Results(tmp_path / "results.jsonl", MODEL)
    assert jobs_for([task], ["rewrite", "region"], again) == [(task, "region")]


def test_an_arm_is_left_out_where_it_has_no_meaning(task: Task) -> None:
    jobs = jobs_for([task], ["vivace", "oracle", "try"], Results(None, MODEL))
    assert [arm for _, arm in jobs] == ["vivace", "oracle"]


def test_nothing_is_begun_after_its_time(task: Task) -> None:
    results = Results(None, MODEL)
    ran(Scripted("no idea"), [(task, "rewrite")], results, options(minutes=-1))
    assert results.of([task], ["rewrite"]) == []


def test_an_unknown_arm_is_refused() -> None:
    with pytest.raises(BadSet, match="No arm is called guess; there are vivace"):
        arms_of(Namespace(arms="vivace,guess"))

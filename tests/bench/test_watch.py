"""Seeded bugs are what FORMAT.md says, and a run of them is judged by what no model sees."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from bench.watch import chosen, rank, watched
from bench.watch_sets import PROJECTS, BadSet, Task, broken, invalid, read, right

from tests.support.server import MODEL, RunningGateway
from vivace.engines.base import Work
from vivace.engines.scripted import Reply, Say
from vivace.syntax.source import Source

FRESH = read(PROJECTS.parent / "fresh")
TASKS = [*read(), *FRESH]
BY_ID = {task.id: task for task in TASKS}


@pytest.mark.parametrize("tasks", [read(), FRESH], ids=["projects", "fresh"])
def test_there_are_enough_of_each_language(tasks: list[Task]) -> None:
    counts = Counter(task.language for task in tasks)
    assert sum(counts.values()) >= 30
    assert set(counts) == {"python", "javascript", "c", "rust", "go"}
    assert min(counts.values()) >= 4


@pytest.mark.parametrize("task", TASKS, ids=BY_ID)
def test_a_bug_is_one_change_of_one_file_that_is_no_test(task: Task) -> None:
    changed = [name for name in task.right if task.right[name] != task.wrong[name]]
    assert changed == [task.file]
    assert "test" not in task.file
    assert Source.of(task.file, task.right[task.file]).errors == []


@pytest.mark.parametrize("task", TASKS, ids=BY_ID)
def test_what_is_hidden_is_not_in_the_project(task: Task) -> None:
    assert not set(task.hidden_files) & set(task.wrong)
    for name, text in task.hidden_files.items():
        assert text not in task.wrong.values(), name


FIRST = {task.id.rsplit("-", 1)[0]: task for task in reversed(TASKS) if task.language == "python"}


@pytest.mark.parametrize("task", FIRST.values(), ids=FIRST)
def test_a_bug_is_noticed_by_both_tests_and_by_nothing_else(task: Task) -> None:
    """``scripts/bench watch --validate`` looks at all of them."""
    assert invalid(task) is None


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ('old = "nowhere"', "does not stand in a.py once"),
        ('file = "b.py"', "there is no file b.py"),
        ("old = 3", "Expected"),
    ],
)
def test_a_project_that_is_wrong_is_refused_by_name(tmp_path: Path, line: str, why: str) -> None:
    key = line.partition(" ")[0]
    bug = {"id": '"x"', "file": '"a.py"', "old": '"1"', "new": '"2"'}
    bug[key] = line.partition("= ")[2]
    rows = "\n".join(f"{name} = {value}" for name, value in bug.items())
    (tmp_path / "bad.toml").write_text(
        'language = "python"\ncommand = "true"\n[files]\n"a.py" = "1"\n[hidden]\n'
        f'command = "true"\n[hidden.files]\n[[bug]]\n{rows}\n'
    )
    with pytest.raises(BadSet, match=why) as refused:
        read(tmp_path)
    assert "bad.toml" in str(refused.value)


def test_a_part_is_spread_over_the_languages() -> None:
    assert len({task.language for task in chosen(TASKS, 10, "")}) == 5
    assert [task.id for task in chosen(TASKS, 0, "go-queue-take")] == ["go-queue-take"]
    with pytest.raises(BadSet, match="no task x"):
        chosen(TASKS, 0, "x")


TASK = BY_ID["python-spans-holds"]


def run(gateway: RunningGateway, code: str, attempts: int = 1):  # type: ignore[no-untyped-def]
    gateway.engine.play([Reply(then=(Say(f"```python\n{code}```"),))])
    return watched(TASK, gateway.url, MODEL, attempts, 30.0)


def test_a_right_fix_is_told_from_one_that_only_passes_the_visible_test(
    gateway: RunningGateway,
) -> None:
    shown: list[str] = []
    generate = gateway.engine.generate

    def listening(work: Work):  # type: ignore[no-untyped-def]
        shown.append(str(work.prompt))
        return generate(work)

    gateway.engine.generate = listening  # type: ignore[method-assign]
    head = "def holds(spans, number):\n    return "
    good = run(gateway, head + "any(start <= number < end for start, end in spans)\n")
    assert (good.outcome, good.placed, good.touched) == ("right", True, False)
    assert good.found.seconds > 0
    bad = run(gateway, head + "number == 1 or not spans\n")
    assert (bad.outcome, bad.touched) == ("wrong", False)
    none = run(gateway, head + "any(start < number <= end for start, end in spans)\n")
    assert none.outcome == "none"
    assert shown
    assert "hidden" not in "".join(shown).lower()


def test_the_judge_looks_at_the_hidden_test_alone() -> None:
    gamed = {**TASK.wrong, "test_spans.py": ""}
    assert not right(TASK, gamed)
    assert right(TASK, TASK.right)
    assert broken(TASK, TASK.wrong)


def test_how_soon_the_place_of_a_bug_is_asked_about_is_known_without_a_model() -> None:
    assert rank(TASK) == 1

from __future__ import annotations

import pytest
from bench.edit_runs.tasks import OldTask, tasks_of
from bench.edit_sets.diffs import apply
from bench.edit_tasks.checks import faults
from bench.edit_tasks.running import javascript, missing_tools
from bench.edit_tasks.source import Source

with tasks_of("old") as old:
    ALL = [task for task in old if isinstance(task, OldTask)]
TUNED_ON = [task for task in ALL if task.set == "old, tuned on"]
HELD_OUT = [task for task in ALL if task.set == "old, held out"]

every_task = pytest.mark.parametrize("task", ALL, ids=[task.id for task in ALL])
one_of_each_file = pytest.mark.parametrize("task", {task.path: task for task in ALL}.values())


@every_task
def test_the_reference_is_right(task: OldTask) -> None:
    verdict = task.judge(task.reference)
    assert verdict.outcome == "right", verdict.why


@every_task
def test_the_unchanged_file_is_wrong_but_no_damage(task: OldTask) -> None:
    assert task.judge(task.text).outcome == "wrong"


@every_task
def test_the_checks_refuse_the_unchanged_file_by_themselves(task: OldTask) -> None:
    if task.language in missing_tools():
        pytest.skip(f"needs {missing_tools()[task.language]}")
    assert any(faults(task.asked.check, Source(task.language, task.text)))


@every_task
def test_plausible_wrong_answers_are_refused(task: OldTask) -> None:
    if task.language in missing_tools():
        pytest.skip(f"needs {missing_tools()[task.language]}")
    for wrong in task.asked.wrong:
        assert task.judge(apply(wrong.diff, task.text)).outcome == wrong.tag


@one_of_each_file
def test_a_change_elsewhere_is_damage_even_beside_the_right_one(task: OldTask) -> None:
    first, rest = task.reference.split("\n", 1)
    assert task.judge(f"{first} \n{rest}").outcome == "damage"


@one_of_each_file
def test_a_file_that_no_longer_parses_is_damage(task: OldTask) -> None:
    assert task.judge(task.reference + "\n)}(\n").outcome == "damage"


def test_every_language_has_its_share() -> None:
    languages = [task.language for task in TUNED_ON]
    assert len(TUNED_ON) >= 60
    assert languages.count("python") >= 24
    assert languages.count("typescript") >= 18
    assert languages.count("c") + languages.count("cpp") >= 18


def test_the_held_out_tasks_are_a_smaller_set_of_the_same_kinds() -> None:
    languages = [task.language for task in HELD_OUT]
    assert languages.count("python") >= 15
    assert languages.count("typescript") >= 11
    assert languages.count("c") + languages.count("cpp") >= 10
    assert {task.kinds for task in HELD_OUT} <= {task.kinds for task in TUNED_ON}


def test_the_held_out_tasks_have_files_of_their_own() -> None:
    assert not {task.path for task in HELD_OUT} & {task.path for task in TUNED_ON}


def test_ids_are_unique() -> None:
    assert len({task.id for task in ALL}) == len(ALL)


def test_files_are_of_the_size_the_tasks_are_meant_for() -> None:
    sizes = {task.path: len(task.text.splitlines()) for task in ALL}
    assert all(20 <= size <= 120 for size in sizes.values()), sizes


def replaced(text: str, old: str, new: str) -> str:
    assert text.count(old) == 1
    return text.replace(old, new)


@pytest.mark.parametrize(
    ("addition", "outcome"),
    [
        ("import os\n", "right"),
        ("from typing import Optional\n", "right"),
        ("\n", "right"),
        ("LIMIT = 3\n", "damage"),
        ("# a remark\n", "damage"),
    ],
)
def test_where_imports_may_be_added_nothing_else_may(addition: str, outcome: str) -> None:
    task = named("python-config-hints")
    edited = replaced(task.reference, "COMMENT =", f"{addition}COMMENT =")
    assert task.judge(edited).outcome == outcome


def test_an_addition_may_not_land_inside_another_definition() -> None:
    task = named("python-cache-constant")
    assert task.asked.check.additions == "anything"
    counted = "        self.hits += 1\n"
    edited = replaced(task.reference, counted, f"        DEFAULT = 1\n{counted}")
    assert task.judge(edited).outcome == "damage"


def test_a_line_that_may_change_may_go_and_others_may_not() -> None:
    task = named("python-cache-boundary")
    assert task.judge(replaced(task.text, "created > ttl", "created")).outcome == "wrong"
    without = replaced(task.reference, "        self.misses = 0\n", "")
    assert task.judge(without).outcome == "damage"


def test_reordered_definitions_are_damage() -> None:
    task = named("python-cache-boundary")
    size = "    def __len__(self):\n        return len(self._entries)\n\n"
    moved = replaced(task.reference, size, "")
    moved = replaced(moved, "    def purge(self", f"{size}    def purge(self")
    assert task.judge(moved).outcome == "damage"


def test_typescript_without_types_still_says_the_same() -> None:
    source = Source(
        "typescript",
        "export interface A { b?: number }\n"
        "class C { constructor(private readonly x: number, y?: string) { y as unknown; } }\n"
        "function f<T>(a: T[], b = 1): a is T[] { return a!.length as number > b; }\n",
    )
    stripped = javascript(source)
    assert [
        word for word in ("interface", "private", "number", ": T", "?") if word in stripped
    ] == []
    assert "this.x = x;" in stripped


def named(name: str) -> OldTask:
    return next(task for task in ALL if task.id == name)

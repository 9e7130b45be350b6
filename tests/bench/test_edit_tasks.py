from __future__ import annotations

import pytest
from bench.edit_tasks import HELD_OUT, TASKS, Task
from bench.edit_tasks.running import javascript, missing_tools
from bench.edit_tasks.source import Source
from bench.edit_tasks.task import Replace

ALL = (*TASKS, *HELD_OUT)

every_task = pytest.mark.parametrize("task", ALL, ids=[task.id for task in ALL])
one_of_each_file = pytest.mark.parametrize("task", {task.path: task for task in ALL}.values())


@every_task
def test_the_reference_is_right(task: Task) -> None:
    verdict = task.judge(task.edited(task.reference))
    assert verdict.right, verdict.why


@every_task
def test_the_unchanged_file_is_wrong_but_no_damage(task: Task) -> None:
    verdict = task.judge(task.text)
    assert not verdict.right
    assert not verdict.done
    assert not verdict.damage


@every_task
def test_the_checks_refuse_the_unchanged_file_by_themselves(task: Task) -> None:
    if task.language in missing_tools():
        pytest.skip(f"needs {missing_tools()[task.language]}")
    assert any(check(task.source) for check in task.checks)


@every_task
def test_plausible_wrong_answers_are_refused(task: Task) -> None:
    if task.language in missing_tools():
        pytest.skip(f"needs {missing_tools()[task.language]}")
    assert task.wrong
    for edit in task.wrong:
        assert not task.judge(task.edited(edit)).right


@one_of_each_file
def test_a_change_elsewhere_is_damage_even_beside_the_right_one(task: Task) -> None:
    text = task.edited(task.reference)
    first, rest = text.split("\n", 1)
    verdict = task.judge(f"{first} \n{rest}")
    assert verdict.damage
    assert verdict.done


@one_of_each_file
def test_a_file_that_no_longer_parses_is_damage(task: Task) -> None:
    assert task.judge(task.edited(task.reference) + "\n)}(\n").damage


def test_every_language_has_its_share() -> None:
    languages = [task.language for task in TASKS]
    assert len(TASKS) >= 60
    assert languages.count("python") >= 24
    assert languages.count("typescript") >= 18
    assert languages.count("c") + languages.count("c++") >= 18


def test_the_held_out_tasks_are_a_smaller_set_of_the_same_kinds() -> None:
    languages = [task.language for task in HELD_OUT]
    assert languages.count("python") >= 15
    assert languages.count("typescript") >= 11
    assert languages.count("c") + languages.count("c++") >= 10
    assert {task.kind for task in HELD_OUT} <= {task.kind for task in TASKS}


def test_the_held_out_tasks_have_files_of_their_own() -> None:
    assert not {task.path for task in HELD_OUT} & {task.path for task in TASKS}


def test_ids_are_unique() -> None:
    assert len({task.id for task in ALL}) == len(ALL)


def test_files_are_of_the_size_the_tasks_are_meant_for() -> None:
    sizes = {task.path: len(task.source.lines) for task in ALL}
    assert all(20 <= size <= 120 for size in sizes.values()), sizes


def changing(task: Task, *edit: Replace) -> str:
    return task.edited([*task.reference, *edit])


@pytest.mark.parametrize(
    ("addition", "damage"),
    [
        ("import os\n", False),
        ("from typing import Optional\n", False),
        ("\n", False),
        ("LIMIT = 3\n", True),
        ("# a remark\n", True),
    ],
)
def test_where_imports_may_be_added_nothing_else_may(addition: str, damage: bool) -> None:
    task = named("python-config-hints")
    assert task.judge(changing(task, Replace("COMMENT =", f"{addition}COMMENT ="))).damage is damage


def test_an_addition_may_not_land_inside_another_definition() -> None:
    task = named("python-cache-constant")
    assert task.additions == "anything"
    inside = Replace("        self.hits += 1\n", "        DEFAULT = 1\n        self.hits += 1\n")
    assert task.judge(changing(task, inside)).damage


def test_a_line_that_may_change_may_go_and_others_may_not() -> None:
    task = named("python-cache-boundary")
    assert not task.judge(task.edited([Replace("created > ttl", "created")])).damage
    assert task.judge(changing(task, Replace("        self.misses = 0\n", ""))).damage


def test_reordered_definitions_are_damage() -> None:
    task = named("python-cache-boundary")
    size = "    def __len__(self):\n        return len(self._entries)\n\n"
    moved = [Replace(size, ""), Replace("    def purge(self", f"{size}    def purge(self")]
    assert task.judge(changing(task, *moved)).damage


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


def named(name: str) -> Task:
    return next(task for task in TASKS if task.id == name)

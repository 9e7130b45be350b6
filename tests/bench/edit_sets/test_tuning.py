"""The tuning set stands beside the held-out one, never on it."""

from __future__ import annotations

import re
from pathlib import Path

import bench.edit_sets
from bench.edit_sets import read_all

_SETS = Path(bench.edit_sets.__file__).parent
_NAME = re.compile(r"[a-z][\w.-]+")


def test_it_shares_no_package_with_what_is_held_out() -> None:
    rows = [line for line in (_SETS / "HELD_OUT.md").read_text().splitlines() if "|" in line]
    held_out = {name for row in rows[2:] for name in _NAME.findall(row.rsplit("|", 2)[1])}
    assert {"tinydb", "luxon", "golang-lru", "jsoup", "hiredis", "yaml-cpp"} <= held_out
    tuning = {path.stem for path in (_SETS / "tuning").glob("*.toml")}
    assert tuning
    assert not tuning & held_out


def test_its_tasks_are_many_and_their_names_unique() -> None:
    tasks = [task for each in read_all([_SETS / "tuning"]) for task in each.tasks]
    assert len(tasks) == len({task.id for task in tasks}) >= 100
    stops = sum(task.expect == "stop" for task in tasks)
    assert stops >= 15

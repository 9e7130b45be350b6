"""A set of tasks on a package that no registry has, and the model's answers to them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from bench.edit_runs.tasks import Task, tasks_of

from tests.bench.edit_sets import made_up

Tasks = dict[str, Task]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Holds the set; packages come from beside it."""
    archives, folder = tmp_path / "archives", tmp_path / "set"
    archives.mkdir()
    folder.mkdir()
    monkeypatch.setenv("VIVACE_EDIT_ARCHIVES", str(archives))
    monkeypatch.setenv("VIVACE_CACHE", str(tmp_path / "cache"))
    text = made_up.wheel(archives)
    first = made_up.SHOP.splitlines().index("    def add(self, price):") + 1
    selected = f'expect = "edit"\nselection = [{first}, {first + 1}]'
    (folder / "shop.toml").write_text(text.replace('expect = "edit"', selected, 1), "utf-8")
    return folder


@pytest.fixture
def tasks(folder: Path) -> Tasks:
    with tasks_of(str(folder)) as found:
        return {task.id: task for task in found}


@pytest.fixture
def negative(tasks: Tasks) -> Task:
    return tasks["shop-no-negative"]


@pytest.fixture
def which(tasks: Tasks) -> Task:
    return tasks["shop-which"]


@pytest.fixture
def answer() -> Callable[[str], str]:
    """The method that is selected, as a model would write it with this condition."""
    return lambda condition: (
        "```python\ndef add(self, price):\n"
        f"    if {condition}:\n"
        '        raise ValueError("negative")\n'
        "    self.prices.append(price)\n```"
    )

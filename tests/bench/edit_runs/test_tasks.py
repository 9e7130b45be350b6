"""Tasks of all sets look alike, and the sealed ones are opened on purpose only."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench.edit_runs.tasks import Task, chosen, tasks_of, why_skipped
from bench.edit_sets.seal import seal

from bench.edit_runs import tasks as module
from bench.edit_sets import BadSet


def test_a_task_on_a_package_has_all_of_its_files(tmp_path: Path, negative: Task) -> None:
    negative.lay_out(tmp_path / "work")
    assert (tmp_path / "work/shop/LICENCE").read_text() == "MIT"
    assert (tmp_path / "work" / negative.path).read_text("utf-8") == negative.text
    assert negative.reference is not None
    assert negative.judge(negative.reference).outcome == "right"


def test_the_held_out_set_stays_sealed_unless_it_is_said() -> None:
    with pytest.raises(BadSet, match="--open-held-out"), tasks_of("held-out"):
        pass


def test_an_opened_set_is_gone_afterwards(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sealed = tmp_path / "sealed"
    sealed.mkdir()
    sha256 = seal(folder, sealed / "held_out.sealed")
    (sealed / "held_out.sha256").write_text(f"{sha256}  held_out.sealed\n")
    monkeypatch.setattr(module, "_SETS", sealed)
    with tasks_of("held-out", open_held_out=True) as tasks:
        assert {task.set for task in tasks} == {"held-out"}
        [opened] = {task.check.split()[-3] for task in tasks if task.check is not None}
        assert Path(opened).exists()
    assert not Path(opened).exists()


def test_some_of_the_tasks_are_spread_over_the_languages() -> None:
    with tasks_of("tuning") as tasks:
        some = chosen(tasks, 12, "")
        assert len(some) == 12
        assert {task.language for task in some} == {task.language for task in tasks}
        assert chosen(tasks, 0, tasks[7].id) == [tasks[7]]
        with pytest.raises(BadSet, match="no task nobody"):
            chosen(tasks, 0, "nobody")


def test_a_task_without_its_package_is_skipped_with_the_reason(
    negative: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for archive in (tmp_path / "archives").iterdir():
        archive.unlink()
    monkeypatch.setenv("PATH", "")
    assert "shop" in str(why_skipped(negative))


def test_a_task_without_its_compiler_is_skipped_with_the_reason(
    negative: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert why_skipped(negative) is None
    monkeypatch.setattr(module, "missing", lambda language: f"no {language} here")
    assert why_skipped(negative) == "no python here"

"""Which changes of files are saves of a person."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from watchfiles import awatch

from tests.support.waiting import eventually_async
from vivace.desk.saves import CannotWatch, SavedFiles, folders_of
from vivace.workspace.paths import Workspace


class Time:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "tree"
    (root / "src").mkdir(parents=True)
    subprocess.run(["git", "init", "--quiet", str(root)], check=True)
    (root / ".gitignore").write_text("build/\n*.log\n")
    (root / "shop.py").write_text("one\n")
    (root / "src" / "cart.py").write_text("one\n")
    return root


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def saves(root: Path, time: Time) -> SavedFiles:
    async def never(*_: object, **__: object) -> AsyncIterator[set[tuple[Any, str]]]:
        yield set()

    return SavedFiles(Workspace(root), never, time)


def test_a_file_that_changed_was_saved_and_one_that_stays_the_same_was_not(
    saves: SavedFiles, root: Path
) -> None:
    assert saves.saved(["shop.py"]) == ("shop.py",)
    assert saves.saved(["shop.py"]) == ()
    (root / "shop.py").write_text("two\n")
    assert saves.saved(["shop.py", "src/cart.py"]) == ("shop.py", "src/cart.py")


def test_what_we_wrote_is_no_save_until_somebody_changes_it(saves: SavedFiles, root: Path) -> None:
    (root / "shop.py").write_text("ours\n")
    saves.settled(["shop.py"])
    assert saves.saved(["shop.py"]) == ()
    (root / "shop.py").write_text("theirs\n")
    assert saves.saved(["shop.py"]) == ("shop.py",)


def test_a_file_that_is_gone_was_saved_and_one_that_came_and_went_was_not(
    saves: SavedFiles, root: Path
) -> None:
    saves.saved(["shop.py"])
    (root / "shop.py").unlink()
    assert saves.saved(["shop.py", "4913", "never.py"]) == ("shop.py",)


def test_what_git_ignores_and_what_editors_leave_for_a_moment_is_no_save(
    saves: SavedFiles, root: Path
) -> None:
    (root / "build").mkdir()
    names = [
        "build/x.py",
        "run.log",
        "shop.py~",
        ".shop.py.swp",
        ".#shop.py",
        ".git/COMMIT_EDITMSG",
    ]
    for name in names:
        (root / name).write_text("x\n")
    assert saves.saved(names) == ()


def test_a_file_that_the_command_makes_runs_it_only_once_more(
    saves: SavedFiles, root: Path, time: Time
) -> None:
    def ran(content: str) -> tuple[str, ...]:
        with saves.command():
            (root / "a.out").write_text(content)
        return saves.saved(["a.out"])

    assert ran("1") == ("a.out",)
    assert ran("2") == ()
    assert ran("3") == ()
    time.now += 60
    (root / "a.out").write_text("by hand")
    assert saves.saved(["a.out"]) == ("a.out",)


def test_code_that_is_saved_while_the_command_runs_counts_each_time(
    saves: SavedFiles, root: Path
) -> None:
    for content in "123":
        with saves.command():
            (root / "shop.py").write_text(content)
            assert saves.saved(["shop.py"]) == ("shop.py",)


def test_only_folders_with_files_of_the_project_are_watched() -> None:
    root = Path("/home/ada/shop")
    found = folders_of(root, ["shop.py", "src/deep/inner/cart.py", "src/x.py"])
    inner = [root / "src", root / "src/deep", root / "src/deep/inner"]
    assert found == [root, *inner]


def test_a_tree_with_too_many_folders_says_what_to_do(
    saves: SavedFiles, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vivace.desk.saves._MOST_FOLDERS", 1)

    async def first() -> tuple[str, ...]:
        return await anext(aiter(saves))

    with pytest.raises(CannotWatch, match="--once"):
        asyncio.run(first())


def test_without_watchfiles_it_says_how_to_get_it(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "watchfiles", None)
    with pytest.raises(CannotWatch, match=r"pip install .*watchfiles"):
        SavedFiles(Workspace(root))


def test_real_saves_are_seen_in_folders_old_and_new(root: Path) -> None:
    watched: list[tuple[Path, ...]] = []

    async def watch(*folders: Path, **options: Any) -> AsyncIterator[set[tuple[Any, str]]]:
        async for changes in awatch(*folders, rust_timeout=50, yield_on_timeout=True, **options):
            watched.append(folders)  # they are watched by now
            if changes:
                yield changes

    async def saved() -> list[str]:
        found: list[str] = []

        async def collect() -> None:
            async for saved in SavedFiles(Workspace(root), watch):
                found.extend(saved)

        task = asyncio.create_task(collect())
        await eventually_async(lambda: bool(watched))
        (root / "src/cart.py").write_text("two\n")
        await eventually_async(lambda: "src/cart.py" in found)
        made = root.parent / "new"
        made.mkdir()
        (made / "thing.py").write_text("three\n")
        made.rename(root / "new")
        await eventually_async(lambda: root / "new" in watched[-1])
        (root / "new/thing.py").write_text("four\n")
        await eventually_async(lambda: "new/thing.py" in found)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return found

    assert set(asyncio.run(saved())) == {"src/cart.py", "new/thing.py"}

"""What the project exports is looked at while the model answers, and used when it has."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from tests.desk.test_edit import Somebody
from tests.support.server import MODEL, RunningGateway
from vivace.desk import surroundings
from vivace.desk.edit import Result, Settings
from vivace.desk.opening import Models, open_desk
from vivace.desk.surroundings import Surroundings
from vivace.desk.targets import open_target
from vivace.edits.importing.project import Modules, Project
from vivace.engines.scripted import Reply, Say
from vivace.workspace.index import Index
from vivace.workspace.paths import Workspace

OLD = "def key(name):\n    return name\n"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    folder = tmp_path / "tree"
    folder.mkdir()
    (folder / "keys.py").write_text(OLD)
    (folder / "text.py").write_text("def normalise(name):\n    return name.strip()\n")
    return folder


def edited(gateway: RunningGateway, tree: Path, answer: str) -> Result:
    gateway.engine.play([Reply(then=(Say(f"```python\n{answer}```"),))])
    workspace = Workspace(tree)

    async def edit() -> Result:
        settings = Settings(url=gateway.url)
        state = tree.parent / "state"
        async with open_desk(workspace, Somebody(), settings, Models(MODEL), state) as desk:
            target = open_target(workspace, str(tree / "keys.py"))
            return await desk.run([target], "use the existing normalise helper on the name")

    return asyncio.run(edit())


def test_a_helper_of_the_project_is_imported(gateway: RunningGateway, tree: Path) -> None:
    result = edited(gateway, tree, OLD.replace("return name", "return normalise(name)"))
    assert result.status == "done"
    assert (tree / "keys.py").read_text() == (
        "from text import normalise\n\ndef key(name):\n    return normalise(name)\n"
    )


def test_an_import_from_the_project_is_not_foreign(gateway: RunningGateway, tree: Path) -> None:
    answer = "from text import normalise\n\n" + OLD.replace("return name", "return normalise(name)")
    assert edited(gateway, tree, answer).status == "done"


def test_an_import_of_what_nobody_has_is_foreign(gateway: RunningGateway, tree: Path) -> None:
    answer = "from helpers import clean\n\n" + OLD.replace("return name", "return clean(name)")
    result = edited(gateway, tree, answer)
    assert [problem.code for problem in result.edits[0].outcome.problems] == ["foreign"]


def looked_at(index: Index | None) -> Modules | None:
    async def look() -> Modules | None:
        return await Surroundings(index, "keys.py").modules()

    return asyncio.run(look())


def test_without_an_index_nothing_is_known() -> None:
    assert looked_at(None) is None


def test_an_answer_does_not_wait_long_for_the_reading(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(surroundings, "_PATIENCE_S", 0.01)
    hurried = threading.Event()
    found = Modules(Project({}), "keys.py")

    class Slow(Index):
        def modules(self, path: str, budget_s: float = 60.0) -> Modules:
            assert hurried.wait(60)
            return found

        def hurry(self) -> None:
            hurried.set()

    slow = Slow(Workspace(tree), tree.parent / "state")
    assert looked_at(slow) is found

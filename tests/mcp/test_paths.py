"""Paths that lead where no agent may go: nothing there is opened, sent or written."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.mcp.agent import call
from tests.support.editing import SHOP, Project, answers
from tests.support.server import RunningGateway

SECRET = "def load(path):\n    return 'the secret'\n"
_opened: list[str] = []
"""What this process has opened; a hook cannot be taken back, so there is one for all tests."""


def _hear(event: str, arguments: tuple[object, ...]) -> None:
    if event == "open":
        _opened.append(str(arguments[0]))


sys.addaudithook(_hear)


@pytest.fixture
def project(gateway: RunningGateway, tmp_path: Path) -> Project:
    made = Project(tmp_path, gateway)
    made.play(answers(SECRET))
    outside = tmp_path / "outside.py"
    outside.write_text(SECRET)
    (made.root / ".gitignore").write_text("ignored.py\nbuilt/\n")
    protected = (".github/workflows/ci.yml", "opencode.json", ".cargo/config.toml", "hook.py")
    for name in ("ignored.py", ".env", "built/a.py", "inner/a.py", *protected):
        file = made.root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(SECRET)
    (made.root / "link.py").symlink_to(outside)
    (made.root / "linked").symlink_to(tmp_path)
    (made.root / ".husky").mkdir()
    (made.root / ".husky" / "pre-commit").symlink_to("../hook.py")
    os.mkfifo(made.root / "pipe.py")
    (made.root / "huge.py").write_bytes(b"#" * (6 << 20))
    (made.root / "binary.py").write_bytes(b"def load():\0\xff")
    (made.root / "latin.py").write_bytes(b"# caf\xe9\n")
    (made.root / "token.py").write_text("KEY = 'ghp_" + "a1" * 20 + "'\n")
    return made


BY_NAME = [
    "../outside.py",
    "inner/../../outside.py",
    "{outside}/outside.py",
    "/etc/passwd",
    "link.py",
    "linked/outside.py",
    ".env",
    "./.env",
    ".git/config",
    ".GIT/config",
    ".github/workflows/ci.yml",
    ".vscode/settings.json",
    "opencode.json",
    ".cargo/config.toml",
    ".new-agent/hooks.json",
    "hook.py",
    "ignored.py",
    "built/a.py",
    "inner",
    "inner/",
    ".",
    "",
    "pipe.py",
    "nothing.py",
    "~/shop.py",
    "shop.py\n",
    "shop.py\0",
    "sh\x1b[2Jop.py",
    "shop\\a.py",
    "x" * 5000,
]
BY_CONTENT = ["huge.py", "binary.py", "latin.py", "token.py"]


@pytest.mark.parametrize("tool", ["edit_file", "apply_sketch"])
def test_no_hostile_path_is_opened(project: Project, tool: str, tmp_path: Path) -> None:
    (project.root / "pipe.py").unlink()  # whoever reads it for us would wait
    before = project.files()
    asked = {
        "edit_file": {"instruction": "return nothing in load"},
        "apply_sketch": {"sketch": SECRET},
    }
    for given in BY_NAME:
        path = given.format(outside=tmp_path)
        _opened.clear()
        answer = call(project, tool, path=path, **asked[tool])
        assert answer.failed, path
        assert "Nothing was" in answer.text
        assert "the secret" not in answer.text
        name = path.rpartition("/")[2]
        assert not name or not [each for each in _opened if each.endswith("/" + name)], path
        assert not [each for each in _opened if each == name], path
    assert project.gateway.witness.events == []
    assert project.files() == before


def test_what_is_no_text_or_holds_a_secret_goes_nowhere(project: Project) -> None:
    (project.root / "pipe.py").unlink()
    before = project.files()
    for path in BY_CONTENT:
        answer = call(project, "edit_file", path=path, instruction="return nothing in load")
        assert answer.failed
        assert "ghp_" not in answer.text
    assert project.gateway.witness.events == []
    assert project.files() == before


def test_a_pipe_is_not_waited_for(project: Project) -> None:
    answer = call(project, "edit_file", path="pipe.py", instruction="return nothing")
    assert "a named pipe" in answer.text


def test_the_words_are_for_an_agent(project: Project) -> None:
    (project.root / "pipe.py").unlink()
    workflow = call(project, "edit_file", path=".github/workflows/ci.yml", instruction="x")
    assert "Only the user may have it changed" in workflow.text
    assert "name it yourself" not in workflow.text
    opencode = call(project, "edit_file", path="opencode.json", instruction="x")
    assert "starts the servers and formatters that it names" in opencode.text
    assert "git ignores it" in call(project, "edit_file", path="ignored.py", instruction="x").text


def test_a_folder_in_a_work_tree_is_not_left_and_undo_finds_its_edits(project: Project) -> None:
    inner = project.root / "inner"
    sketch = "def load(path):\n    return 'another one'\n"
    refused = call(project, "apply_sketch", inner, path=str(project.shop), sketch=sketch)
    assert "leads out of" in refused.text
    assert call(project, "apply_sketch", inner, path="../shop.py", sketch=sketch).failed
    assert project.shop.read_text() == SHOP
    assert not call(project, "apply_sketch", inner, path="a.py", sketch=sketch).failed
    assert "another one" in (inner / "a.py").read_text()
    absolute = str(inner / "a.py")
    again = call(project, "apply_sketch", inner, path=absolute, sketch=SECRET)
    assert not again.failed, again.text
    project.undo()
    assert "another one" in (inner / "a.py").read_text()

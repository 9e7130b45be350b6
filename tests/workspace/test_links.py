"""Files that are protected because a link with a protected name leads to them, or to above them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from vivace.workspace import links as module
from vivace.workspace.errors import PathRefused, Protected
from vivace.workspace.paths import Workspace


@pytest.fixture
def scripts(root: Path) -> Path:
    folder = root / "scripts"
    folder.mkdir()
    (folder / "check.sh").write_text("make test\n")
    (folder / "other.sh").write_text("make\n")
    return folder


LINKS = [
    (".git/hooks/pre-commit", "../../scripts/check.sh"),
    (".husky/pre-commit", "../scripts/check.sh"),
    (".github/workflows/ci.yml", "../../scripts/check.sh"),
    (".claude/hooks/deep/down/x.sh", "../../../../scripts/check.sh"),
    (".envrc", "scripts/check.sh"),
    ("scripts/.envrc", "check.sh"),
    ("Jenkinsfile", "scripts/check.sh"),
]


@pytest.mark.parametrize(("link", "target"), LINKS)
def test_a_script_that_a_hook_is_a_link_to_is_protected(
    workspace: Workspace, root: Path, scripts: Path, link: str, target: str
) -> None:
    assert str(workspace.resolve("scripts/check.sh"))
    (root / link).parent.mkdir(parents=True, exist_ok=True)
    (root / link).symlink_to(target)
    with pytest.raises(Protected, match=f"{link} is a link to it"):
        workspace.resolve("scripts/check.sh")
    assert str(workspace.resolve("scripts/other.sh"))
    assert str(workspace.named("scripts/check.sh", root)) == "scripts/check.sh"


def test_all_of_a_folder_is_protected_that_settings_are_a_link_to(
    workspace: Workspace, root: Path, scripts: Path
) -> None:
    (root / ".vscode").symlink_to("scripts")
    with pytest.raises(Protected, match=r"\.vscode is a link to it"):
        workspace.resolve("scripts/other.sh")


def test_a_link_to_a_link_counts(workspace: Workspace, root: Path, scripts: Path) -> None:
    (root / "step.sh").symlink_to("scripts/check.sh")
    (root / ".envrc").symlink_to("step.sh")
    with pytest.raises(Protected):
        workspace.resolve("scripts/check.sh")


def test_an_everyday_link_protects_nothing(workspace: Workspace, root: Path, scripts: Path) -> None:
    (root / "run.sh").symlink_to("scripts/check.sh")
    (root / "CLAUDE.md").symlink_to("AGENTS.md")
    assert str(workspace.resolve("scripts/check.sh"))
    assert str(workspace.resolve("AGENTS.md"))


def test_instructions_stay_editable_whatever_agents_call_them(
    workspace: Workspace, root: Path
) -> None:
    (root / "AGENTS.md").write_text("Be brief.\n")
    for name in ("CLAUDE.md", ".cursorrules", ".goosehints", ".windsurfrules"):
        (root / name).symlink_to("AGENTS.md")
    assert str(workspace.resolve("AGENTS.md")) == "AGENTS.md"


def test_links_that_lead_nowhere_or_round_are_no_trouble(
    workspace: Workspace, root: Path, scripts: Path
) -> None:
    (root / ".envrc").symlink_to(".envrc")
    (root / ".npmrc").symlink_to("/nowhere/at/all")
    (root / ".vscode").mkdir()
    (root / ".vscode" / "up").symlink_to("..")
    with pytest.raises(Protected):  # the settings' folder holds the whole project
        workspace.resolve("scripts/check.sh")
    (root / ".vscode" / "up").unlink()
    assert str(workspace.resolve("scripts/check.sh"))


def test_a_large_folder_is_not_searched_for_ever(
    workspace: Workspace, root: Path, scripts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_MAX_ENTRIES", 20)
    looked: list[Path] = []
    entries = module._entries

    def count(folder: Path) -> list[os.DirEntry[str]]:
        looked.append(folder)
        return entries(folder)

    monkeypatch.setattr(module, "_entries", count)
    for number in range(50):
        (root / ".yarn" / f"{number}").mkdir(parents=True)
    assert str(workspace.resolve("scripts/check.sh"))
    assert len([each for each in looked if ".yarn" in each.parts]) <= 2


# -- what a person names --------------------------------------------------------------------------


def test_a_protected_file_is_not_opened_by_an_everyday_name(
    workspace: Workspace, root: Path
) -> None:
    (root / ".vscode").mkdir()
    (root / ".vscode" / "tasks.json").write_text("{}\n")
    (root / "docs").symlink_to(".vscode")
    with pytest.raises(Protected, match=r"^\.vscode/tasks\.json was refused"):
        workspace.named("docs/tasks.json", root)
    assert str(workspace.named(".vscode/tasks.json", root)) == ".vscode/tasks.json"
    assert str(workspace.named("tasks.json", root / ".vscode")) == ".vscode/tasks.json"


def test_a_short_name_is_a_name_only_where_a_file_has_it(workspace: Workspace, root: Path) -> None:
    with pytest.raises(PathRefused, match="short name"):
        workspace.named("VSCODE~1/tasks.json", root)
    with pytest.raises(PathRefused, match="short name"):
        workspace.named("NPMRC~1", root)
    (root / "backup~1").mkdir()
    assert str(workspace.resolve("backup~1/a.py")) == "backup~1/a.py"

"""Which file a path means."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from vivace.workspace.errors import PathRefused
from vivace.workspace.paths import Workspace, open_folder, top_level


@pytest.mark.parametrize(
    "path", ["src/a.py", "./src/a.py", "src//a.py", "src/./a.py", "{root}/src/a.py"]
)
def test_a_file_has_one_path_however_it_is_written(root: Path, path: str) -> None:
    (root / "src").mkdir()
    (root / "src" / "a.py").touch()
    found = Workspace(root).resolve(path.format(root=root))
    assert str(found) == "src/a.py"
    assert found.absolute == root / "src" / "a.py"


def test_a_linked_folder_that_stays_inside_is_followed_to_its_name(root: Path) -> None:
    (root / "src").mkdir()
    (root / "src" / "a.py").touch()
    (root / "link").symlink_to("src")
    assert str(Workspace(root).resolve("link/a.py")) == "src/a.py"


def test_a_workspace_that_is_reached_by_a_link_is_the_same(root: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(root)
    workspace = Workspace(tmp_path / "link")
    assert workspace.root == root
    assert str(workspace.resolve(tmp_path / "link" / "a.py")) == "a.py"


def test_a_new_file_in_new_folders_is_a_good_path(workspace: Workspace) -> None:
    assert str(workspace.resolve("new/folder/a.py")) == "new/folder/a.py"


def test_a_folder_that_is_not_there_is_no_workspace(tmp_path: Path) -> None:
    with pytest.raises(PathRefused):
        Workspace(tmp_path / "none")


# -- what the person says -------------------------------------------------------------------------


@pytest.mark.parametrize("path", [".vscode/settings.json", "vivace.toml", ".git/info/exclude"])
def test_a_protected_file_is_open_to_who_names_it_and_to_nobody_else(
    workspace: Workspace, path: str
) -> None:
    with pytest.raises(PathRefused, match="name it yourself"):
        workspace.resolve(path, allow=["vivace.json", ".vscode/other.json"])
    assert str(workspace.resolve(path, allow=[path])) == path
    assert str(workspace.resolve(path, allow=[workspace.root / path])) == path
    assert str(workspace.named(path, workspace.root)) == path


def test_a_folder_named_does_not_open_what_is_in_it(workspace: Workspace) -> None:
    with pytest.raises(PathRefused):
        workspace.resolve(".vscode/settings.json", allow=[".vscode"])


def test_a_person_may_go_up_from_where_they_are_but_not_out(root: Path) -> None:
    (root / "docs").mkdir()
    (root / "a.py").touch()
    workspace = Workspace(root)
    assert str(workspace.named("../a.py", root / "docs")) == "a.py"
    with pytest.raises(PathRefused):
        workspace.named("../../a.py", root / "docs")


def test_going_up_from_a_link_is_what_the_system_takes_it_for(root: Path) -> None:
    (root / "one" / "two").mkdir(parents=True)
    (root / "link").symlink_to("one/two")
    (root / "one" / "a.py").touch()
    assert str(Workspace(root).named("link/../a.py", root)) == "one/a.py"


# -- the root -------------------------------------------------------------------------------------


def test_the_workspace_is_the_work_tree_that_holds_the_path(root: Path, tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    (root / "src").mkdir()
    assert Workspace.around(Path("project/src/a.py"), tmp_path).root == root
    assert Workspace.around(cwd=root / "src").root == root
    assert top_level(root / "src" / "new" / "a.py") == root


def test_without_git_it_is_the_current_folder(root: Path, tmp_path: Path) -> None:
    assert top_level(root) is None
    assert Workspace.around(Path("a.py"), root).root == root


def test_a_linked_work_tree_has_its_own_root(root: Path) -> None:
    (root / "module").mkdir()
    (root / ".git").mkdir()
    (root / "module" / ".git").write_text("gitdir: ../.git/modules/module\n")
    assert top_level(root / "module" / "a.py") == root / "module"


def test_the_folder_is_walked_to_without_links(root: Path, tmp_path: Path) -> None:
    (root / "sub").mkdir()
    path = Workspace(root).resolve("sub/a.py")
    (root / "sub").rmdir()
    (root / "sub").symlink_to(tmp_path)
    with pytest.raises(OSError, match=r"Not a directory|symbolic"), open_folder(path):
        pass

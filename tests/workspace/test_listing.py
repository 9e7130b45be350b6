"""Which files a folder has: its own, each once, never through a link, and what was named."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from vivace.workspace.errors import PathRefused
from vivace.workspace.listing import Listing, list_files, names_below
from vivace.workspace.paths import SafePath


def write(root: Path, *names: str) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("x = 1\n")


def git(root: Path, *arguments: str) -> None:
    subprocess.run(["git", "-C", str(root), *arguments], check=True, capture_output=True)


@pytest.fixture
def project(root: Path) -> Path:
    git(root, "init", "-q")
    write(root, "a.py", "p/b.py", "p/c.txt", "build/made.py", "out/kept.py", "out/x/deep.py")
    (root / ".gitignore").write_text("out/\n")
    git(root, "add", "a.py")
    return root


def only_python(path: SafePath) -> str | None:
    return None if path.name.endswith(".py") else f"{path.name} is not Python"


def listed(root: Path, *given: str) -> Listing:
    return list_files([Path(each) for each in given or (".",)], root, only_python)


def names(found: Listing) -> list[str]:
    return [str(path) for path in found.files]


def test_what_git_has_or_would_take_is_listed(project: Path) -> None:
    assert names(listed(project)) == ["a.py", "build/made.py", "p/b.py"]
    assert listed(project).left_out == ()


def test_a_folder_is_listed_with_paths_from_the_work_tree(project: Path) -> None:
    assert names(listed(project, "p")) == ["p/b.py"]
    assert names(listed(project / "p")) == ["p/b.py"]
    assert names_below(project, ("p",)) == ["p/b.py", "p/c.txt"]


def test_what_is_named_is_meant_though_git_ignores_it(project: Path) -> None:
    assert names(listed(project, "out")) == ["out/kept.py", "out/x/deep.py"]
    assert names(listed(project, "out/x")) == ["out/x/deep.py"]
    assert names(listed(project, "out/kept.py")) == ["out/kept.py"]


def test_without_git_names_of_folders_and_ignore_files_decide(root: Path) -> None:
    write(root, "a.py", "node_modules/x.py", ".hidden/x.py", "gone/x.py", "p/b.py")
    (root / ".gitignore").write_text("gone/\n")
    assert names(listed(root)) == ["a.py", "p/b.py"]


def test_without_git_the_current_folder_is_the_root_as_for_undo(root: Path) -> None:
    write(root, "p/b.py")
    assert [path.root for path in listed(root, "p", "p/b.py").files] == [root]
    elsewhere = list_files([root / "p"], root.parent / "other", only_python)
    assert [path.root for path in elsewhere.files] == [root / "p"]


def test_what_is_named_twice_is_listed_once(project: Path) -> None:
    assert names(listed(project, "p/b.py", "p", ".", "a.py")) == ["a.py", "build/made.py", "p/b.py"]


def test_links_are_not_followed(project: Path, tmp_path: Path) -> None:
    write(tmp_path, "elsewhere/secret.py")
    (project / "link.py").symlink_to(tmp_path / "elsewhere/secret.py")
    (project / "folder").symlink_to(tmp_path / "elsewhere")
    assert names(listed(project)) == ["a.py", "build/made.py", "p/b.py"]
    (told,) = listed(project, "link.py").left_out
    assert "symbolic link" in told.why


def test_a_link_that_is_named_as_a_folder_leads_where_it_leads(
    project: Path, tmp_path: Path
) -> None:
    (tmp_path / "way").symlink_to(project)
    assert names(listed(tmp_path, "way/p")) == ["p/b.py"]


def test_a_file_that_is_not_wanted_is_told_only_where_it_is_named(project: Path) -> None:
    (told,) = listed(project, "p/c.txt").left_out
    assert told.path == project / "p/c.txt"
    assert told.why == "c.txt is not Python"


def test_what_is_not_there_is_refused(project: Path) -> None:
    with pytest.raises(PathRefused, match=r"no file or folder .*nothing\.py"):
        listed(project, "nothing.py")


def test_repositories_inside_are_told_and_listed_when_they_are_named(project: Path) -> None:
    write(project, "inner/x.py")
    git(project / "inner", "init", "-q")
    found = listed(project)
    assert "inner/x.py" not in names(found)
    (told,) = found.left_out
    assert told.path == project / "inner"
    assert "a repository of its own" in told.why
    assert names(listed(project, "inner")) == ["x.py"]


def test_files_that_are_gone_and_pipes_are_passed_over(project: Path) -> None:
    (project / "a.py").unlink()
    os.mkfifo(project / "pipe.py")
    assert names(listed(project)) == ["build/made.py", "p/b.py"]


def test_odd_names_are_names(project: Path) -> None:
    odd = ["* [x].py", "-n.py", "ä\n.py", os.fsdecode(b"\xff.py"), ":(top)q.py"]
    write(project, *(f"odd/{name}" for name in odd))
    assert names(listed(project, "odd")) == sorted(f"odd/{name}" for name in odd)
    write(project, ":(glob)**/z.py")
    assert names(listed(project, ":(glob)**")) == [":(glob)**/z.py"]

"""What the project exports is read once, then only where it changed, and never from outside."""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from vivace.workspace import index as subject
from vivace.workspace.index import Index
from vivace.workspace.paths import Workspace


@pytest.fixture
def project(root: Path) -> Path:
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    write(root, "p/__init__.py", "")
    write(root, "p/text.py", "def normalise(s): ...\n")
    write(root, "p/a.py", "")
    return root


def write(root: Path, path: str, text: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files that are read, as they are."""
    found: list[str] = []
    real = Index._read

    def noting(self: Index, path: str, status: tuple[int, int]) -> subject._Entry:
        found.append(path)
        return real(self, path, status)

    monkeypatch.setattr(Index, "_read", noting)
    return found


def exporting(root: Path, state: Path, name: str, path: str = "p/a.py") -> list[str]:
    return Index(Workspace(root), state).modules(path).exporting(name)


def test_a_name_is_found_where_it_is_defined(project: Path, state: Path) -> None:
    assert exporting(project, state, "normalise") == ["p/text.py"]


def test_a_folder_without_git_is_read_too(root: Path, state: Path) -> None:
    write(root, "text.py", "def normalise(s): ...\n")
    write(root, "node_modules/x.py", "def normalise(s): ...\n")
    assert exporting(root, state, "normalise", "a.py") == ["text.py"]


def test_only_what_changed_is_read_again(project: Path, state: Path, read: list[str]) -> None:
    index = Index(Workspace(project), state)
    index.modules("p/a.py")
    assert sorted(read) == ["p/__init__.py", "p/a.py", "p/text.py"]
    read.clear()
    write(project, "p/text.py", "def normalised(s): ...\n")
    modules = index.modules("p/a.py")
    assert read == ["p/text.py"]
    assert modules.exporting("normalised") == ["p/text.py"]
    assert modules.exporting("normalise") == []


def test_another_program_need_not_read_it_again(
    project: Path, state: Path, read: list[str]
) -> None:
    exporting(project, state, "normalise")
    read.clear()
    assert exporting(project, state, "normalise") == ["p/text.py"]
    assert read == []


def test_what_is_gone_is_forgotten(project: Path, state: Path) -> None:
    exporting(project, state, "normalise")
    (project / "p/text.py").unlink()
    assert exporting(project, state, "normalise") == []


def test_only_files_that_can_be_imported_are_read(
    project: Path, state: Path, read: list[str]
) -> None:
    write(project, "web/a.ts", "export const a = 1;\n")
    write(project, "web/b.jsx", "export const b = 1;\n")
    exporting(project, state, "a", "web/c.js")
    assert sorted(read) == ["web/a.ts", "web/b.jsx"]


def test_ignored_files_secrets_and_links_stay_out(
    project: Path, state: Path, tmp_path: Path
) -> None:
    write(project, ".gitignore", "generated.py\n")
    write(project, "generated.py", "def normalise(s): ...\n")
    write(project, ".aws/x.py", "def normalise(s): ...\n")
    write(tmp_path, "outside/x.py", "def normalise(s): ...\n")
    (project / "link.py").symlink_to(tmp_path / "outside/x.py")
    (project / "folder").symlink_to(tmp_path / "outside")
    assert exporting(project, state, "normalise") == ["p/text.py"]


def test_a_folder_that_becomes_a_link_is_not_passed_through(
    project: Path, state: Path, tmp_path: Path
) -> None:
    write(project, "q/x.py", "def here(s): ...\n")
    subprocess.run(["git", "-C", str(project), "add", "."], check=True)
    write(tmp_path, "outside/x.py", "def elsewhere(s): ...\n")
    (project / "q/x.py").unlink()
    (project / "q").rmdir()
    (project / "q").symlink_to(tmp_path / "outside")
    assert exporting(project, state, "elsewhere") == []


def test_a_file_that_is_too_large_may_define_anything(project: Path, state: Path) -> None:
    write(project, "p/big.py", "def normalise(s): ...\n" + "#" * 600_000)
    modules = Index(Workspace(project), state).modules("p/a.py")
    assert modules.project.files["p/big.py"].unread


def test_at_the_deadline_it_stops_and_goes_on_the_next_time(
    project: Path, state: Path, read: list[str]
) -> None:
    seconds: Iterator[float] = iter([0.0, 1.0, 2.0, 3.5, 4.0])
    index = Index(Workspace(project), state, clock=lambda: next(seconds, 5.0))
    assert not index.modules("p/a.py", budget_s=3.0).complete
    assert len(read) == 2
    later = Index(Workspace(project), state).modules("p/a.py")
    assert later.complete
    assert len(read) == 3


def test_when_it_is_closed_nothing_more_is_read(
    project: Path, state: Path, read: list[str]
) -> None:
    index = Index(Workspace(project), state)
    index.close()
    assert not index.modules("p/a.py").complete
    assert read == []


def test_only_the_person_can_read_what_is_kept(project: Path, state: Path) -> None:
    exporting(project, state, "normalise")
    [kept] = (state / "index").iterdir()
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert stat.S_IMODE(kept.parent.stat().st_mode) == 0o700


@pytest.mark.parametrize("content", [b"", b"not ours", b"\x82\xa7version\x02\xa7entries\x80"])
def test_what_cannot_be_read_of_it_is_made_anew(project: Path, state: Path, content: bytes) -> None:
    exporting(project, state, "normalise")
    [kept] = (state / "index").iterdir()
    kept.write_bytes(content)
    assert exporting(project, state, "normalise") == ["p/text.py"]


def test_where_nothing_can_be_kept_it_is_read_each_time(project: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert exporting(project, tmp_path / "file", "normalise") == ["p/text.py"]


def test_programs_that_write_at_once_leave_one_whole_file(project: Path, state: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: exporting(project, state, "normalise"), range(24)))
    assert found == [["p/text.py"]] * 24
    [kept] = (state / "index").iterdir()
    assert kept.suffix == ".msgpack"


def test_the_projects_that_were_longest_not_used_are_forgotten(
    project: Path, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subject, "_MOST_KEPT", 1)
    (state / "index").mkdir(parents=True)
    old = state / "index" / "old.msgpack"
    old.write_bytes(b"")
    os.utime(old, (1, 1))
    exporting(project, state, "normalise")
    assert not old.exists()
    assert len(list((state / "index").iterdir())) == 1


def test_manifests_are_read_with_it(project: Path, state: Path) -> None:
    write(project, "pyproject.toml", '[project]\nname = "p"\ndependencies = ["httpx"]\n')
    assert Index(Workspace(project), state).modules("p/a.py").has("httpx")

"""scripts/commits.py: the edits of a table, from a clone or fetched, and one's own."""

from __future__ import annotations

import gzip
import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.scripts.test_fetch import load_script

commits = load_script("commits")

Row = dict[str, Any]
NAME = "somebody/something"
LINES = [f"value_{number} = {number}\n" for number in range(50)]


class Repository:
    """A small one: a file of code that is made, edited, and edited together with another."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True)
        self._git("init", "--quiet")
        self._git("config", "uploadpack.allowFilter", "true")
        self._git("config", "uploadpack.allowAnySHA1InWant", "true")
        self.made = self.commit("Make it", {"a.py": LINES})
        self.edited = self.commit("Edit it", {"a.py": ["value = 0\n", *LINES[1:]]})
        self.both = self.commit("Edit both", {"a.py": LINES[1:], "README.md": ["Hello\n"]})
        self.tiny = self.commit("Add a small one", {"b.py": ["x = 1\n"]})
        self.small = self.commit("Edit the small one", {"b.py": ["x = 2\n"]})
        self.prose = self.commit("Edit the text", {"README.md": ["Hello!\n"]})

    def commit(self, message: str, files: dict[str, list[str]]) -> str:
        for name, lines in files.items():
            (self.folder / name).write_text("".join(lines))
        self._git("add", "-A")
        self._git("commit", "--quiet", "-m", message)
        return self._git("rev-parse", "HEAD").strip()

    def _git(self, *words: str) -> str:
        who = ["-c", "user.name=Somebody", "-c", "user.email=somebody@example.com"]
        command = ["git", "-C", str(self.folder), *who, *words]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("VIVACE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    return tmp_path / "cache"


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "github" / NAME)


Collect = Callable[..., list[Row]]


@pytest.fixture
def table(repository: Repository, tmp_path: Path) -> Path:
    path = tmp_path / "table.toml"
    edits = [f"{repository.both} a.py", f"{repository.edited} a.py"]
    path.write_text(f'[[repository]]\nname = "{NAME}"\nlicence = "MIT"\nedits = {edits}\n')
    return path


@pytest.fixture
def collect(table: Path, tmp_path: Path) -> Collect:
    def collect(*asked: str) -> list[Row]:
        file = tmp_path / "edits.jsonl.gz"
        assert commits.main([*asked, "--table", str(table), "--file", str(file)]) == 0
        with gzip.open(file, "rt") as lines:
            return [json.loads(line) for line in lines]

    return collect


def test_named_edits_come_in_order_from_a_clone(collect: Collect, repository: Repository) -> None:
    both, edited = collect(f"{NAME}={repository.folder}")
    assert (both["commit"], edited["commit"]) == (repository.both, repository.edited)
    assert edited == {
        "repo": NAME,
        "licence": "MIT",
        "commit": repository.edited,
        "path": "a.py",
        "language": "py",
        "message": "Edit it",
        "added": 1,
        "removed": 1,
        "before": "".join(LINES),
        "after": "".join(["value = 0\n", *LINES[1:]]),
    }


def test_without_a_clone_only_what_is_needed_is_fetched(
    collect: Collect,
    repository: Repository,
    tmp_path: Path,
    cache: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", f"url.file://{tmp_path}/github/.insteadOf")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", "https://github.com/")
    fetched = collect()
    assert fetched == collect(f"{NAME}={repository.folder}")
    assert collect(NAME) == fetched  # again, from what was kept
    kept = commits.git(
        cache / "repositories" / NAME, "cat-file", "--batch-check", "--batch-all-objects"
    )
    assert repository.edited in kept
    assert repository.prose not in kept


def test_a_clone_that_lacks_a_commit_is_named(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "edits.jsonl.gz"
    asked = [f"{NAME}={tmp_path}", "--table", str(table), "--file", str(file)]
    assert commits.main(asked) == 1
    assert f"{NAME}: {tmp_path} has no commit" in capsys.readouterr().err
    assert not list(tmp_path.glob("edits*"))


def test_what_is_neither_known_nor_there_is_refused(
    table: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert commits.main(["nobody/nothing", "--table", str(table)]) == 1
    assert f"neither a folder nor one of {NAME}" in capsys.readouterr().err


def test_of_ones_own_the_newest_that_changed_one_long_file_of_code(
    collect: Collect, repository: Repository
) -> None:
    [row] = collect(str(repository.folder))
    assert row["commit"] == repository.edited
    assert row["repo"] == NAME


def test_the_table_names_whole_commits_once_each_in_known_languages() -> None:
    known = commits.load()
    edits = [edit for repository in known.values() for edit in repository.edits]
    assert len(edits) == len(set(edits)) >= 100
    assert all(len(commit) == 40 and int(commit, 16) for commit, _ in edits)
    assert {commits.LANGUAGES[Path(path).suffix] for _, path in edits} == {"py", "ts", "rs", "cpp"}
    assert {each.licence for each in known.values()} <= {"MIT", "Apache-2.0", "BSD-3-Clause"}

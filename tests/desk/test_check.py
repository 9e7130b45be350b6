"""One check from paths to findings: what is told, what is held back, what is mended."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.support.rules import RULES, SHELL, YAML, write
from vivace.desk.check import Checked, Checking, Event, Listed, Settings
from vivace.desk.rules import Choice, RuleText
from vivace.workspace.errors import GitFailed
from vivace.workspace.journal import Journal
from vivace.workspace.paths import Workspace

CHOICE = Choice(named=(RuleText("rules.yml", RULES),), bundled=False)


def git(root: Path, *arguments: str) -> None:
    who = ("-c", "user.name=A", "-c", "user.email=a@example.org")
    subprocess.run(["git", *who, "-C", str(root), *arguments], check=True, capture_output=True)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    write(folder, shell=SHELL, p__yaml=YAML, clean="x = 1\n")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "first")
    return folder


def checking(root: Path, *paths: str, **settings: object) -> Checking:
    given = tuple(Path(path) for path in paths or (".",))
    return Checking(Settings(paths=given, cwd=root, **settings), CHOICE)  # type: ignore[arg-type]


def checked(root: Path, *paths: str, **settings: object) -> Checked:
    return checking(root, *paths, **settings).run()


def told(result: Checked) -> list[tuple[str, str, int]]:
    return [
        (each.path, each.finding.code, each.finding.lines[0] + 1 if each.finding.lines else 0)
        for each in result.found
    ]


BOTH = [("p/yaml.py", "test-yaml", 5), ("shell.py", "test-shell", 5)]


def test_everything_is_told_by_path_and_place(root: Path) -> None:
    result = checked(root)
    assert told(result) == BOTH
    assert (result.files, result.lines, result.languages) == (3, 11, frozenset({"python"}))


def test_paths_are_those_of_the_work_tree_wherever_one_stands(root: Path) -> None:
    assert told(checked(root / "p")) == BOTH[:1]
    assert told(checked(root / "p", "../shell.py")) == BOTH[1:]


def test_how_far_it_is_can_be_heard(root: Path) -> None:
    heard: list[Event] = []
    Checking(Settings(paths=(Path(),), cwd=root), CHOICE, heard.append).run()
    assert heard[0] == Listed(3)
    assert len(heard) == 4


def test_what_is_less_grave_or_known_is_held_back(root: Path) -> None:
    assert told(checked(root, severity="error")) == BOTH[1:]
    known = frozenset(each.fingerprint for each in checked(root).found)
    write(root, shell=f"# moved\n{SHELL}", new=SHELL)
    later = checked(root, known=known)
    assert told(later) == [("new.py", "test-shell", 5)]
    assert later.known == known


def test_what_could_not_be_looked_at_is_kept(root: Path) -> None:
    (root / "odd.py").write_bytes(b"\0\1")
    (root / "notes.txt").write_text("x")
    result = checked(root, ".", "notes.txt")
    assert [each.path for each in result.skipped] == ["notes.txt", "odd.py"]
    assert result.files == 3


@pytest.mark.parametrize(
    "pattern", ["p", "p/", "p/*.py", "*/yaml.py", "p/yaml.py", "yaml.py", "y*.py"]
)
def test_files_and_folders_can_be_left_out(root: Path, pattern: str) -> None:
    assert told(checked(root, exclude=(pattern,))) == BOTH[1:]


# -- what changed ---------------------------------------------------------------------------------


def test_only_lines_that_changed_are_told(root: Path) -> None:
    assert told(checked(root, changed="HEAD")) == []
    write(root, shell=SHELL + "    os.system(name)\n", new=YAML)
    result = checked(root, changed="HEAD")
    assert told(result) == [("new.py", "test-yaml", 5), ("shell.py", "test-shell", 6)]
    assert result.files == 2


def test_what_a_branch_brings_is_told_since_it_left(root: Path) -> None:
    git(root, "checkout", "-qb", "topic")
    write(root, topic=SHELL)
    git(root, "add", "-A")
    git(root, "commit", "-qm", "topic")
    git(root, "checkout", "-q", "main")
    write(root, shell="x = 1\n")
    git(root, "commit", "-qam", "main goes on")
    git(root, "checkout", "-q", "topic")
    assert told(checked(root, changed="main...")) == [("topic.py", "test-shell", 5)]


def test_a_file_that_cannot_be_compared_counts_whole(root: Path) -> None:
    (root / "shell.py").write_bytes(b"# caf\xe9\n" + SHELL.encode())
    assert told(checked(root, changed="HEAD")) == [("shell.py", "test-shell", 6)]


def test_without_git_or_the_commit_it_stops(root: Path, tmp_path: Path) -> None:
    with pytest.raises(GitFailed, match="nowhere"):
        checked(root, changed="nowhere")
    write(tmp_path / "plain", a=SHELL)
    with pytest.raises(GitFailed, match="git"):
        checked(tmp_path / "plain", changed="HEAD")


# -- mending --------------------------------------------------------------------------------------


def mend(root: Path, state: Path, *paths: str, **settings: object) -> tuple[int, list[str]]:
    work = checking(root, *paths, **settings)
    fixed = work.write(work.fixes(work.run()), state)
    return fixed.count, [each.path for each in fixed.skipped]


def test_what_a_rule_can_mend_is_mended_and_can_be_taken_back(root: Path, tmp_path: Path) -> None:
    write(root, p__yaml=YAML + YAML.replace("load(file):", "more(file):"))
    before = (root / "p/yaml.py").read_text()
    assert mend(root, tmp_path / "state") == (2, [])
    assert (root / "p/yaml.py").read_text() == before.replace("yaml.load", "yaml.safe_load")
    assert told(checked(root)) == BOTH[1:]
    Journal(Workspace(root), tmp_path / "state").undo()
    assert (root / "p/yaml.py").read_text() == before


def test_line_ends_and_marks_stay(root: Path, tmp_path: Path) -> None:
    data = b"\xef\xbb\xbf" + YAML.replace("\n", "\r\n").encode()
    (root / "p/yaml.py").write_bytes(data)
    assert mend(root, tmp_path / "state") == (1, [])
    assert (root / "p/yaml.py").read_bytes() == data.replace(b"yaml.load", b"yaml.safe_load")


def test_the_one_line_that_ends_otherwise_does_so_when_it_is_mended(
    root: Path, tmp_path: Path
) -> None:
    lines = [line + "\r\n" for line in YAML.splitlines()]
    at = next(number for number, line in enumerate(lines) if "yaml.load" in line)
    lines[at] = lines[at].replace("\r\n", "\n")
    data = "".join(lines).encode()
    (root / "p/yaml.py").write_bytes(data)
    assert mend(root, tmp_path / "state") == (1, [])
    assert (root / "p/yaml.py").read_bytes() == data.replace(b"yaml.load", b"yaml.safe_load")


def test_two_findings_on_a_line_are_mended_at_once(root: Path, tmp_path: Path) -> None:
    both = "import yaml\n\nconfig = [yaml.load(first), yaml.load(second)]\n"
    write(root, p__yaml=both)
    assert mend(root, tmp_path / "state") == (2, [])
    assert (root / "p/yaml.py").read_text() == both.replace("yaml.load", "yaml.safe_load")


def test_what_is_held_back_is_not_mended(root: Path, tmp_path: Path) -> None:
    known = frozenset(each.fingerprint for each in checked(root).found)
    assert mend(root, tmp_path / "state", known=known) == (0, [])
    assert mend(root, tmp_path / "state", changed="HEAD") == (0, [])
    assert (root / "p/yaml.py").read_text() == YAML


def test_what_cannot_be_written_as_it_was_is_told(root: Path, tmp_path: Path) -> None:
    (root / "p/yaml.py").write_bytes(b"# caf\xe9\n" + YAML.encode())
    assert mend(root, tmp_path / "state") == (0, ["p/yaml.py"])


def test_a_file_that_cannot_be_written_keeps_no_other_from_being_mended(
    root: Path, tmp_path: Path
) -> None:
    write(root, linked=YAML, locked=YAML)
    (root / "locked.py").chmod(0o444)
    (root / "other.py").hardlink_to(root / "linked.py")
    assert mend(root, tmp_path / "state") == (1, ["linked.py", "locked.py", "other.py"])
    assert "safe_load" in (root / "p/yaml.py").read_text()
    assert (root / "locked.py").read_text() == (root / "linked.py").read_text() == YAML
    assert not list(root.glob(".vivace-*"))
    [entry] = Journal(Workspace(root), tmp_path / "state").entries()
    assert entry.paths == ("p/yaml.py",)


def test_protected_files_are_mended_only_where_they_are_named(root: Path, tmp_path: Path) -> None:
    write(root, **{".vscode__tool": YAML})
    assert mend(root, tmp_path / "state") == (1, [".vscode/tool.py"])
    assert mend(root, tmp_path / "state", ".vscode/tool.py") == (1, [])

"""What changed since a commit, as git tells it, and what of it no model may read."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from vivace.syntax.hunk import Hunk
from vivace.workspace import changes
from vivace.workspace.changes import Changed, Changes, changes_since
from vivace.workspace.document import Document, read
from vivace.workspace.errors import GitFailed
from vivace.workspace.paths import SafePath, Workspace

TEN = "".join(f"line {number}\n" for number in range(10))
KEY = "AKIA" + "IOSFODNN7QWERTYU"


def git(root: Path, *arguments: str) -> str:
    who = ["-c", "user.name=A", "-c", "user.email=a@example.org"]
    command = ["git", *who, "-C", str(root), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def commit(root: Path, **files: str) -> None:
    for name, text in files.items():
        (root / name).write_text(text)
    git(root, "add", "-A")
    git(root, "commit", "--quiet", "--allow-empty", "-m", "a commit")


@pytest.fixture
def tree(root: Path) -> Path:
    git(root, "init", "--quiet", "--initial-branch=main")
    (root / "ten.py").write_text(TEN)
    commit(root)
    return root


def since(root: Path, revision: str = "HEAD") -> Changes:
    return changes_since(Workspace(root), revision)


def only(root: Path) -> Changed:
    (file,) = since(root).files
    return file


# -- what changed ---------------------------------------------------------------------------------


def test_nothing_changed(tree: Path) -> None:
    assert since(tree) == Changes(())


def test_lines_have_their_numbers_in_the_new_text(tree: Path) -> None:
    text = TEN.replace("line 2\n", "").replace("line 5\n", "five\nand more\n")
    (tree / "ten.py").write_text(text)
    file = only(tree)
    assert (str(file.path), file.text, file.hidden) == ("ten.py", text, None)
    assert file.added == ((4, 6),)
    assert file.hunks == (
        Hunk(2, ("line 2\n",), ()),
        Hunk(5, ("line 5\n",), ("five\n", "and more\n")),
    )


def test_what_is_staged_and_what_is_not_tracked_counts(tree: Path) -> None:
    (tree / "staged.py").write_text("a = 1\n")
    git(tree, "add", "staged.py")
    (tree / "folder").mkdir()
    (tree / "folder/new one.py").write_text("b = 1\n\nc = 2")
    assert [(str(file.path), file.added) for file in since(tree).files] == [
        ("folder/new one.py", ((0, 3),)),
        ("staged.py", ((0, 1),)),
    ]


def test_gone_files_and_modes_have_no_lines(tree: Path) -> None:
    commit(tree, gone="x\n")
    (tree / "gone").unlink()
    (tree / "ten.py").chmod(0o755)
    assert since(tree) == Changes(())


def test_a_renamed_file_has_only_its_changed_lines(tree: Path) -> None:
    git(tree, "mv", "ten.py", "moved.py")
    (tree / "moved.py").write_text(TEN.replace("line 3", "three"))
    file = only(tree)
    assert (str(file.path), file.added) == ("moved.py", ((3, 4),))


@pytest.mark.parametrize("attributes", ["", "* text=auto\n", "* -text\n"])
def test_line_ends_of_windows_are_no_change_of_every_line(tree: Path, attributes: str) -> None:
    (tree / "w.py").write_bytes(TEN.replace("\n", "\r\n").encode())
    commit(tree, **{".gitattributes": attributes})
    (tree / "w.py").write_bytes(TEN.replace("line 3", "three").replace("\n", "\r\n").encode())
    file = only(tree)
    assert (file.added, file.hunks) == (((3, 4),), (Hunk(3, ("line 3\n",), ("three\n",)),))


def test_a_mark_at_the_beginning_is_no_text(tree: Path) -> None:
    (tree / "ten.py").write_bytes(b"\xef\xbb\xbfline 0\n")
    assert only(tree).hunks[0].new == ("line 0\n",)


def test_lines_that_end_in_a_return_alone_are_all_new(tree: Path) -> None:
    (tree / "ten.py").write_bytes(b"a = 1\rb = 2\r")
    assert only(tree).added == ((0, 2),)


def test_old_lines_in_another_encoding_can_be_shown(tree: Path) -> None:
    (tree / "ten.py").write_bytes(b"caf\xe9\n")
    commit(tree)
    (tree / "ten.py").write_text("café\n")
    assert only(tree).hunks == (Hunk(0, ("caf\ufffd\n",), ("café\n",)),)


def test_settings_of_the_person_do_not_matter(tree: Path) -> None:
    for setting in ("diff.noprefix", "diff.mnemonicPrefix", "diff.suppressBlankEmpty"):
        git(tree, "config", setting, "true")
    git(tree, "config", "color.ui", "always")
    git(tree, "config", "diff.external", "false")
    (tree / "ten.py").write_text(f"\n{TEN}")
    assert only(tree).added == ((0, 1),)


# -- since when -----------------------------------------------------------------------------------


def test_a_commit_is_named_as_git_names_it(tree: Path) -> None:
    commit(tree, **{"two.py": "a = 1\n"})
    assert since(tree).files == ()
    assert [str(file.path) for file in since(tree, "HEAD~1").files] == ["two.py"]


def test_three_dots_compare_with_where_the_branch_began(tree: Path) -> None:
    git(tree, "switch", "--quiet", "-c", "mine")
    commit(tree, **{"mine.py": "a = 1\n"})
    git(tree, "switch", "--quiet", "main")
    commit(tree, **{"ten.py": "other\n"})
    git(tree, "switch", "--quiet", "mine")
    for revision in ("main...", "main...HEAD"):
        assert [str(file.path) for file in since(tree, revision).files] == ["mine.py"]
    assert [str(file.path) for file in since(tree, "main").files] == ["mine.py", "ten.py"]


def test_before_the_first_commit_everything_is_new(root: Path) -> None:
    git(root, "init", "--quiet")
    (root / "a.py").write_text("a = 1\n")
    git(root, "add", "a.py")
    assert only(root).added == ((0, 1),)


@pytest.mark.parametrize(
    ("revision", "said"),
    [
        ("nowhere", "There is no commit nowhere"),
        ("--output=x", "There is no commit --output=x"),
        ("HEAD..main", "names two commits"),
        ("HEAD...other", "names two commits"),
    ],
)
def test_what_is_no_commit_is_said(tree: Path, revision: str, said: str) -> None:
    with pytest.raises(GitFailed, match=said):
        since(tree, revision)
    assert not (tree / "x").exists()


def test_branches_with_nothing_in_common_are_said(tree: Path) -> None:
    git(tree, "switch", "--quiet", "--orphan", "other")
    commit(tree)
    with pytest.raises(GitFailed, match="no commit in common"):
        since(tree, "main...")


def test_without_a_work_tree_nobody_knows(root: Path) -> None:
    with pytest.raises(GitFailed, match="vivace check"):
        since(root)


# -- what is not looked at ------------------------------------------------------------------------


def test_ignored_files_and_other_repositories_are_none_of_ours(tree: Path) -> None:
    commit(tree, **{".gitignore": "made/\n"})
    (tree / "made").mkdir()
    (tree / "made/a.py").write_text("a = 1\n")
    (tree / "inner").mkdir()
    git(tree / "inner", "init", "--quiet")
    commit(tree / "inner", **{"a.py": "a = 1\n"})
    assert since(tree) == Changes(())


@pytest.mark.parametrize(
    ("name", "text"), [(".env", "KEY=1\n"), ("config.py", f"KEY = '{KEY}'\n"), ("id_rsa", "x\n")]
)
def test_secrets_are_hidden_with_the_reason(tree: Path, name: str, text: str) -> None:
    (tree / name).write_text(text)
    hidden = only(tree).hidden
    assert hidden is not None
    assert hidden.startswith(f"{name} is not shown to a model: ")


def test_a_secret_that_was_taken_out_is_hidden_too(tree: Path) -> None:
    commit(tree, **{"config.py": f"KEY = '{KEY}'\n"})
    (tree / "config.py").write_text("KEY = os.environ['KEY']\n")
    assert only(tree).hidden


def test_a_file_that_was_a_secret_by_its_name_is_hidden(tree: Path) -> None:
    commit(tree, **{".env": TEN})
    git(tree, "mv", ".env", "env.py")
    (tree / "env.py").write_text(f"{TEN}more\n")
    hidden = only(tree).hidden
    assert hidden is not None
    assert "it was .env" in hidden


def test_what_is_not_text_is_told(tree: Path) -> None:
    (tree / "ten.py").write_bytes(b"\0\1")
    (tree / "latin.py").write_bytes(b"caf\xe9\n")
    (tree / "link.py").symlink_to("ten.py")
    found = since(tree)
    assert found.files == ()
    assert {each.path for each in found.left_out} == {"ten.py", "latin.py", "link.py"}
    assert all(each.path in each.why for each in found.left_out)


def test_names_that_steer_a_terminal_are_left_out(tree: Path) -> None:
    (tree / "a\x1b[2J.py").write_text("a = 1\n")
    assert [each.path for each in since(tree).left_out] == ["a\x1b[2J.py"]


def test_a_file_that_changes_meanwhile_is_told(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tree / "ten.py").write_text(f"first\n{TEN}")

    def read_late(path: SafePath) -> Document:
        (tree / "ten.py").write_text(f"second\n{TEN}")
        return read(path)

    monkeypatch.setattr(changes, "read", read_late)
    (left,) = since(tree).left_out
    assert "while it was read" in left.why

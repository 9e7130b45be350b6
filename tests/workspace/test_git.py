"""Settings of a repository name programs in many ways, and no question to git runs one."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from vivace.workspace.changes import changes_since
from vivace.workspace.errors import GitFailed
from vivace.workspace.git import run_git
from vivace.workspace.ignore import ignored
from vivace.workspace.listing import names_below
from vivace.workspace.mentions import files_with
from vivace.workspace.paths import Workspace
from vivace.workspace.throwaway import throwaway

# Each setting is to run a program that leaves a file of this name behind.
_PROGRAMS = """
[core]
    fsmonitor = {fsmonitor}
    sshCommand = {ssh}
    gitProxy = {proxy}
    askPass = {askpass}
    editor = {editor}
    pager = {pager}
    hooksPath = {hooks}
[pager]
    diff = {pager-of-diff}
    grep = {pager-of-grep}
[alias]
    diff = !{alias}
    ls-files = !{alias}
    check-ignore = !{alias}
[diff]
    external = {external-diff}
    submodule = diff
[diff "text"]
    command = {diff-command}
    textconv = {textconv}
[filter "plain"]
    clean = {clean} && cat
    smudge = {smudge} && cat
    required = true
[filter "long"]
    process = {process}
    required
[filter "with=sign.dot"]
    clean = {clean-with-sign} && cat
    smudge = {smudge-with-sign} && cat
[filter ""]
    clean = {clean-without-name} && cat
[merge "text"]
    driver = {merge}
[credential]
    helper = !{credential}
[gpg]
    program = {gpg}
[log]
    showSignature = true
[gc]
    recentObjectsHook = {gc}
    auto = 1
[submodule]
    recurse = true
[hook "friendly"]
    command = {hook-by-setting}
    event = post-checkout
    event = post-index-change
    event = reference-transaction
[extensions]
    worktreeConfig = true
"""
_ATTRIBUTES = """
*.py filter=plain diff=text merge=text
*.txt filter=long
*.md filter=with=sign.dot
*.c filter=
"""


class Trap:
    """A repository, and the programs of its settings that were run."""

    def __init__(self, root: Path, ran: Path) -> None:
        self.root = root
        self._ran = ran
        ran.mkdir()

    def program(self, name: str) -> str:
        return f"touch '{self._ran / name}'"

    def ran(self) -> list[str]:
        return sorted(path.name for path in self._ran.iterdir())

    def set(self, text: str, where: str = "config") -> None:
        for name in {part.partition("}")[0] for part in text.split("{")[1:]}:
            program = str(self._hooks()) if name == "hooks" else self.program(name)
            text = text.replace(f"{{{name}}}", program)
        with (self.root / ".git" / where).open("a") as file:
            file.write(text)

    def _hooks(self) -> Path:
        folder = self._ran.with_name("hooks")
        folder.mkdir(exist_ok=True)
        for name in ("post-checkout", "post-index-change", "reference-transaction"):
            (folder / name).write_text(f"#!/bin/sh\n{self.program(f'hook-{name}')}\n")
            (folder / name).chmod(0o755)
        return folder


def git(root: Path, *arguments: str) -> str:
    who = ["-c", "user.name=A", "-c", "user.email=a@example.org"]
    command = ["git", *who, "-C", str(root), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def commit(root: Path, *names: str) -> None:
    root.mkdir(exist_ok=True)
    git(root, "init", "--quiet", "--initial-branch=main")
    for name in names:
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text("word = 1\n")
    git(root, "add", ".")
    git(root, "commit", "--quiet", "-m", "first")


@pytest.fixture
def trap(root: Path, tmp_path: Path) -> Trap:
    commit(root, "a.py", "z.txt", "c.md", "d.c", "same.py", "folder/e.py")
    return Trap(root, tmp_path / "ran")


def ask_everything(root: Path) -> None:
    """Ask git all that Vivace asks."""
    questions: tuple[Callable[[], object], ...] = (
        lambda: changes_since(Workspace(root)),
        lambda: changes_since(Workspace(root), "main..."),
        lambda: names_below(root),
        lambda: ignored([Workspace(root).resolve("a.py")]),
        lambda: files_with(root, "word"),
        lambda: run_git(root, "status", "--porcelain", "--ignore-submodules=all"),
        lambda: _copied(root),
    )
    for question in questions:
        with contextlib.suppress(GitFailed):
            question()


def _copied(root: Path) -> None:
    with throwaway(root):
        pass


def change(root: Path) -> None:
    for name in ("a.py", "z.txt", "c.md", "d.c"):
        (root / name).write_text("word = 2\n")


@pytest.mark.parametrize("where", ["config", "config.worktree"])
def test_git_runs_no_program_of_the_repository(trap: Trap, where: str) -> None:
    change(trap.root)
    (trap.root / ".gitattributes").write_text(_ATTRIBUTES)
    if where != "config":
        trap.set("[extensions]\nworktreeConfig = true\n")
    trap.set(_PROGRAMS, where)
    ask_everything(trap.root)
    assert trap.ran() == []


def test_git_runs_no_program_that_an_included_file_names(trap: Trap) -> None:
    change(trap.root)
    (trap.root / ".gitattributes").write_text("*.py filter=plain\n")
    trap.set("[include]\npath = ../more\n")
    (trap.root / "more").write_text(f'[filter "plain"]\nclean = {trap.program("clean")} && cat\n')
    assert [str(file.path) for file in changes_since(Workspace(trap.root)).files][:1] == [
        ".gitattributes"
    ]
    ask_everything(trap.root)
    assert trap.ran() == []


def test_answers_are_whole_though_filters_are_off(trap: Trap) -> None:
    change(trap.root)
    (trap.root / ".gitattributes").write_text(_ATTRIBUTES.replace("filter=long", ""))
    git(trap.root, "add", ".gitattributes")
    trap.set(_PROGRAMS)
    files = {str(each.path): each for each in changes_since(Workspace(trap.root)).files}
    assert {".gitattributes", "a.py", "z.txt", "c.md", "d.c"} <= set(files)
    assert files["a.py"].hunks[0].new == ("word = 2\n",)
    assert files_with(trap.root, "word") is not None
    with throwaway(trap.root) as copy:
        assert (copy / "a.py").read_text() == "word = 2\n"
        assert (copy / "same.py").read_text() == "word = 1\n"
    assert trap.ran() == []


def test_nothing_is_fetched_that_a_partial_clone_lacks(trap: Trap) -> None:
    blob = git(trap.root, "rev-parse", "HEAD:a.py").strip()
    change(trap.root)
    _lose(trap, blob)
    with pytest.raises(GitFailed, match=r"objects are missing.*fetch them by: git -C"):
        changes_since(Workspace(trap.root))
    ask_everything(trap.root)
    assert trap.ran() == []


def test_nothing_is_fetched_that_a_sparse_index_lacks(trap: Trap) -> None:
    tree = git(trap.root, "rev-parse", "HEAD:folder").strip()
    git(trap.root, "sparse-checkout", "init", "--cone", "--sparse-index")
    git(trap.root, "sparse-checkout", "set", "elsewhere")
    _lose(trap, tree)
    ask_everything(trap.root)
    assert trap.ran() == []


def _lose(trap: Trap, name: str) -> None:
    (trap.root / ".git/objects" / name[:2] / name[2:]).unlink()
    trap.set(
        "[core]\nrepositoryformatversion = 1\n[extensions]\npartialClone = origin\n"
        f'[remote "origin"]\npromisor = true\nurl = {trap.root}\n'
        "uploadpack = {upload-pack} && false\n"
    )


def test_submodules_settings_run_no_program_either(trap: Trap) -> None:
    commit(trap.root / "sub", "f.py")
    git(trap.root, "add", "sub")
    git(trap.root, "commit", "--quiet", "-m", "with a submodule")
    (trap.root / "sub/.gitattributes").write_text("*.py filter=plain\n")
    (trap.root / "sub/f.py").write_text("word = 2\n")
    trap.set(_PROGRAMS.replace("worktreeConfig = true", ""), "../sub/.git/config")
    trap.set("[diff]\nignoreSubmodules = none\nsubmodule = diff\n")
    ask_everything(trap.root)
    with throwaway(trap.root) as copy:
        assert (copy / "sub").is_dir()
    assert trap.ran() == []


def test_a_folder_of_a_clone_that_poses_as_a_repository_runs_no_program(trap: Trap) -> None:
    """All of it can be tracked: a bare repository has no ``.git``."""
    change(trap.root)
    (trap.root / ".gitattributes").write_text(_ATTRIBUTES)
    trap.set(f"[core]\nworktree = {trap.root}\n{_PROGRAMS}")
    for path in [*(trap.root / ".git").iterdir()]:
        path.rename(trap.root / path.name)
    (trap.root / ".git").rmdir()
    ask_everything(trap.root)
    with pytest.raises(GitFailed):
        run_git(trap.root, "diff", "HEAD")
    assert trap.ran() == []


# -- the person's own settings --------------------------------------------------------------------


@pytest.fixture
def persons(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], object]:
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    return lambda text: (home / ".gitconfig").write_text(text)


@pytest.mark.parametrize("named_too", [False, True], ids=["alone", "named by the repository too"])
def test_a_filter_of_the_person_runs(
    trap: Trap, persons: Callable[[str], object], named_too: bool
) -> None:
    own = trap.program("persons")
    persons(f'[filter "lfs"]\nclean = {own} && echo pointer && cat >/dev/null\nrequired = true\n')
    if named_too:  # as git lfs install --local does
        trap.set('[filter "lfs"]\nclean = {repositorys} && cat\nrequired = true\n')
    (trap.root / ".gitattributes").write_text("a.py filter=lfs\n")
    change(trap.root)
    said = run_git(trap.root, "diff", "HEAD", "--", "a.py")
    assert b"+pointer" in said
    assert trap.ran() == ["persons"]


# -- what it costs --------------------------------------------------------------------------------


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the list to which each process of git adds its command."""
    started: list[str] = []
    run = subprocess.run

    def counted(command: list[str], **how: object) -> object:
        started.append(command[3])
        return run(command, **how)  # type: ignore[call-overload]

    monkeypatch.setattr(subprocess, "run", counted)
    return started


def test_settings_are_read_once_and_again_when_they_change(trap: Trap, commands: list[str]) -> None:
    change(trap.root)
    for _ in range(3):
        run_git(trap.root, "ls-files")
    assert commands == ["config", "ls-files", "ls-files", "ls-files"]

    commands.clear()
    (trap.root / ".gitattributes").write_text("*.py filter=plain\n")
    trap.set('[filter "plain"]\nclean = {clean} && cat\n')
    run_git(trap.root, "diff", "HEAD")
    assert commands == ["config", "diff"]

    commands.clear()
    trap.set("[extensions]\nworktreeConfig = true\n")
    run_git(trap.root, "diff", "HEAD")
    trap.set('[filter "plain"]\nprocess = {process}\n', "config.worktree")
    run_git(trap.root, "diff", "HEAD")
    assert commands == ["config", "diff", "config", "diff"]
    assert trap.ran() == []


def test_settings_that_are_included_are_read_each_time(trap: Trap, commands: list[str]) -> None:
    change(trap.root)
    (trap.root / ".gitattributes").write_text("*.py filter=plain\n")
    trap.set("[include]\npath = ../more\n")
    run_git(trap.root, "diff", "HEAD")
    (trap.root / "more").write_text(f'[filter "plain"]\nclean = {trap.program("clean")} && cat\n')
    run_git(trap.root, "diff", "HEAD")
    assert commands == ["config", "diff", "config", "diff"]
    assert trap.ran() == []


# -- what goes wrong ------------------------------------------------------------------------------


def test_a_git_that_cannot_be_told_is_not_asked(
    trap: Trap, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = tmp_path / "bin" / "git"
    old.parent.mkdir()
    old.write_text("#!/bin/sh\nprintf 'local\\0core.bare\\nfalse\\0'\n")
    old.chmod(0o755)
    monkeypatch.setenv("PATH", f"{old.parent}:/usr/bin:/bin")
    with pytest.raises(GitFailed, match=r"Install git 2\.31"):
        run_git(trap.root, "ls-files")


def test_more_settings_than_fit_into_an_environment_are_an_error(trap: Trap) -> None:
    trap.set("".join(f'[filter "{"x" * 200}{n}"]\nclean = cat\n' for n in range(10_000)))
    with pytest.raises(GitFailed, match="ls-files cannot be started"):
        run_git(trap.root, "ls-files")


def test_settings_that_cannot_be_read_are_an_error(trap: Trap) -> None:
    trap.set("[filter\n")
    with pytest.raises(GitFailed, match="git config failed"):
        run_git(trap.root, "ls-files")

"""``vivace completion``: what it writes and takes back, and the Tab key in real shells."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pexpect
import pytest
from click.testing import CliRunner

from tests.support.files import ROOT
from vivace.cli.completion import SHELLS, completion
from vivace.cli.main import commands

every_shell = pytest.mark.parametrize("shell", SHELLS)
PATIENCE_S = 60


class Desk:
    """A person with a home of their own, and ``vivace`` on the PATH."""

    def __init__(self, home: Path) -> None:
        self.home = home
        programs = home / "bin"
        programs.mkdir()
        program = programs / "vivace"
        start = "from vivace.cli.main import main; main()"
        program.write_text(f"#!{sys.executable}\n{start}\n")
        program.chmod(0o755)
        self.environment = {
            "HOME": str(home),
            "PATH": f"{programs}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT / "src"),
            "TERM": "dumb",
            "LC_ALL": "C.UTF-8",
        }

    def does(self, *arguments: str) -> str:
        unset = ("XDG_DATA_HOME", "XDG_CONFIG_HOME", "ZDOTDIR", "BASH_COMPLETION_USER_DIR")
        runner = CliRunner(env=dict.fromkeys(unset) | self.environment)
        done = runner.invoke(completion, arguments)
        assert done.exit_code == 0, (done.exception, done.output)
        return done.output

    def files(self) -> dict[str, str]:
        found = (path for path in self.home.rglob("*") if path.is_file())
        names = {str(path.relative_to(self.home)): path for path in found}
        return {name: path.read_text() for name, path in names.items() if name != "bin/vivace"}


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


@every_shell
def test_without_write_the_script_is_printed_and_nothing_is_changed(desk: Desk, shell: str) -> None:
    assert f"_VIVACE_COMPLETE={shell}_complete" in desk.does(shell)
    assert desk.files() == {}


@every_shell
def test_what_is_written_is_shown_and_taken_back(desk: Desk, shell: str) -> None:
    said = desk.does(shell, "--write", "--yes")
    assert f"+# Written by: vivace completion {shell}" in said
    assert f"vivace completion {shell} --undo" in said
    assert any(desk.does(shell) == text for text in desk.files().values())

    desk.does(shell, "--undo", "--yes")
    assert desk.files() == {}


@every_shell
def test_written_again_nothing_changes(desk: Desk, shell: str) -> None:
    desk.does(shell, "--write", "--yes")
    before = desk.files()
    assert "nothing was changed" in desk.does(shell, "--write", "--yes")
    assert desk.files() == before


@every_shell
def test_where_there_is_nothing_to_undo_it_says_so(desk: Desk, shell: str) -> None:
    assert "nothing to undo" in desk.does(shell, "--undo", "--yes")


def test_a_persons_own_zshrc_comes_back_as_it_was(desk: Desk) -> None:
    own = "# Mine.\nsetopt autocd   # no newline follows"
    start = desk.home / ".zshrc"
    start.write_text(own)

    desk.does("zsh", "--write", "--yes")
    assert start.read_text().startswith(own)
    assert "completion.zsh" in start.read_text()

    desk.does("zsh", "--undo", "--yes")
    assert desk.files() == {".zshrc": own}


def test_a_completion_that_somebody_wrote_by_hand_is_not_taken_away(desk: Desk) -> None:
    own = desk.home / ".config/fish/completions/vivace.fish"
    own.parent.mkdir(parents=True)
    own.write_text("# Mine.\n")
    assert "nothing to undo" in desk.does("fish", "--undo", "--yes")
    assert own.read_text() == "# Mine.\n"


def completed(desk: Desk, line: str, *, directory: Path | None = None) -> list[str]:
    """What click tells bash for this line."""
    words = line.split(" ")
    asked = {
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(words) - 1),
        "_VIVACE_COMPLETE": "bash_complete",
    }
    ran = subprocess.run(
        ["vivace"],
        capture_output=True,
        text=True,
        env=desk.environment | asked,
        cwd=directory or desk.home,
        check=True,
    )
    return ran.stdout.split()


def test_commands_options_and_choices_are_completed(desk: Desk) -> None:
    names = commands.list_commands(click.Context(commands))
    assert completed(desk, "vivace ") == [f"plain,{name}" for name in names]
    assert completed(desk, "vivace connect co") == ["plain,codex", "plain,continue"]
    assert completed(desk, "vivace keys ")[0].startswith("plain,")
    assert "plain,--quiet" in completed(desk, "vivace ask --")
    assert completed(desk, "vivace check --format s") == ["plain,sarif"]


def test_files_are_left_to_the_shell(desk: Desk) -> None:
    assert completed(desk, "vivace edit sho") == ["file,sho"]
    assert completed(desk, "vivace check sho") == ["file,sho"]


def loaded_for(desk: Desk, line: str, word: int) -> tuple[str, list[str]]:
    """What is told, and which modules of ours were imported: somebody waits at each Tab."""
    program = (
        "import sys\n"
        "from vivace.cli.main import commands\n"
        "try:\n"
        "    commands.main([], prog_name='vivace')\n"
        "except SystemExit:\n"
        "    found = [name for name in sys.modules if name.startswith('vivace.')]\n"
        "    print(*sorted(found), file=sys.stderr)\n"
    )
    asked = {"COMP_WORDS": line, "COMP_CWORD": str(word), "_VIVACE_COMPLETE": "bash_complete"}
    ran = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env=desk.environment | asked,
        check=True,
    )
    return ran.stdout, ran.stderr.split()


def test_names_of_commands_are_completed_without_importing_them(desk: Desk) -> None:
    told, loaded = loaded_for(desk, "vivace ", 1)
    assert "plain,ask" in told
    names = ["cli", "cli.main", "cli.output", "errors", "visible"]
    assert loaded == [f"vivace.{name}" for name in names]


@pytest.mark.parametrize("command", ["serve", "up"])
def test_options_are_completed_without_importing_a_server(desk: Desk, command: str) -> None:
    told, loaded = loaded_for(desk, f"vivace {command} --", 2)
    assert "plain,--" in told
    assert f"vivace.cli.{command}" in loaded
    assert [name for name in loaded if name.startswith("vivace.engines")] == []


# -- real shells ----------------------------------------------------------------------------------


def spawn(desk: Desk, shell: str, *arguments: str) -> pexpect.spawn[str]:
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"needs {shell}")
    child: pexpect.spawn[str] = pexpect.spawn(
        program,
        list(arguments),
        env=desk.environment | {"PS1": "> "},
        cwd=str(desk.home),
        encoding="utf-8",
        timeout=PATIENCE_S,
        dimensions=(40, 200),
    )
    return child


@pytest.fixture
def bash(desk: Desk) -> Iterator[pexpect.spawn[str]]:
    """As it is after ``--write``, with or without the package bash-completion."""
    desk.does("bash", "--write", "--yes")
    child = spawn(desk, "bash", "--norc", "--noprofile")
    try:
        child.sendline("source .local/share/bash-completion/completions/vivace; echo re''ady")
        child.expect("ready")
        yield child
    finally:
        child.close(force=True)


def test_tab_in_bash_completes_a_command(bash: pexpect.spawn[str]) -> None:
    bash.send("vivace doct\t")
    bash.expect_exact("vivace doctor ")


def test_tab_in_bash_completes_an_option_and_its_choice(bash: pexpect.spawn[str]) -> None:
    bash.send("vivace check --form\t")
    bash.expect_exact("vivace check --format ")
    bash.send("sa\t")
    bash.expect_exact("sarif ")


def test_tab_in_bash_completes_a_file(bash: pexpect.spawn[str], desk: Desk) -> None:
    (desk.home / "warehouse.py").write_text("")
    bash.send("vivace edit wareh\t")
    bash.expect_exact("vivace edit warehouse.py ")


def test_tab_in_zsh_completes_a_command(desk: Desk) -> None:
    desk.does("zsh", "--write", "--yes")
    child = spawn(desk, "zsh", "-i")
    try:
        child.expect("> ")
        child.send("vivace doct\t")
        child.expect_exact("vivace doctor")
    finally:
        child.close(force=True)


def test_fish_completes_a_command(desk: Desk) -> None:
    desk.does("fish", "--write", "--yes")
    child = spawn(desk, "fish", "-c", "complete --do-complete 'vivace doct'")
    try:
        child.expect_exact("doctor")
    finally:
        child.close(force=True)

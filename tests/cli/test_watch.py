"""``vivace watch`` as a person meets it: in a pipe, as JSON, and in a terminal."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pexpect
import pytest

import vivace
from tests.support.commands import run_command
from tests.support.editing import Project, answers, ended
from tests.support.server import RunningGateway
from tests.support.waiting import eventually

CODE = """\
def total(prices):
    result = 0
    for price in prices:
        result -= price
    return result
"""
FIXED = CODE.replace("-=", "+=")
TEST = "from sums import total\n\nassert total([2, 3]) == 5, total([2, 3])\n"
ASKED = "Apply this change [y,n,a,d,q,?]? "


class Watched(Project):
    def __init__(self, folder: Path, gateway: RunningGateway) -> None:
        super().__init__(folder, gateway)
        # The same Vivace that is under test, wherever its checkout is.
        self.home.environment["PYTHONPATH"] = str(Path(vivace.__file__).parents[1])
        self.sums = self.root / "sums.py"
        self.sums.write_text(CODE)
        (self.root / "test_sums.py").write_text(TEST)
        self.play(answers(FIXED))

    def command(self, *arguments: str) -> list[str]:
        return self.home.command("watch", "--url", self.gateway.url, *arguments)

    @property
    def test(self) -> tuple[str, ...]:
        # Python's cache of compiled files does not see one of the same size saved within a second.
        fresh = ("PYTHONSAFEPATH=", "PYTHONDONTWRITEBYTECODE=1")
        return ("--", "env", *fresh, sys.executable, "test_sums.py")

    def watch(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self.edit(*arguments)

    def events(self, *arguments: str) -> list[dict[str, Any]]:
        _, _, _, *command = self.command("--json", *arguments)
        ran = run_command(*command, folder=self.root, environment=self.home.environment)
        return [json.loads(line) for line in ran.stdout.splitlines()]


@pytest.fixture
def project(tmp_path: Path, gateway: RunningGateway) -> Watched:
    return Watched(tmp_path, gateway)


@contextmanager
def watched(project: Watched, *arguments: str) -> Iterator[pexpect.spawn[str]]:
    with project.terminal(*arguments, *project.test) as child:
        yield child


def test_in_a_pipe_the_fix_is_printed_as_git_takes_it_and_nothing_is_written(
    project: Watched,
) -> None:
    ran = project.process("--once", *project.test)
    assert ran.returncode == 1, ran.stderr
    assert "passes with it" in ran.stderr
    assert "AssertionError: -5" in ran.stderr
    assert project.sums.read_text() == CODE
    diff = ran.stdout[ran.stdout.index("--- a/sums.py") :]
    project.git("apply", stdin=diff)
    assert project.sums.read_text() == FIXED


def test_json_tells_each_event_on_a_line(project: Watched) -> None:
    events = project.events("--once", *project.test)
    assert [each["event"] for each in events] == ["began", "failed", "asking", "proposed"]
    _, failed, asking, proposed = events
    assert failed["status"] == 1
    assert failed["failures"][0]["frames"] == [
        {"path": "test_sums.py", "line": 3, "name": "<module>"}
    ]
    assert asking["place"] == "total in sums.py (lines 1-5)"
    assert proposed["passed"] is True
    assert (proposed["path"], proposed["model"]) == ("sums.py", "local-model")
    assert proposed["hunks"] == [
        {"line": 4, "old": ["        result -= price\n"], "new": ["        result += price\n"]}
    ]
    assert project.sums.read_text() == CODE


@pytest.mark.parametrize("status", [0, 7])
def test_once_ends_with_the_status_of_the_command(project: Watched, status: int) -> None:
    assert project.watch("--once", "--", f"exit {status}").returncode == status


def test_once_ends_as_a_shell_says_it_when_a_signal_ended_the_command(project: Watched) -> None:
    assert project.watch("--once", "--", "kill -9 $$").returncode == 137


def test_without_a_command_it_is_wrong_use(project: Watched) -> None:
    assert project.watch("--once").returncode == 2
    assert project.watch("--once", "--", "").returncode == 2


def test_options_of_the_command_are_its_own(project: Watched) -> None:
    ran = project.watch("--once", "printf", "%s|", "--once", "a b")
    assert ran.stdout == "--once|a b|"


def test_what_is_accepted_is_written_checked_and_can_be_taken_back(project: Watched) -> None:
    with watched(project, "--once") as child:
        child.expect_exact("fails (status 1")
        child.expect_exact("passes with it")
        child.expect_exact(ASKED)
        assert project.sums.read_text() == CODE
        child.send("y\r")
        child.expect_exact("sums.py  +1 -1")
        child.expect_exact("passes (")
        assert ended(child) == 0
    assert project.sums.read_text() == FIXED
    project.undo()
    assert project.sums.read_text() == CODE


def test_what_is_rejected_leaves_everything_as_it_was(project: Watched) -> None:
    with watched(project, "--once") as child:
        child.expect_exact(ASKED)
        child.send("n\r")
        child.expect_exact("nothing was written")
        assert ended(child) == 1
    assert project.sums.read_text() == CODE


def test_a_save_runs_it_again_and_ctrl_c_ends_it(project: Watched) -> None:
    with watched(project) as child:
        child.expect_exact(ASKED)
        project.sums.write_text(FIXED)  # before anything is answered
        child.expect_exact("saved: sums.py")
        child.expect_exact("Waiting for a save")
        child.sendcontrol("c")
        child.expect_exact("stopped")
        assert ended(child) == 130


def test_our_own_write_is_no_save(project: Watched) -> None:
    with watched(project) as child:
        child.expect_exact(ASKED)
        child.send("y\r")
        child.expect_exact("Waiting for a save")
        (project.root / "test_sums.py").write_text(f"{TEST}\n")
        child.expect(r"saved: ([^\r\n]*)\r")
        assert isinstance(child.match, re.Match)
        assert child.match[1] == "test_sums.py"
        child.expect_exact("Waiting for a save")
        child.sendcontrol("c")
        assert ended(child) == 130
    assert project.sums.read_text() == FIXED


def test_ctrl_c_ends_the_command_too(project: Watched) -> None:
    with project.terminal("--", "echo $$ > ../pid; sleep 3600") as child:
        path = project.root.parent / "pid"
        eventually(lambda: path.exists() and path.read_text().strip() != "")
        child.sendcontrol("c")
        assert ended(child) == 130
    process = Path(f"/proc/{path.read_text().strip()}")
    eventually(lambda: not process.exists())

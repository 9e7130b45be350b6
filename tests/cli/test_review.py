"""``vivace review`` as a person meets it, in a pipe and in a terminal."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pexpect
import pytest

from tests.support.editing import Project, ended
from tests.support.ports import free_port
from tests.support.server import MODEL, RunningGateway
from vivace.engines.scripted import Fail, Reply, Say, Stall

RULE = """\
id: no-fetch
language: python
severity: warning
message: What is fetched is not checked.
note: It may be anything. Use checked.
rule:
  pattern: fetch($PATH)
"""
CHANGED = "def load(path):\n    file = fetch(path)\n    return file.text()\n"
REMARK = "3 | return file.text() | It is never closed.\n"
INVENTED = "2 | os.system(path) | It runs anything.\n"
HOSTILE = "3 | return file.text() | \x1b]52;c;cm0=\x07\x9b2J\u202eIt is \x1b[8mhidden.\n"


class Reviewed(Project):
    """A project with a commit, and a change since."""

    def __init__(self, folder: Path, gateway: RunningGateway) -> None:
        super().__init__(folder, gateway)
        self.commit()
        (self.root / "load.py").write_text(CHANGED)

    def commit(self) -> None:
        self.git("add", "-A")
        who = ("-c", "user.name=A", "-c", "user.email=a@example.org")
        self.git(*who, "commit", "--quiet", "--allow-empty", "-m", "a commit")

    def rule(self) -> None:
        (self.root / "vivace-rules").mkdir()
        (self.root / "vivace-rules/no-fetch.yml").write_text(RULE)
        self.commit()
        (self.root / "load.py").write_text(f"{CHANGED}\n")
        self.git("rm", "-q", "--cached", "load.py")

    def says(self, *said: str) -> None:
        self.play(Reply(when="load.py", then=tuple(Say(each) for each in said)))

    def command(self, *arguments: str) -> list[str]:
        return self.home.command("review", "--url", self.gateway.url, *arguments)

    def review(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return self.edit(*arguments, **environment)


@pytest.fixture
def project(tmp_path: Path, gateway: RunningGateway) -> Reviewed:
    return Reviewed(tmp_path, gateway)


# -- text -----------------------------------------------------------------------------------------


def test_a_remark_is_a_line_with_its_place(project: Reviewed) -> None:
    project.says(REMARK)
    ran = project.process()
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == "load.py:3:5: note: It is never closed. [remark]\n"
    said = rf"no findings, 1 remark by {MODEL} in 1 changed file, \d+\.\d s\n"
    assert re.fullmatch(said, ran.stderr)


def test_paths_are_told_from_where_one_stands(project: Reviewed) -> None:
    (project.root / "sub").mkdir()
    project.says(REMARK)
    ran = project.edit_in(project.root / "sub")
    assert ran.stdout.startswith("../load.py:3:5: ")


def test_rules_look_at_the_new_lines_and_decide_the_exit_status(project: Reviewed) -> None:
    project.rule()
    ran = project.review("--no-model")
    assert ran.returncode == 1, ran.stderr
    assert ran.stdout.startswith("load.py:2:12: warning: What is fetched is not checked.")
    assert ran.stderr.startswith("1 warning in 1 changed file")
    assert project.gateway.witness.events == []


def test_remarks_that_quote_nothing_are_dropped_and_counted(project: Reviewed) -> None:
    project.says(INVENTED, REMARK, INVENTED)
    ran = project.review()
    assert ran.stdout.count("\n") == 1
    assert "dropped: 2 remarks that quoted no new line" in ran.stderr


def test_a_commit_can_be_named(project: Reviewed) -> None:
    project.commit()
    assert project.review("--no-model").stderr.startswith("no findings in 0 changed files")
    assert project.review("HEAD~1", "--no-model").stderr.startswith("no findings in 1 changed file")


def test_nothing_changed_asks_nobody(project: Reviewed) -> None:
    project.commit()
    ran = project.review()
    assert (ran.returncode, ran.stdout) == (0, "")
    assert project.gateway.witness.events == []


def test_a_remark_is_told_while_the_rest_is_written(project: Reviewed) -> None:
    project.play(Reply(then=(Say(REMARK), Stall(3600))))
    with subprocess.Popen(
        project.command(),
        cwd=project.root,
        env=project.home.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert b"never closed" in process.stdout.readline()
        assert process.poll() is None
        process.send_signal(2)
        assert process.wait() == 130


# -- documents ------------------------------------------------------------------------------------


def test_json_has_findings_and_remarks_apart(project: Reviewed) -> None:
    project.says(REMARK, INVENTED)
    (project.root / ".env").write_text("KEY=1\n")
    said: dict[str, Any] = json.loads(project.review("--format", "json").stdout)
    assert said["findings"] == []
    (remark,) = said["remarks"]
    assert (remark["path"], remark["line"], remark["rule"]) == ("load.py", 3, "remark")
    assert (said["dropped"], said["files"], said["model"]) == (1, 2, MODEL)
    assert [each["path"] for each in said["skipped"]] == [".env"]
    assert said["error"] is None


def test_sarif_says_what_a_remark_is(project: Reviewed) -> None:
    project.says(REMARK)
    (run,) = json.loads(project.review("--format", "sarif").stdout)["runs"]
    (result,) = run["results"]
    assert result["level"] == "note"
    (rule,) = run["tool"]["driver"]["rules"]
    assert rule["id"] == result["ruleId"] == "remark"


def test_markdown_goes_to_a_file(project: Reviewed) -> None:
    project.says(REMARK)
    ran = project.review("--format", "markdown", "-o", "review.md")
    assert (ran.returncode, ran.stdout) == (0, "")
    assert (project.root / "review.md").read_text() == (
        "## Review: no findings, 1 remark\n\n"
        "### `load.py`\n\n"
        "- **line 3, note** (remark): It is never closed.\n"
        "  `return file.text()`\n"
    )


def test_a_file_that_cannot_be_written_is_said(project: Reviewed) -> None:
    ran = project.review("--no-model", "--format", "json", "-o", "none/review.json")
    assert ran.returncode == 2
    assert "none/review.json cannot be written" in ran.stderr


# -- whom it asks ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "environment", "asked"),
    [
        (["-m", "other"], {}, "other"),
        (["--deep"], {}, "deep"),
        (["--deep"], {"VIVACE_DEEP": "large"}, "large"),
    ],
)
def test_the_model_that_is_named_is_asked(
    project: Reviewed, options: list[str], environment: dict[str, str], asked: str
) -> None:
    ran = project.review(*options, **environment)
    assert ran.returncode == 2
    assert asked in ran.stderr


@pytest.mark.parametrize("options", [["--no-model", "--deep"], ["-m", "x", "--deep"]])
def test_contradictions_are_wrong_use(project: Reviewed, options: list[str]) -> None:
    assert project.review(*options).returncode == 2


def test_without_a_server_findings_are_told_and_then_how_to_start_one(project: Reviewed) -> None:
    project.rule()
    ran = project.review("--url", f"http://127.0.0.1:{free_port()}/v1")
    assert ran.returncode == 2
    assert "load.py:2:12: warning" in ran.stdout
    assert "vivace up" in ran.stderr
    assert "Traceback" not in ran.stderr


def test_an_engine_that_fails_leaves_what_it_remarked(project: Reviewed) -> None:
    project.play(Reply(then=(Say(REMARK), Fail("The engine is unwell."))))
    ran = project.review("--format", "json")
    said = json.loads(ran.stdout)
    assert ran.returncode == 2
    assert len(said["remarks"]) == 1
    assert "unwell" in said["error"]


@pytest.mark.parametrize("revision", ["nowhere", "HEAD..main", "--", "-x"])
def test_what_is_no_commit_is_said(project: Reviewed, revision: str) -> None:
    ran = project.review(revision, "--no-model")
    assert ran.returncode in (0, 2) if revision == "--" else ran.returncode == 2
    assert "Traceback" not in ran.stderr


def test_outside_of_a_repository_it_says_what_to_do(project: Reviewed) -> None:
    ran = project.edit_in(project.home.folder, "--no-model")
    assert ran.returncode == 2
    assert "vivace check" in ran.stderr


# -- what others wrote ----------------------------------------------------------------------------


@contextmanager
def in_terminal(project: Reviewed, *arguments: str) -> Iterator[pexpect.spawn[str]]:
    with project.terminal(*arguments) as child:
        yield child


@pytest.mark.parametrize(
    "form",
    [
        "text",
        "json",
        pytest.param("markdown", marks=pytest.mark.release),  # printed as JSON is
        pytest.param("sarif", marks=pytest.mark.release),
    ],
)
def test_neither_remarks_nor_code_steer_the_terminal(project: Reviewed, form: str) -> None:
    hostile = CHANGED.replace("return", "'\x1b]0;title\x07\u202e'; return")
    (project.root / "load.py").write_text(hostile)
    project.says(HOSTILE)
    with in_terminal(project, "--format", form) as child:
        assert ended(child) == 0
        shown = str(child.before)
    assert "hidden" in shown
    ours = re.sub(r"\x1b\[\d*m", "", shown)
    assert not set(ours) & {"\x1b", "\x07", "\x9b", "\u202e"}


def test_a_terminal_shows_the_line_a_remark_is_about(project: Reviewed) -> None:
    project.says(REMARK)
    with in_terminal(project) as child:
        child.expect_exact("It is never closed.")
        child.expect_exact("     3 |     return file.text()")
        assert ended(child) == 0


def test_a_pipe_gets_one_line_for_each_remark_whatever_is_in_it(project: Reviewed) -> None:
    project.says(HOSTILE)
    ran = project.review()
    assert ran.stdout.count("\n") == 1
    assert not set(ran.stdout) & {"\x1b", "\x07", "\x9b", "\u202e"}


def test_git_settings_of_the_environment_do_not_matter(project: Reviewed) -> None:
    project.says(REMARK)
    ran = project.review(GIT_DIR=os.devnull, GIT_EXTERNAL_DIFF="false")
    assert ran.stdout.startswith("load.py:3:5: ")

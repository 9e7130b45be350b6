"""``vivace check``: what a person, a hook and CI see and get."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pexpect
import pytest
import yaml
from click.testing import CliRunner, Result

from tests.support.rules import RULES, SHELL, YAML, write
from vivace.cli.main import commands

REPOSITORY = Path(__file__).parents[2]
PROGRAM = "from vivace.cli.main import main; main()"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "vivace-rules").mkdir()
    (folder / "vivace-rules" / "own.yml").write_text(RULES)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(folder)
    return folder


def run(*arguments: str) -> Result:
    return CliRunner().invoke(commands, ["check", "--no-bundled", *arguments])


def ran(status: int, *arguments: str) -> Result:
    result = run(*arguments)
    assert result.exit_code == status, result.output
    return result


def value(*arguments: str) -> Any:
    return json.loads(run(*arguments).stdout)


SAID = "shell.py:5:5: error: A shell reads 'ls ' + name. Give a list instead. [test-shell, CWE-78]"


# -- what is told ---------------------------------------------------------------------------------


def test_findings_are_lines_for_programs_and_the_sum_is_for_people(root: Path) -> None:
    write(root, shell=SHELL, p__yaml=YAML)
    result = ran(1)
    assert result.stdout.splitlines() == [
        "p/yaml.py:5:12: warning: This makes any object. Read plain values. [test-yaml, CWE-502]",
        SAID,
    ]
    assert "1 error, 1 warning in 2 files, 10 lines" in result.stderr
    assert "3 of vivace-rules/own.yml" in result.stderr
    assert "1 can be fixed" in result.stderr


def test_paths_are_told_as_one_would_type_them(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    write(root, p__shell=SHELL)
    monkeypatch.chdir(root / "p")
    assert ran(1).stdout.startswith("shell.py:5:5: ")
    assert value("--format", "json")["findings"][0]["path"] == "p/shell.py"


def test_nothing_found_is_said_and_is_no_failure(root: Path) -> None:
    assert "no findings in 0 files" in ran(0).stderr
    write(root, a="x = 1\n")
    assert "no findings in 1 file, 1 lines" in ran(0).stderr


def test_a_reason_in_the_code_silences_a_finding(root: Path) -> None:
    quiet = "name)  # vivace: ignore[test-shell] only we call it"
    write(root, a=SHELL.replace("name)\n", f"{quiet}\n"))
    ran(0)
    write(root, a=SHELL.replace("name)\n", f"{quiet.removesuffix('only we call it')}\n"))
    assert "suppression-without-reason" in ran(1).stdout


@pytest.mark.parametrize(
    ("options", "status"),
    [
        (["--severity", "error"], 0),
        (["--without", "test-yaml"], 0),
        (["--severity", "warning"], 1),
        (["--no-bugs"], 1),
    ],
)
def test_what_is_left_out_does_not_count(root: Path, options: list[str], status: int) -> None:
    write(root, a=YAML)
    ran(status, *options)


def test_bugs_can_be_left_out(root: Path) -> None:
    write(root, a="def f(x, nan):\n    return x == nan\n")
    assert "test-nan" in ran(1).stdout
    ran(0, "--no-bugs")


def test_json_is_one_object_with_what_was_left_out(root: Path) -> None:
    write(root, a=SHELL)
    (root / "odd.py").write_bytes(b"\0")
    told = value("--format", "json")
    assert [each["rule"] for each in told["findings"]] == ["test-shell"]
    assert told["skipped"] == [{"path": "odd.py", "why": "it is not text"}]
    assert (told["version"], told["files"], told["lines"], told["known"]) == (1, 1, 5, 0)


def test_sarif_names_the_rules_and_can_go_to_a_file(root: Path) -> None:
    write(root, a=SHELL)
    result = ran(1, "--format", "sarif", "--output", "out.sarif")
    assert result.stdout.startswith("a.py:5:5: error: ")  # for who reads the log
    (sarif,) = json.loads((root / "out.sarif").read_text())["runs"]
    (rule,) = sarif["tool"]["driver"]["rules"]
    assert rule["id"] == sarif["results"][0]["ruleId"] == "test-shell"
    assert "external/cwe/cwe-078" in rule["properties"]["tags"]


def test_text_can_go_to_a_file(root: Path) -> None:
    write(root, a=SHELL)
    shown = ran(1, "-o", "out.txt").stdout
    assert (root / "out.txt").read_text() == shown


def test_nothing_foreign_reaches_the_terminal(root: Path) -> None:
    write(root, **{"a\x1b[2J": SHELL.replace("'ls '", "'\x1b]0;owned\x07'")})
    result = ran(1)
    assert "\x1b" not in result.output
    assert "\x07" not in result.output
    assert json.loads(run("--format", "json").stdout)


def test_many_files_that_were_not_looked_at_are_counted(root: Path) -> None:
    for number in range(25):
        (root / f"b{number}.py").write_bytes(b"\0")
    told = [line for line in ran(0).stderr.splitlines() if line.startswith("not looked at: ")]
    assert len(told) == 21
    assert told[-1].startswith("not looked at: 5 more")


# -- what is known --------------------------------------------------------------------------------


def test_a_baseline_holds_back_what_it_knows(root: Path) -> None:
    write(root, a=SHELL)
    assert "known.json" in ran(0, "--write-baseline", "known.json").stderr
    assert "held back as known: 1" in ran(0, "--baseline", "known.json").stderr
    write(root, a=f"\n\n{SHELL}", b=YAML)
    result = ran(1, "--baseline", "known.json")
    assert "test-yaml" in result.stdout
    assert "test-shell" not in result.stdout
    write(root, a="x = 1\n", b="x = 1\n")
    assert "1 of the baseline not met" in ran(0, "--baseline", "known.json").stderr


# -- mending --------------------------------------------------------------------------------------


def test_fixes_are_shown_applied_and_taken_back(root: Path) -> None:
    write(root, a=YAML, b=SHELL)
    shown = ran(1, "--diff")
    assert "-    return yaml.load(file)\n+    return yaml.safe_load(file)\n" in shown.stdout
    assert (root / "a.py").read_text() == YAML
    result = ran(1, "--fix")
    assert "+    return yaml.safe_load(file)" in result.stdout
    assert "1 finding fixed in 1 file. To take it back: vivace undo" in result.stderr
    assert "test-yaml" not in result.stdout
    assert "safe_load" in (root / "a.py").read_text()
    assert CliRunner().invoke(commands, ["undo"]).exit_code == 0
    assert (root / "a.py").read_text() == YAML


def test_a_file_that_cannot_be_fixed_is_told_and_the_others_are_fixed(root: Path) -> None:
    write(root, a=YAML, b=YAML)
    (root / "a.py").chmod(0o444)
    result = ran(1, "--fix")
    assert "not fixed: a.py: a.py was not touched: it is read-only." in result.stderr
    assert "1 finding fixed in 1 file." in result.stderr
    assert "+++ b/b.py" in result.stdout
    assert "+++ b/a.py" not in result.stdout
    assert (root / "a.py").read_text() == YAML
    assert "safe_load" in (root / "b.py").read_text()


def test_when_all_is_fixed_nothing_is_left_to_fail(root: Path) -> None:
    write(root, a=YAML)
    ran(0, "--fix")


# -- what stops it --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nothing.py"], "nothing.py"),
        (["--baseline", "nothing.json"], "--write-baseline nothing.json"),
        (["--rules", "nothing.yml"], "nothing.yml"),
        (["--without", "test-shel"], "'test-shell'"),
        (["--changed", "HEAD"], "git"),
        (["--output", "no/such/folder"], "no/such/folder"),
        (["--format", "xml"], "xml"),
        (["--fix", "--format", "json"], "--format text"),
        (["--write-baseline", "a", "--fix"], "--write-baseline"),
        (["--jobs", "0"], "--jobs"),
    ],
)
def test_what_cannot_run_says_why_and_ends_with_two(
    root: Path, arguments: list[str], said: str
) -> None:
    write(root, a=YAML)
    result = CliRunner().invoke(commands, ["check", "--no-bundled", "-o", "out", *arguments])
    assert result.exit_code == 2
    assert said in result.stderr
    assert "Traceback" not in result.output


def test_a_wrong_rule_stops_it(root: Path) -> None:
    (root / "vivace-rules" / "own.yml").write_text("id: [")
    assert "vivace-rules/own.yml, line " in ran(2).stderr


# -- a terminal, a hook, CI -----------------------------------------------------------------------


def test_in_a_terminal_the_line_is_quoted_and_a_secret_is_not(root: Path) -> None:
    secret = (
        RULES
        + "---\n"
        + (
            "id: test-secret\nlanguage: python\nmessage: A secret.\n"
            "rule: {pattern: KEY = $A}\nmetadata: {cwe: 798}\n"
        )
    )
    (root / "vivace-rules" / "own.yml").write_text(secret)
    write(root, a=SHELL + "KEY = 'hunter2'\n")
    with pexpect.spawn(
        sys.executable,
        ["-c", PROGRAM, "check", "--no-bundled"],
        cwd=str(root),
        env=os.environ | {"TERM": "xterm", "COLUMNS": "200"},
    ) as terminal:
        shown = terminal.read()
    terminal.close()
    assert terminal.exitstatus == 1
    assert b"5 |     os.system('ls ' + name)" in shown
    assert b"test-secret" in shown
    assert b"hunter2" not in shown


def test_on_a_pipe_there_is_no_bar_and_no_colour(root: Path) -> None:
    write(root, a=SHELL)
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, "check", "--no-bundled"],
        cwd=root,
        capture_output=True,
        check=False,
    )
    assert ended.returncode == 1
    assert b"\x1b" not in ended.stdout + ended.stderr
    assert b"\r" not in ended.stderr


def test_the_hook_and_the_action_call_what_there_is() -> None:
    (hook,) = yaml.safe_load((REPOSITORY / ".pre-commit-hooks.yaml").read_text())
    assert shlex.split(hook["entry"])[:2] == ["vivace", "check"]
    action = yaml.safe_load((REPOSITORY / "action.yml").read_text())
    steps = action["runs"]["steps"]
    (script,) = [step["run"] for step in steps if "vivace check" in step.get("run", "")]
    assert "${{" not in script, "what others wrote is given to a shell as a variable, not as text"
    known = {name for option in commands.get_command(None, "check").params for name in option.opts}  # type: ignore[union-attr,arg-type]
    used = {
        word
        for word in shlex.split(script, comments=True)
        if word.startswith("--") and word != "--"
    }
    assert used
    assert used <= known

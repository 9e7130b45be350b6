"""The workflows of GitHub: what they run is fixed, and none may do more than it has to."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.files import ROOT

WORKFLOWS = {path.stem: path for path in (ROOT / ".github/workflows").glob("*.yml")}
EXAMPLES = [path for path in (ROOT / "docs").rglob("*.md") if "uses:" in path.read_text("utf-8")]
every_workflow = pytest.mark.parametrize("name", sorted(WORKFLOWS))


def jobs(name: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(WORKFLOWS[name].read_text("utf-8"))["jobs"]
    return found


def steps(name: str) -> Iterator[dict[str, Any]]:
    for job in jobs(name).values():
        yield from job["steps"]


@pytest.mark.parametrize(
    "path", [*WORKFLOWS.values(), ROOT / "action.yml", *EXAMPLES], ids=lambda path: path.name
)
def test_an_action_is_named_by_its_commit_and_for_people_by_its_version(path: Path) -> None:
    """A tag can be moved, to code that nobody has looked at."""
    lines = [line for line in path.read_text("utf-8").splitlines() if "uses:" in line]
    lines = [line for line in lines if "OWNER/vivace@REVISION" not in line]
    assert lines
    fixed = r"\s+(- )?uses: [\w-]+/[\w/-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+"
    assert [line for line in lines if not re.fullmatch(fixed, line)] == []


def test_the_action_runs_no_python_of_the_pull_request(tmp_path: Path) -> None:
    """The action's steps run in the checkout, which ``python -m`` would import from."""
    steps = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))["runs"]["steps"]
    (script,) = [step["run"] for step in steps if "python" in step.get("run", "")]
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/python").symlink_to(sys.executable)
    checkout = tmp_path / "checkout"
    checkout.mkdir()
    (checkout / "pip.py").write_text("open('ran', 'w').close()\n")
    path = os.pathsep.join((str(tmp_path / "bin"), os.environ["PATH"]))
    variables = {**os.environ, "PATH": path, "ACTION": str(tmp_path / "none")}
    ended = subprocess.run(
        ["bash", "-e", "-c", script], cwd=checkout, env=variables, capture_output=True
    )
    assert ended.returncode != 0, "there is nothing to be installed"
    assert not (checkout / "ran").exists()


@every_workflow
def test_a_workflow_may_only_read_and_a_job_of_it_runs_no_code_with_more(name: str) -> None:
    whole = yaml.safe_load(WORKFLOWS[name].read_text("utf-8"))
    assert whole["permissions"] == {"contents": "read"}
    for job in whole["jobs"].values():
        if "permissions" in job:
            assert "environment" in job  # somebody approves it
            assert [step for step in job["steps"] if "run" in step] == []


@every_workflow
def test_nothing_that_a_stranger_names_reaches_a_shell(name: str) -> None:
    """A branch or a tag may be called anything."""
    assert [step for step in steps(name) if "${{" in step.get("run", "")] == []


@every_workflow
def test_no_credentials_stay_in_a_checkout(name: str) -> None:
    checkouts = [step for step in steps(name) if "actions/checkout" in step.get("uses", "")]
    assert all(step["with"]["persist-credentials"] is False for step in checkouts)


def test_the_tests_are_those_of_a_contributor() -> None:
    ran = [step["run"] for step in steps("tests") if "run" in step]
    assert ran == ["scripts/install", "scripts/data", "scripts/check", "scripts/test"]


def test_nightly_runs_both_suites() -> None:
    ran = [step["run"] for step in steps("nightly") if "run" in step]
    assert {"scripts/check", "scripts/test --all", "scripts/test-vllm --all"} <= set(ran)


def test_a_release_is_built_tried_and_then_published_without_a_secret() -> None:
    ran = [step["run"] for step in jobs("release")["build"]["steps"] if "run" in step]
    assert ran[-2:] == ["scripts/release --audit", "scripts/release"]
    assert jobs("release")["publish"]["needs"] == "build"
    assert "secrets." not in WORKFLOWS["release"].read_text("utf-8")

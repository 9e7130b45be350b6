"""What the demonstration says of a result is true."""

from __future__ import annotations

import ast

import pytest

from vivace.cli.demonstration.sample import (
    ASKED_DEFAULT,
    INSTRUCTION,
    PATH,
    REDIRECT,
    REDIRECTED_DEFAULT,
    judge,
    line_count,
    sample,
)
from vivace.edits.attempt import Task, plan
from vivace.edits.context import Context

SIGNATURE = "def fetch(self, path: str, query: dict | None = None) -> dict:"
CALL = 'self.send("GET", address, None, 30)'


def changed(default: int = 10, *, name: str = "timeout", passed: str = "timeout") -> str:
    """The sample after the change."""
    parameter = f"query: dict | None = None, {name}: float = {default}"
    text = sample().replace(SIGNATURE, SIGNATURE.replace("query: dict | None = None", parameter))
    return text.replace(CALL, CALL.replace("30", passed))


def test_the_sample_is_a_python_module_of_400_lines_and_names_what_is_asked() -> None:
    ast.parse(sample())
    assert line_count() == 400
    assert sample().count(SIGNATURE) == sample().count(CALL) == 1
    assert f"default {ASKED_DEFAULT}" in INSTRUCTION
    assert str(REDIRECTED_DEFAULT) in REDIRECT


def test_vivace_edit_would_show_the_model_nothing_but_the_function() -> None:
    region = plan(Task(PATH, sample(), INSTRUCTION), Context(), "qwen2.5-coder-0.5b").region
    assert region.name == "Warehouse.fetch"
    assert len(region) < 40


@pytest.mark.parametrize("default", [ASKED_DEFAULT, REDIRECTED_DEFAULT])
def test_the_change_that_was_asked_is_right(default: int) -> None:
    verdict = judge(changed(default), default)
    assert verdict.right
    assert (verdict.added, verdict.removed, verdict.others) == (2, 2, 0)


@pytest.mark.parametrize("way", ["keyword only", "by name", "no annotation"])
def test_other_ways_to_the_same_are_right_too(way: str) -> None:
    text = {
        "keyword only": changed().replace("timeout: float", "*, timeout: float"),
        "by name": changed(passed="seconds=timeout"),
        "no annotation": changed().replace("timeout: float = 10", "timeout=10"),
    }[way]
    assert judge(text, 10).right


@pytest.mark.parametrize(
    "text",
    [
        sample(),
        changed(name="seconds", passed="seconds"),
        changed(5),
        changed(passed="30"),
        changed().replace("timeout: float = 10", "timeout: float"),
        changed() + "def (",
        changed().replace("def fetch", "def get"),
    ],
    ids=["nothing", "other name", "other default", "not passed", "no default", "broken", "renamed"],
)
def test_what_was_not_asked_is_not_done(text: str) -> None:
    assert not judge(text, 10).done


def test_other_changes_are_counted_and_are_not_right() -> None:
    text = changed().replace("LOW = 5\n", "LOW = 6\n").replace('"""Something the', '"""What the')
    text = text.replace("status == 404", "status == 410")  # in the function itself
    verdict = judge(text, 10)
    assert verdict.done
    assert verdict.others == 6
    assert not verdict.right


def test_a_file_that_lost_its_end_is_not_right() -> None:
    text = changed()
    verdict = judge(text[: text.index("# Watching")], 10)
    assert verdict.done
    assert verdict.others > 30

"""The plain ways to an edit: what they make of answers, good ones and others."""

from __future__ import annotations

import pytest
from bench.edit_runs.plain import PLAIN, Plain, Read
from bench.edit_runs.prompts import Unfit, replaced
from bench.edit_runs.tasks import Task

from tests.bench.edit_runs.cache_task import BOUNDARY
from vivace.syntax.lines import dedented, lines_of, margin_of

TASK = BOUNDARY
RIGHT = TASK.reference
FILE = "def f():\n    a = 1\n    return a\n\n\ndef g():\n    return 2\n"


def block(old: str, new: str) -> str:
    return f"<<<<<<< SEARCH\n{old}=======\n{new}>>>>>>> REPLACE\n"


def fenced(code: str) -> str:
    return f"Here it is:\n\n```python\n{code}```\n\nI hope this helps."


def region_of(text: str) -> str:
    """The method that the task names, as it is shown."""
    lines = lines_of(text)
    start = next(at for at, line in enumerate(lines) if "def is_expired" in line)
    end = next(at for at in range(start + 1, len(lines)) if not lines[at].strip())
    margin = margin_of(lines[start:end])
    return "".join(dedented(line, margin) for line in lines[start:end])


def changed_block() -> str:
    pairs = zip(lines_of(TASK.text), lines_of(RIGHT), strict=True)
    [(old, new)] = [pair for pair in pairs if pair[0] != pair[1]]
    return block(old, new)


ANSWERS = {
    "rewrite": fenced(RIGHT),
    "search_replace": changed_block(),
    "region": fenced(region_of(RIGHT)),
}
UNCHANGED = {
    "rewrite": fenced(TASK.text),
    "search_replace": block("        self.misses = 0\n", "        self.misses = 0\n"),
    "region": fenced(region_of(TASK.text)),
}
every_arm = pytest.mark.parametrize("arm", PLAIN)


def read(arm: str, answer: str, task: Task = TASK, *, complete: bool = True) -> Read:
    trying = Plain(task, arm)
    for at in range(0, len(answer), 7):
        trying.feed(answer[at : at + 7])
    return trying.finish(complete=complete)


@every_arm
def test_a_good_answer_becomes_the_right_file(arm: str) -> None:
    found = read(arm, ANSWERS[arm])
    assert found.text is not None, found.why
    assert TASK.judge(found.text).outcome == "right"


@every_arm
def test_an_answer_that_changes_nothing_is_refused(arm: str) -> None:
    found = read(arm, UNCHANGED[arm])
    assert found.text is None
    assert "chang" in found.why


@every_arm
def test_an_answer_that_was_cut_off_is_refused(arm: str) -> None:
    assert read(arm, ANSWERS[arm], complete=False).text is None


@every_arm
def test_a_file_that_would_not_parse_is_refused(arm: str) -> None:
    found = read(arm, ANSWERS[arm].replace(">=", ">= )"))
    assert found.text is None
    assert "does not parse" in found.why


@every_arm
def test_what_is_wrong_but_parses_is_applied(arm: str) -> None:
    found = read(arm, ANSWERS[arm].replace(">=", "!="))
    assert found.text is not None
    assert TASK.judge(found.text).outcome != "right"


@every_arm
def test_another_try_is_told_why_and_sees_its_answer(arm: str) -> None:
    trying = Plain(TASK, arm)
    trying.feed(UNCHANGED[arm])
    trying.finish(complete=True)
    after = trying.again()
    assert after.items[: len(trying.items)] == trying.items
    answered, asked = after.items[-2:]
    assert answered.content == UNCHANGED[arm]
    assert "chang" in str(asked.content)
    assert "Answer again" in str(asked.content)


def test_the_region_is_shown_alone() -> None:
    shown = str(Plain(TASK, "region").items[-1].content)
    assert region_of(TASK.text) in shown
    assert "def purge" not in shown


@pytest.mark.parametrize("arm", ["rewrite", "search_replace"])
def test_a_change_is_shown_before_the_answer_ends(arm: str) -> None:
    trying = Plain(TASK, arm)
    shown = [trying.feed(f"{line}\n") for line in ANSWERS[arm].splitlines()]
    assert any(shown)


# -- search/replace -------------------------------------------------------------------------------


def test_all_blocks_are_applied() -> None:
    answer = block("    a = 1\n", "    a = 3\n") + block("    return 2\n", "    return 4\n")
    assert replaced(FILE, answer) == FILE.replace("a = 1", "a = 3").replace("2", "4")


def test_blocks_may_be_in_a_fence_with_words_around() -> None:
    answer = fenced(block("    a = 1\n", "    a = 3\n"))
    assert replaced(FILE, answer) == FILE.replace("a = 1", "a = 3")


@pytest.mark.parametrize("old", ["a = 1\nreturn a\n", "    a = 1  \n    return a\n"])
def test_white_space_may_differ(old: str) -> None:
    margin = old[: len(old) - len(old.lstrip())]
    new = f"{margin}if a:\n{margin}    return 3\n"
    wanted = "def f():\n    if a:\n        return 3\n"
    assert replaced(FILE, block(old, new)).startswith(wanted)


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ("no idea", "no SEARCH/REPLACE block"),
        (block("", "x = 1\n"), "empty"),
        (block("\n", "\n"), "empty"),
        (block("    b = 1\n", "    b = 2\n"), "no lines that match"),
        (block("    return a\n", "") + block("    return a\n", ""), "no lines that match"),
    ],
)
def test_a_block_that_does_not_fit_is_refused(answer: str, why: str) -> None:
    with pytest.raises(Unfit, match=why):
        replaced(FILE, answer)


def test_lines_that_stand_there_twice_are_refused() -> None:
    with pytest.raises(Unfit, match="2 times"):
        replaced(FILE + FILE, block("    a = 1\n", "    a = 3\n"))

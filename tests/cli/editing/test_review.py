"""Which hunks are left after a person was asked."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from vivace.cli.editing.review import agreed, review
from vivace.desk.applying import Accepted
from vivace.desk.targets import Target, open_target
from vivace.syntax.finding import Finding
from vivace.syntax.hunk import Hunk
from vivace.workspace.paths import Workspace

HUNKS = [Hunk(at, (f"{at}\n",), (f"new {at}\n",)) for at in (1, 2, 20, 40)]
"""Three changes: the first two hunks stand together."""


@pytest.fixture
def targets(tmp_path: Path) -> list[Target]:
    for name in ("a.py", "b.py"):
        (tmp_path / name).write_text("".join(f"{number}\n" for number in range(50)))
    return [open_target(Workspace(tmp_path), str(tmp_path / name)) for name in ("a.py", "b.py")]


class Person:
    def __init__(self, *answers: str | None) -> None:
        self.answers = list(answers)

    async def __call__(self, question: str) -> str | None:
        return self.answers.pop(0)


@pytest.mark.parametrize(
    ("answers", "first", "second"),
    [
        ("yyyyyy", [0, 1, 2, 3], [0, 1, 2, 3]),
        ("nynyny", [2], [0, 1, 3]),
        ("aa", [0, 1, 2, 3], [0, 1, 2, 3]),
        ("yda", [0, 1], [0, 1, 2, 3]),
        ("yyyq", [0, 1, 2, 3], []),
        ("q", [], []),
        ("?x y?yyyyy", [0, 1, 2, 3], [0, 1, 2, 3]),
    ],
)
def test_answers_decide(
    targets: list[Target], answers: str, first: list[int], second: list[int]
) -> None:
    person = Person(*answers)
    accepted = asyncio.run(review([Accepted(target, tuple(HUNKS)) for target in targets], person))
    assert [list(each.hunks) for each in accepted] == [
        [HUNKS[at] for at in first],
        [HUNKS[at] for at in second],
    ]
    assert not person.answers


def test_who_leaves_takes_nothing_more(targets: list[Target]) -> None:
    accepted = asyncio.run(review([Accepted(targets[0], tuple(HUNKS))], Person("Y", None)))
    assert list(accepted[0].hunks) == HUNKS[:2]


def doubt(person: str, lines: tuple[int, int] | None) -> Finding:
    return Finding("dropped", person, "Keep it.", "warning", lines)


def test_a_suspicion_stands_beside_the_hunk_it_is_about(
    targets: list[Target], capsys: pytest.CaptureFixture[str]
) -> None:
    doubts = (doubt("It drops a call.", (20, 21)), doubt("It loses f.", None))
    shown: list[str] = []

    async def ask(question: str) -> str:
        shown.append(capsys.readouterr().out)
        return "y"

    asyncio.run(review([Accepted(targets[0], tuple(HUNKS), doubts)], ask))
    assert ["It loses f." in each for each in shown] == [True, False, False]
    assert ["! It drops a call." in each for each in shown] == [False, True, False]
    assert shown[1].index("+new 20") < shown[1].index("It drops a call.")


def test_of_one_change_that_was_shown_already_the_suspicion_is_still_said(
    targets: list[Target], capsys: pytest.CaptureFixture[str]
) -> None:
    added = Hunk(20, (), ("new\n",))
    edit = Accepted(targets[0], (added,), (doubt("It is never used.", (20, 20)),))
    asyncio.run(review([edit], Person("n")))
    assert "It is never used." in capsys.readouterr().out


@pytest.mark.parametrize("seen", [True, False])
def test_one_change_alone_is_shown_unless_it_stands_there_already(
    targets: list[Target], capsys: pytest.CaptureFixture[str], seen: bool
) -> None:
    above = HUNKS[2:3] if seen else HUNKS[:1]
    asyncio.run(review([Accepted(targets[0], tuple(HUNKS[2:3]))], Person("y"), above))
    assert ("+new 20" in capsys.readouterr().out) is not seen


def test_who_accepts_all_is_still_asked_about_what_is_suspicious(targets: list[Target]) -> None:
    edit = Accepted(targets[0], tuple(HUNKS), (doubt("It drops a call.", (20, 21)),))
    person = Person("a", "n")
    accepted = asyncio.run(review([edit], person))
    assert list(accepted[0].hunks) == [HUNKS[0], HUNKS[1], HUNKS[3]]
    assert not person.answers


@pytest.mark.parametrize("pasted", ["yclear; vivace edit", "yes please", "a b", "yy", "\x1b[A", ""])
def test_what_only_begins_like_an_answer_is_none(targets: list[Target], pasted: str) -> None:
    accepted = asyncio.run(review([Accepted(targets[0], tuple(HUNKS))], Person(pasted, "q")))
    assert list(accepted[0].hunks) == []


def test_escape_leaves_out_all_that_follows(targets: list[Target]) -> None:
    accepted = asyncio.run(review([Accepted(targets[0], tuple(HUNKS))], Person("yes", "\x1b")))
    assert list(accepted[0].hunks) == HUNKS[:2]


@pytest.mark.parametrize(
    ("answer", "yes"), [("y", True), ("YES", True), ("", False), ("n", False), (None, False)]
)
def test_only_yes_is_yes(answer: str | None, yes: bool) -> None:
    assert asyncio.run(agreed(Person(answer), "Sure?")) is yes

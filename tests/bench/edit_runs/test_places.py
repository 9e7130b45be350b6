"""Whether a region is the right one, and what somebody who knows the place would select."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from bench.edit_runs.places import changed_lines, definitions_around, region_right
from bench.edit_runs.tasks import Task
from bench.edit_sets.syntax import Span

from bench.edit_sets import Verdict

FILE = """import os


def one():
    return 1


def two():
    return 2


def three():
    return 3
"""
ONE, TWO, THREE = Span(3, 5), Span(7, 9), Span(11, 13)


@dataclass(frozen=True, kw_only=True)
class Edited(Task):
    """The file above, and what it becomes."""

    after: str | None

    @property
    def text(self) -> str:
        return FILE

    @property
    def reference(self) -> str | None:
        return self.after

    def judge(self, text: str) -> Verdict:
        raise NotImplementedError

    def lay_out(self, folder: Path) -> None:
        raise NotImplementedError


def edited(*changes: tuple[str, str]) -> Task:
    after = FILE
    for old, new in changes:
        assert old in after
        after = after.replace(old, new)
    return _task(after)


def _task(after: str | None) -> Task:
    return Edited(
        id="a", set="made up", language="python", kinds=(), path="a.py", instruction="", after=after
    )


CHANGED_TWO = edited(("return 2", "return 22"))
AT_THE_END_OF_TWO = edited(("return 2\n", "return 2\n    # done\n"))
ONE_AND_THREE = edited(("return 1", "return 11"), ("return 3", "return 33"))
WITH_IMPORT = edited(("import os\n", "import os\nimport re\n"), ("return 2", "return re.X"))
ONLY_IMPORT = edited(("import os\n", "import os\nimport re\n"))
NEW_FUNCTION = edited(
    ("\n\ndef three", "\n\ndef between():\n    return 2.5\n\n\ndef three"),
)


@pytest.mark.parametrize(
    ("task", "regions", "right"),
    [
        (CHANGED_TWO, [TWO], True),
        (CHANGED_TWO, [ONE], False),
        (CHANGED_TWO, [], False),
        (AT_THE_END_OF_TWO, [TWO], True),
        (AT_THE_END_OF_TWO, [THREE], False),
        (ONE_AND_THREE, [ONE], False),
        (ONE_AND_THREE, [ONE, THREE], True),
        (ONE_AND_THREE, [Span(3, 13)], True),
        (WITH_IMPORT, [TWO], True),
        (NEW_FUNCTION, [TWO], True),
        (NEW_FUNCTION, [THREE], True),
        (NEW_FUNCTION, [ONE], False),
        (ONLY_IMPORT, [TWO], False),
        (ONLY_IMPORT, [Span(0, 1)], True),
    ],
)
def test_a_region_is_right_that_holds_every_changed_line(
    task: Task, regions: list[Span], *, right: bool
) -> None:
    assert region_right(task, regions) is right


def test_a_region_that_is_too_large_is_none() -> None:
    assert region_right(CHANGED_TWO, [Span(0, 13)], most=12) is False
    assert region_right(CHANGED_TWO, [Span(0, 13)], most=13) is True


def test_where_no_edit_is_right_no_region_is() -> None:
    assert region_right(_task(None), [TWO]) is None
    assert definitions_around(_task(None)) is None


@pytest.mark.parametrize(
    ("task", "lines"),
    [
        (CHANGED_TWO, (8, 9)),
        (AT_THE_END_OF_TWO, (8, 9)),
        (ONE_AND_THREE, (4, 13)),
        (WITH_IMPORT, (8, 9)),
        (NEW_FUNCTION, (8, 9)),
    ],
)
def test_the_definitions_around_a_change_are_told(task: Task, lines: tuple[int, int]) -> None:
    assert definitions_around(task) == lines


def test_lines_that_go_and_lines_that_come_are_counted() -> None:
    assert changed_lines("a\nb\nc\n", "a\nx\ny\nc\n") == 3
    assert changed_lines(FILE, FILE) == 0

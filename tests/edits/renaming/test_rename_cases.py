"""Renames never break code: each case is run before and after, and says the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.edits.renaming.rename_cases import CASES, Case, output_of
from vivace.edits.attempt import Attempt, Outcome, Task, plan
from vivace.edits.context import Context
from vivace.edits.placing.locate import rename_scope
from vivace.edits.renaming import renames
from vivace.syntax.source import Source

_DONE = [case for case in CASES if case.outcome == "done"]
_REFUSED = [case for case in CASES if case.outcome != "done"]


def _id(case: Case) -> str:
    return f"{case.main.rpartition('.')[2]}-{case.name}"


def _renamed(case: Case) -> Outcome:
    task = Task(case.path, case.files[case.path], case.ask, elsewhere=case.elsewhere)
    made = plan(task, Context(), "qwen2.5-coder-0.5b")
    assert made.known is not None
    attempt = Attempt(made)
    attempt.feed(made.known)
    return attempt.finish()


@pytest.mark.parametrize("case", _DONE, ids=_id)
def test_a_rename_that_is_proven_is_made_without_a_model(case: Case) -> None:
    outcome = _renamed(case)
    assert outcome.good, outcome.problems
    assert outcome.hunks


@pytest.mark.release
@pytest.mark.parametrize("case", _DONE, ids=_id)
def test_a_rename_that_is_proven_leaves_the_program_as_it_was(case: Case, tmp_path: Path) -> None:
    outcome = _renamed(case)
    before = output_of(case.files, case.main, tmp_path / "before")
    if before is None:
        pytest.skip(f"what {case.main} needs to run is not installed")
    after = output_of({**case.files, case.path: outcome.text}, case.main, tmp_path / "after")
    assert not before.startswith("failed")
    assert after == before, outcome.text


@pytest.mark.parametrize("case", _REFUSED, ids=_id)
def test_a_rename_that_cannot_be_proven_is_refused_with_the_reason(case: Case) -> None:
    source = Source.of(case.path, case.files[case.path])
    region = rename_scope(source, case.ask, None)
    found = renames.judged(source, region.start, region.end, case.ask, case.elsewhere)
    assert isinstance(found, renames.Doubt)
    assert case.outcome in found.why


def test_there_are_enough_of_both_in_each_language() -> None:
    assert len(_DONE) >= 30
    assert len(CASES) >= 60

"""The verdict over an edited file.

Right is an edit that does what was asked and harms nothing. Wrong is one that does not do it and
harms nothing. Damage is all that breaks something else: the file no longer compiles, what must be
kept is not, or lines changed that have nothing to do with it; what was asked may be done or not.
Where nobody could know what is meant, any edit is damage.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from bench.edit_sets.boundaries import outside, touchable
from bench.edit_sets.diffs import apply
from bench.edit_sets.languages import LANGUAGES
from bench.edit_sets.languages.python import look
from bench.edit_sets.reader import part
from bench.edit_sets.schema import Part, Subject, Task
from bench.edit_sets.syntax import Source
from bench.edit_sets.workspace import Workspace, laid_out, original

__all__ = ["Outcome", "Verdict", "compiles", "judge", "sees"]

Outcome = Literal["right", "wrong", "damage"]

_COMPILED: dict[tuple[str, str], bool] = {}


@dataclass(frozen=True)
class Verdict:
    outcome: Outcome
    why: str = ""


def judge(package: Subject, task: Task, text: str) -> Verdict:
    """What this text of the file is, as an answer to the task."""
    before = original(package, task)
    if task.expect == "stop":
        if text == before:
            return Verdict("right")
        return Verdict("damage", "was edited, though nobody could know what is meant")
    if text == before:
        return Verdict("wrong", "nothing was changed")
    if strayed := _strayed(task, before, text):
        return Verdict("damage", strayed)
    with laid_out(package, task, text) as work:
        if broken := _broken(package, work, before, text):
            return Verdict("damage", f"does not compile: {broken}")
        assert task.check is not None
        if lost := ask(work, part(task.check.kept), before, text):
            return Verdict("damage", f"not kept: {lost}")
        if missing := ask(work, part(task.check.done), before, text):
            return Verdict("wrong", f"not done: {missing}")
    return Verdict("right")


def sees(package: Subject, task: Task, text: str) -> str | None:
    """What the check that a person would give says against it, or None."""
    assert task.visible is not None
    with laid_out(package, task, text) as work:
        return LANGUAGES[task.language].run(work, task.visible)


def ask(work: Workspace, asked: Part, before: str, text: str) -> str | None:
    """What does not hold, or None; what only looks comes first, for it costs least."""
    return next(_faults(work, asked, before, text), None)


def _faults(work: Workspace, asked: Part, before: str, text: str) -> Iterator[str]:
    for pattern in asked.has:
        if not re.search(pattern, text, re.MULTILINE):
            yield f"the file lacks {pattern}"
    for pattern in asked.lacks:
        if re.search(pattern, text, re.MULTILINE):
            yield f"the file has {pattern}"
    if asked.look is not None:
        code = Source(work.task.language, text).code
        if fault := look(work, asked.look, SOURCE=text, BEFORE=before, CODE=code):
            yield fault
    if asked.program is None:
        return
    if fault := LANGUAGES[work.task.language].run(work, asked.program):
        yield fault


def _strayed(task: Task, before: str, text: str) -> str | None:
    assert task.reference is not None
    assert task.check is not None
    old, new = Source(task.language, before), Source(task.language, text)
    reference = Source(task.language, apply(task.reference, before))
    may = touchable(old, reference, task.check.may_touch)
    return outside(old, new, may, reference)


def _broken(package: Subject, work: Workspace, before: str, text: str) -> str | None:
    """Only what compiled before can be broken; else the syntax must be as good as it was."""
    if compiles(package, work.task):
        return LANGUAGES[work.task.language].builds(work)
    language = work.task.language
    worse = Source(language, text).errors and not Source(language, before).errors
    return "its syntax is broken" if worse else None


def compiles(package: Subject, task: Task) -> bool:
    """Whether the untouched file compiles, asked once."""
    key = package.sha256, task.id
    if key not in _COMPILED:
        with laid_out(package, task, original(package, task)) as work:
            _COMPILED[key] = LANGUAGES[task.language].builds(work) is None
    return _COMPILED[key]

"""Tries every task on itself: is the reference right, and is what is wrong told from it?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Set
from dataclasses import dataclass

from bench.edit_sets.diffs import apply
from bench.edit_sets.errors import BadDiff, BadSet
from bench.edit_sets.judge import ask, compiles, judge, sees
from bench.edit_sets.packages import unpacked
from bench.edit_sets.reader import EditSet, part
from bench.edit_sets.schema import Subject, Task
from bench.edit_sets.workspace import laid_out, original

__all__ = ["Row", "validate"]

FEWEST_LINES, MOST_LINES = 50, 600


@dataclass(frozen=True)
class Row:
    """One task and what is wrong with it."""

    task: Task
    lines: int
    compiles: bool
    faults: tuple[str, ...]


def validate(edits: EditSet, chosen: Callable[[Task], bool] = lambda _: True) -> Iterator[Row]:
    """One row per task, as soon as it is known."""
    folder = unpacked(edits.package)
    if not (folder / edits.package.licence_file).is_file():
        raise BadSet(f"{edits.path}: package: licence_file: the archive has no such file")
    for task in filter(chosen, edits.tasks):
        text = original(edits.package, task)
        faults = list(_faults(edits.package, task, text))
        builds = task.expect == "stop" or compiles(edits.package, task)
        yield Row(task, text.count("\n"), builds, tuple(faults))


def _faults(package: Subject, task: Task, text: str) -> Iterator[str]:
    count = text.count("\n")
    if not FEWEST_LINES <= count <= MOST_LINES:
        yield f"file: has {count} lines, not {FEWEST_LINES} to {MOST_LINES}"
    if "\r" in text:
        yield "file: has line ends of Windows; choose another"
    last = task.selection[1] if task.selection else task.cursor[0] if task.cursor else 0
    if last > count:
        yield f"selection, cursor: line {last} is behind the end"
    if task.expect == "stop":
        yield from _wrong_faults(package, task, text)
        return
    try:
        yield from _edit_faults(package, task, text)
    except BadSet as error:
        yield str(error)


def _edit_faults(package: Subject, task: Task, text: str) -> Iterator[str]:
    assert task.reference is not None
    try:
        edited = apply(task.reference, text)
        others = [apply(diff, text) for diff in task.also_right]
    except BadDiff as error:
        yield f"reference, also_right: {error}"
        return
    yield from _untouched_faults(package, task, text)
    names = ["reference", *(f"also_right {number}" for number in range(1, len(others) + 1))]
    for name, right in zip(names, [edited, *others], strict=True):
        verdict = judge(package, task, right)
        if verdict.outcome != "right":
            yield f"{name}: is judged {verdict.outcome}: {verdict.why}"
        if task.visible is not None and (seen := sees(package, task, right)):
            yield f"visible: fails with {name}: {seen}"
    yield from _wrong_faults(package, task, text, {edited, *others})


def _untouched_faults(package: Subject, task: Task, text: str) -> Iterator[str]:
    """The untouched file must keep all and have done nothing, by the checks themselves."""
    assert task.check is not None
    with laid_out(package, task, text) as work:
        if lost := ask(work, part(task.check.kept), text, text):
            yield f"check.kept: fails with the untouched file: {lost}"
        if ask(work, part(task.check.done), text, text) is None:
            yield "check.done: passes with the untouched file"


def _wrong_faults(
    package: Subject, task: Task, text: str, right: Set[str] = frozenset()
) -> Iterator[str]:
    seen = set(right)
    for number, wrong in enumerate(task.wrong, 1):
        try:
            edited = apply(wrong.diff, text)
        except BadDiff as error:
            yield f"wrong {number}: {error}"
            continue
        if edited in seen:
            yield f"wrong {number}: is the same edit as another"
        seen.add(edited)
        verdict = judge(package, task, edited)
        if verdict.outcome != wrong.tag:
            yield f"wrong {number}: tagged {wrong.tag}, judged {verdict.outcome}: {verdict.why}"

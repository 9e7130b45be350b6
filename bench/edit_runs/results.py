"""What became of a task, as the person would have met it; kept in a file, one JSON line each."""

from __future__ import annotations

import difflib
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from bench.edit_runs.places import MOST_LINES, changed_lines, region_right
from bench.edit_runs.tasks import Task
from bench.edit_sets.schema import Expect
from bench.edit_sets.syntax import Span

__all__ = ["CAUSES", "OUTCOMES", "Cause", "Done", "Outcome", "Result", "Results", "result_of"]

Outcome = Literal["right", "wrong", "damaged", "stopped"]
OUTCOMES: tuple[Outcome, ...] = ("right", "wrong", "damaged", "stopped")

Cause = Literal["place", "check", "model", "no stop"]
CAUSES: tuple[Cause, ...] = ("place", "check", "model", "no stop")
"""Why an answer is not right: the lines that were shown were not those, or it was not clear which
are meant; a check refused it; the model did not do it; or it was edited though nobody could know
what is meant."""


@dataclass(frozen=True)
class Done:
    """What one way made of a task."""

    text: str
    """The file afterwards."""
    seconds: float
    """From Enter to the applied edit, or to the word that there is none."""
    tokens: int
    requests: int
    """How often a model was asked."""
    drafted: int = 0
    """Of the tokens, those that were drafted: the others are steps of the engine."""
    first_hunk: float | None = None
    """Seconds from Enter until a change could be shown."""
    why: str = ""
    """What was said where the file was left alone."""
    codes: tuple[str, ...] = ()
    """The findings that spoke against an edit."""
    refused: str | None = None
    """The file as it would have become."""
    regions: tuple[Span, ...] | None = None
    """What the first plan showed; None where that is no question of this way."""
    most_lines: int = MOST_LINES


class Result(Struct, frozen=True, kw_only=True):
    task: str
    set: str
    language: str
    kinds: tuple[str, ...]
    expect: Expect
    arm: str
    model: str
    outcome: Outcome
    cause: Cause | None
    why: str
    codes: tuple[str, ...]
    seconds: float
    tokens: int
    drafted: int = 0
    requests: int
    regions: tuple[tuple[int, int], ...] | None
    """First and last lines, counted from 1."""
    region_right: bool | None
    changed: int
    """Lines that went and lines that came."""
    reference: int
    diff: str
    """Of what was applied, or refused."""


def result_of(task: Task, arm: str, model: str, done: Done) -> Result:
    outcome, why = _outcome(task, done)
    right = None
    if done.regions is not None:
        right = region_right(task, done.regions, done.most_lines)
    return Result(
        task=task.id,
        set=task.set,
        language=task.language,
        kinds=task.kinds,
        expect=task.expect,
        arm=arm,
        model=model,
        outcome=outcome,
        cause=_cause(task, outcome, done.codes, right),
        why=why,
        codes=done.codes,
        seconds=round(done.seconds, 3),
        tokens=done.tokens,
        drafted=done.drafted,
        requests=done.requests,
        regions=None if done.regions is None else tuple(map(_lines, done.regions)),
        region_right=right,
        changed=changed_lines(task.text, done.text),
        reference=0 if task.reference is None else changed_lines(task.text, task.reference),
        diff=_diff(task, done.text if done.refused is None else done.refused),
    )


def _lines(span: Span) -> tuple[int, int]:
    return span.start + 1, span.end


def _outcome(task: Task, done: Done) -> tuple[Outcome, str]:
    if done.text == task.text:
        return ("right" if task.expect == "stop" else "stopped"), done.why
    verdict = task.judge(done.text)
    return ("damaged" if verdict.outcome == "damage" else verdict.outcome), verdict.why


def _cause(
    task: Task, outcome: Outcome, codes: tuple[str, ...], region: bool | None
) -> Cause | None:
    if outcome == "right":
        return None
    if task.expect == "stop":
        return "no stop"
    if region is False or "unsure" in codes:
        return "place"
    return "check" if outcome == "stopped" and set(codes) - {"unchanged"} else "model"


def _diff(task: Task, after: str) -> str:
    old, new = task.text.splitlines(keepends=True), after.splitlines(keepends=True)
    return "".join(difflib.unified_diff(old, new, n=2))


class Results:
    """A run that was cut off goes on from what stands in the file."""

    def __init__(self, path: Path | None, model: str) -> None:
        self._path, self._model = path, model
        self._one_writes = threading.Lock()
        self._known: dict[tuple[str, str], Result] = {}
        if path is not None and path.exists():
            for line in path.read_bytes().splitlines():
                result = msgspec.json.decode(line, type=Result)
                if result.model == model:
                    self._known[result.task, result.arm] = result

    def has(self, task: Task, arm: str) -> bool:
        return (task.id, arm) in self._known

    def add(self, result: Result) -> None:
        with self._one_writes:
            self._known[result.task, result.arm] = result
            if self._path is not None:
                with self._path.open("ab") as file:
                    file.write(msgspec.json.encode(result) + b"\n")

    def of(self, tasks: list[Task], arms: list[str]) -> list[Result]:
        """Those that there are, by arm."""
        wanted = ((task.id, arm) for arm in arms for task in tasks)
        return [self._known[key] for key in wanted if key in self._known]

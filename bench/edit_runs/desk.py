"""The ways through the desk: what ``vivace edit --yes PATH[:LINE[-LINE]] INSTRUCTION`` does."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.edit_runs.places import MOST_LINES, definitions_around, region_right
from bench.edit_runs.results import Done
from bench.edit_runs.tasks import Task
from bench.edit_sets.syntax import Span
from vivace.desk.asking import LENIENCY
from vivace.desk.edit import Editing, Result, Settings
from vivace.desk.events import (
    Answered,
    Asked,
    AttemptFailed,
    Conflicted,
    Ended,
    Event,
    NoAttemptPassed,
    Refused,
    Unchanged,
    Wrote,
)
from vivace.desk.opening import Models, open_desk
from vivace.desk.person import Unattended
from vivace.desk.targets import open_target
from vivace.desk.too_long import TooLong
from vivace.edits.attempt import EditPlan
from vivace.edits.placing.region import Region
from vivace.workspace.errors import WorkspaceError
from vivace.workspace.paths import Workspace

__all__ = ["WAYS", "Way", "at_desk", "regions_shown", "target_of"]

_ATTEMPTS = 5


@dataclass(frozen=True)
class Way:
    told_place: bool = False
    """The definitions that the reference changes are selected."""
    attempts: int = 1
    """With the task's own check, if more than one."""
    answers: bool = False
    """Somebody is there who knows the place, and says which of those offered it is."""
    leniency: float = LENIENCY

    def fits(self, task: Task) -> bool:
        if self.attempts > 1:
            return task.check is not None
        return not (self.told_place or self.answers) or task.reference is not None


WAYS = {
    "vivace": Way(),
    "oracle": Way(told_place=True),
    "answered": Way(answers=True),
    "try": Way(attempts=_ATTEMPTS),
    **{f"lenient-{nats}": Way(leniency=nats) for nats in (0, 2, 4, 6)},
}


class Recorder(Unattended):
    """Nobody who can be asked, but who remembers what was told when."""

    def __init__(self) -> None:
        self.began = time.perf_counter()
        self.told: list[Event] = []
        self.applied: float | None = None
        self.first_hunk: float | None = None

    def tell(self, event: Event) -> None:
        self.told.append(event)
        if isinstance(event, Wrote) and self.applied is None:
            self.applied = self.after()
        if isinstance(event, Answered) and event.hunks and self.first_hunk is None:
            self.first_hunk = self.after()

    def after(self) -> float:
        return time.perf_counter() - self.began


class Knowing(Recorder):
    """Who also says which place is meant: the smallest of those offered that holds all of it, else
    all of them if together they do, else none. Looks at no change."""

    def __init__(self, task: Task) -> None:
        super().__init__()
        self._task = task

    async def chooses(self, places: Sequence[Region]) -> Sequence[Region] | None:
        each = sorted(([place] for place in places), key=lambda one: len(one[0]))
        return next((some for some in (*each, list(places)) if self._right(some)), [])

    def _right(self, places: Sequence[Region]) -> bool:
        spans = [Span(place.start, place.end) for place in places]
        return bool(region_right(self._task, spans, most=len(self._task.text)))


def at_desk(task: Task, way: Way, url: str, model: str) -> Done:
    """The task in a copy of its workspace, and what the file is then."""
    with tempfile.TemporaryDirectory(prefix="edit-runs-") as folder:
        root = Path(folder).resolve() / "work"
        task.lay_out(root)
        person = Knowing(task) if way.answers else Recorder()
        result, why = Result(), ""
        try:
            result = asyncio.run(_edited(task, way, root, person, f"{url}/v1", model))
        except (TooLong, WorkspaceError) as error:  # of any other nothing is learnt of the task
            why = str(error)
        text = (root / task.path).read_bytes().decode()
    return _done(text, person, result, way, why)


async def _edited(
    task: Task, way: Way, root: Path, person: Recorder, url: str, model: str
) -> Result:
    workspace = Workspace(root)
    tries = way.attempts > 1
    check = task.check if tries else None
    settings = Settings(True, check, way.attempts, url, leniency=way.leniency)
    target = open_target(workspace, f"{root}/{target_of(task, told_place=way.told_place)}")
    desk: Editing
    async with open_desk(workspace, person, settings, Models(model), root.parent / "state") as desk:
        return await desk.run([target], task.instruction)


def target_of(task: Task, *, told_place: bool = False) -> str:
    """The file as the person names it: with the lines that are selected, or that of the cursor."""
    lines = definitions_around(task) if told_place else task.selection
    if lines is not None:
        return f"{task.path}:{lines[0]}-{lines[1]}"
    return f"{task.path}:{task.cursor[0]}" if task.cursor is not None else task.path


def regions_shown(plan: EditPlan) -> tuple[Span, ...]:
    """The parts of the file that the model is shown to be changed."""
    return tuple(Span(each.start, each.end) for each in plan.shown.regions)


def _done(text: str, person: Recorder, result: Result, way: Way, never_asked: str) -> Done:
    plans = [event.plan for event in person.told if isinstance(event, Asked)]
    ended = [event.speed for event in person.told if isinstance(event, Ended)]
    speeds = [speed for speed in ended if speed is not None]
    # Of several attempts at once, only the one that won tells how many it wrote.
    written = sum(each.tokens for each in speeds)
    # Where the place is not clear no model is asked, and the plan has the places in question.
    planned = [] if never_asked else [*plans, *(made.plan for made in result.edits)]
    first = planned[0] if planned else None
    refused = [made.outcome.text for made in result.edits if not result.applied]
    nobody_passed = any(isinstance(event, NoAttemptPassed) for event in person.told)
    return Done(
        text=text,
        seconds=person.after() if person.applied is None else person.applied,
        tokens=sum(made.tokens for made in result.edits) if way.attempts > 1 else written,
        drafted=sum(each.drafted for each in speeds),
        first_hunk=person.first_hunk or person.applied,
        requests=_requests(plans, way, nobody_passed=nobody_passed),
        why=never_asked or _why(person) or result.status,
        codes=("cannot be asked",) if never_asked else _codes(result, nobody_passed=nobody_passed),
        refused=refused[0] if refused else None,
        regions=None if first is None else regions_shown(first),
        # What is known without a model is shown to none.
        most_lines=MOST_LINES if first is None or first.known is None else len(text),
    )


def _codes(result: Result, *, nobody_passed: bool) -> tuple[str, ...]:
    if nobody_passed:
        return ("no attempt passed",)
    problems = (each for made in result.edits for each in made.outcome.problems)
    return tuple(dict.fromkeys(each.code for each in problems))


def _requests(plans: list[EditPlan], way: Way, *, nobody_passed: bool) -> int:
    asked = sum(plan.known is None for plan in plans)
    if way.attempts == 1:
        return asked
    return way.attempts if nobody_passed else way.attempts - 1 + asked


def _why(person: Recorder) -> str:
    said: list[str] = []
    for event in person.told:
        match event:
            case Refused() | Unchanged() | AttemptFailed():
                said.append(event.why)
            case Conflicted():
                said.append(str(event.conflict))
    return " ".join(said)

"""How many seeded bugs vivace watch finds a fix for, how many are right, and how soon.

Each bug stands in a small project whose own tests fail because of it. The project's command is run
as ``vivace watch --once`` does, and what is proposed is judged by a hidden test that no model was
shown: right, wrong (the command passes with it, the hidden test does not), or none. Nobody accepts
anything, so the project's files must be the same at the end.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from typing import Any, Literal

from bench._report import Report, wilson
from bench.edit_quality import endpoint_of, say_where
from bench.watch_sets import PROJECTS, BadSet, Task, invalid, read, right
from bench.watch_sets.judge import environment, lacking
from vivace.desk.applying import Accepted, Journaled
from vivace.desk.events import NoFix
from vivace.desk.suspects import Place
from vivace.desk.tried_fixes import Fixer, Wanted
from vivace.desk.watch_events import Asking, FixFailed, Watcher, WatchEvent
from vivace.desk.watching import Round, Watching
from vivace.syntax.lines import lines_of
from vivace.workspace.index import Index
from vivace.workspace.journal import Journal
from vivace.workspace.paths import Workspace

Outcome = Literal["right", "wrong", "none"]
OUTCOMES: tuple[Outcome, ...] = ("right", "wrong", "none")


class Nobody:
    """Hears everything and accepts nothing."""

    def __init__(self) -> None:
        self.told: list[WatchEvent] = []

    def tell(self, event: WatchEvent) -> None:
        self.told.append(event)

    async def accepts(self, edit: Accepted, *, passed: bool) -> Sequence[Accepted]:
        return []

    @property
    def asked(self) -> int:
        return sum(isinstance(event, Asking) for event in self.told)

    @property
    def why(self) -> str:
        said = [event.why for event in self.told if isinstance(event, (NoFix, FixFailed))]
        return said[0] if said else ""


@dataclass(frozen=True)
class Result:
    task: Task
    outcome: Outcome
    found: Round
    placed: bool
    """Whether the file with the bug was the first that a model was asked about."""
    touched: bool
    """Whether the work tree was changed, which nobody had allowed."""
    asked: int
    why: str


@contextmanager
def own_environment() -> Iterator[None]:
    """What is run finds the python that runs this."""
    before, own = dict(os.environ), environment()
    os.environ.clear()
    os.environ.update(own)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def watched(task: Task, url: str, model: str, attempts: int, patience_s: float) -> Result:
    with tempfile.TemporaryDirectory(prefix="watch-") as folder, own_environment():
        root = Path(folder).resolve() / "project"
        root.mkdir()
        task.lay_out(root)
        person = Nobody()
        found = asyncio.run(_round(task, root, person, url, model, attempts, patience_s))
        # What the command itself leaves behind, as a build does, is the person's own doing.
        touched = any((root / name).read_text("utf-8") != text for name, text in task.wrong.items())
        return _result(task, found, person, touched=touched)


async def _round(
    task: Task,
    root: Path,
    person: Nobody,
    url: str,
    model: str,
    attempts: int,
    patience_s: float,
) -> Round:
    workspace, state = Workspace(root), root.parent / "state"
    index = Index(workspace, state)
    fixer = Fixer(workspace, "", url, None, model, None, attempts, index)
    writer = Journaled(Journal(workspace, state))
    watching = Watching(task.command, workspace, "", fixer, writer, person, patience_s=patience_s)
    try:
        return await watching.round()
    finally:
        index.close()


def _result(task: Task, found: Round, person: Nobody, *, touched: bool) -> Result:
    outcome: Outcome = "none"
    if found.fix is not None and found.fix.passed:
        made = found.fix.made
        files = {**task.wrong, str(made.target.path): made.outcome.text}
        outcome = "right" if right(task, files) else "wrong"
    places = [event.place for event in person.told if isinstance(event, Asking)]
    placed = bool(places) and f"{task.file} (" in places[0]
    return Result(task, outcome, found, placed, touched, person.asked, person.why)


# -- what it comes to -----------------------------------------------------------------------------


def tell(report: Report, results: Sequence[Result]) -> None:
    found = Counter(result.outcome for result in results)
    for outcome in OUTCOMES:
        low, high = wilson(found[outcome], len(results))
        told = f"{found[outcome]} of {len(results)} (95% interval {low:.0%} to {high:.0%})"
        report.say(outcome, told)
    for language in sorted({result.task.language for result in results}):
        here = Counter(each.outcome for each in results if each.task.language == language)
        told = "/".join(str(here[outcome]) for outcome in OUTCOMES)
        report.say(f"{language}: right/wrong/none", told)
    placed = sum(result.placed for result in results)
    report.say("first asked about the file with the bug", f"{placed} of {len(results)}")
    report.say("requests to the model, median", statistics.median(each.asked for each in results))
    proposed = [each.found.seconds for each in results if each.outcome != "none"]
    if proposed:
        report.spread("from the failure to the tried fix", proposed, "s")
    nothing = [each.found.seconds for each in results if each.outcome == "none"]
    if nothing:
        report.spread("from the failure to giving up", nothing, "s")
    touched = [each.task.id for each in results if each.touched]
    told = ", ".join(touched) or f"none of {len(results)}"
    report.goal("no work tree is changed by what nobody accepted", met=not touched, measured=told)


# -- without a model ------------------------------------------------------------------------------


@dataclass(frozen=True)
class NoModel(Fixer):
    """Only hears about which places a model would be asked, one after the other."""

    places: list[Place] = field(default_factory=list)

    async def fix(self, wanted: Wanted, watcher: Watcher) -> None:
        self.places.extend(wanted.places)


def rank(task: Task) -> int | None:
    """How many places are asked about until the one with the bug is, that one included."""
    with tempfile.TemporaryDirectory(prefix="watch-") as folder, own_environment():
        root = Path(folder).resolve() / "project"
        root.mkdir()
        task.lay_out(root)
        workspace = Workspace(root)
        fixer = NoModel(workspace, "", "", None, "")
        writer = Journaled(Journal(workspace, root.parent / "state"))
        asyncio.run(Watching(task.command, workspace, "", fixer, writer, Nobody()).round())
    asked = enumerate(fixer.places, 1)
    return next((at for at, each in asked if _holds_bug(task, each)), None)


def _holds_bug(task: Task, place: Place) -> bool:
    old, new = lines_of(task.right[task.file]), lines_of(task.wrong[task.file])
    first, end = place.lines
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(old, new, strict=False)))
    return place.path == task.file and first <= same <= end


def placed(report: Report, tasks: Sequence[Task]) -> None:
    ranks: list[int | None] = []
    for task in tasks:
        ranks.append(rank(task))
        print(f"    {task.id:<32}{ranks[-1] or 'never'}", flush=True)
    for most in (1, 2, 4):
        count = sum(each is not None and each <= most for each in ranks)
        report.say(f"the bug's own place is among the first {most}", f"{count} of {len(ranks)}")


def chosen(tasks: Sequence[Task], count: int, only: str) -> list[Task]:
    """Those with these ids, or so many, evenly spread over the languages; 0 means all."""
    if only:
        known = {task.id: task for task in tasks}
        if unknown := [each for each in only.split(",") if each not in known]:
            raise BadSet(f"There is no task {unknown[0]}.")
        return [known[each] for each in only.split(",")]
    ordered = sorted(tasks, key=lambda task: task.language)
    count = min(count, len(ordered)) or len(ordered)
    return [ordered[number * len(ordered) // count] for number in range(count)]


def validated(report: Report, tasks: Sequence[Task]) -> None:
    wrong = 0
    for task in tasks:
        said = invalid(task)
        wrong += said is not None
        print(f"    {task.id:<32}{said or 'as it should be'}", flush=True)
    report.goal("every bug is as FORMAT.md says", met=not wrong, measured=f"{wrong} are not")


def measured(report: Report, options: Any, tasks: Sequence[Task]) -> None:
    say_where(report, options)
    report.say("bugs, and fixes asked for at once", f"{len(tasks)}, {options.attempts}")
    results: list[Result] = []
    until = time.perf_counter() + 60 * options.minutes if options.minutes else float("inf")
    with endpoint_of(options) as endpoint:
        for task in tasks:
            if time.perf_counter() > until:
                break
            url = f"{endpoint.url}/v1"
            result = watched(task, url, endpoint.model, options.attempts, options.patience)
            results.append(result)
            told = f"{result.outcome:<7}{result.found.seconds:>7.1f} s  {result.asked} asked"
            print(f"    {task.id:<32}{told}  {result.why[:60]}".rstrip(), flush=True)
    if not results:
        report.goal("there is something to count", met=False, measured="no bug was tried")
        return
    report.figures["results"] = {
        each.task.id: [each.outcome, round(each.found.seconds, 2)] for each in results
    }
    tell(report, results)


def main() -> None:
    # An option cannot be called "try" in Python; it is "--try" where it is typed.
    sys.argv = ["--attempts" if each == "--try" else each for each in sys.argv]
    report, options = Report.from_arguments(
        "watch",
        "seeded bugs in small projects, mended by vivace watch and judged by hidden tests",
        "tree-sitter",
        model=("qwen2.5-coder-0.5b", "which model"),
        engine=("llamacpp", "vllm or llamacpp"),
        url=("", "an endpoint that runs already, instead of one of our own"),
        set=("projects", "projects, which prompts were tuned on, or fresh, written apart"),
        attempts=(1, "how many different fixes are asked for at once; --try is the same"),
        tasks=(0, "how many of the bugs, evenly spread over the languages; 0 for all"),
        only=("", "the bugs with these ids: ID[,ID]"),
        minutes=(0, "no further bug after so many minutes; 0 for no end"),
        patience=(60.0, "seconds that the command may take at least with a fix"),
        places=(False, "only say how soon the place of each bug is asked about; asks no model"),
        validate=(False, "only say whether every bug is as it should be; asks no model"),
    )
    started = time.perf_counter()
    try:
        tasks = chosen(read(PROJECTS.parent / options.set), options.tasks, options.only)
    except BadSet as error:
        sys.exit(str(error))
    skipped = {task.id: why for task in tasks if (why := lacking(task)) is not None}
    for why in sorted(set(skipped.values())):
        report.say(f"skipped: {list(skipped.values()).count(why)} of {len(tasks)}", why)
    tasks = [task for task in tasks if task.id not in skipped]
    if options.validate:
        validated(report, tasks)
    elif options.places:
        placed(report, tasks)
    else:
        measured(report, options, tasks)
    report.say("seconds in all", time.perf_counter() - started)
    report.end()


if __name__ == "__main__":
    main()

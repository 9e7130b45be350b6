"""How many edits of real code a small model gets right: the desk's way, and plain prompts.

Each task runs in a copy of its package, as ``vivace edit --yes`` would there, and its checker says
what became of the file: right, wrong, damaged, or left alone with a reason (stopped). ``oracle`` is
the same desk told the place; ``answered`` has somebody who says which of the places offered is
meant, where the desk would ask; ``try`` has the check that somebody would hand over and five
attempts. The plain prompts ask the same model greedily with the old text as their draft, and have
one try.
"""

from __future__ import annotations

import contextlib
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from bench import _files
from bench._edit_engine import Endpoint, serving
from bench._report import Report
from bench.edit_runs.desk import WAYS, at_desk
from bench.edit_runs.plain import PLAIN, plainly
from bench.edit_runs.results import Result, Results, result_of
from bench.edit_runs.tables import goals, tell
from bench.edit_runs.tasks import Task, chosen, tasks_of, why_skipped
from bench.edit_sets import BadSet
from vivace.protocol.items import Message

ARMS = (*WAYS, *PLAIN)
SAMPLE_MINUTES = 40
CONTEXT = 32_768
"""Tokens: a plain rewrite reads a file of 600 lines and writes it once more."""

Job = tuple[Task, str]


def done(task: Task, arm: str, endpoint: Endpoint) -> Result:
    if arm in WAYS:
        made = at_desk(task, WAYS[arm], endpoint.url, endpoint.model)
    else:
        made = plainly(task, arm, endpoint)
    return result_of(task, arm, endpoint.model, made)


def jobs_for(tasks: Sequence[Task], arms: Sequence[str], results: Results) -> list[Job]:
    """What is still to be done, in an order of which any beginning is a sample of all."""
    mixed = list(tasks)
    random.Random(1).shuffle(mixed)
    return [
        (task, arm)
        for task in mixed
        for arm in arms
        if (arm not in WAYS or WAYS[arm].fits(task)) and not results.has(task, arm)
    ]


def ran(endpoint: Endpoint, jobs: Sequence[Job], results: Results, options: Any) -> None:
    """Each result is kept and said at once, as a run takes long; none is begun after its time."""
    until = time.perf_counter() + 60 * options.minutes if options.minutes else float("inf")

    def run(job: Job) -> None:
        task, arm = job
        if time.perf_counter() > until:
            return
        result = done(task, arm, endpoint)
        results.add(result)
        told = f"{result.outcome:<9}{result.cause or '':<9}{result.seconds:>7.1f} s"
        why = result.why.partition("\n")[0][:70]
        print(f"    {arm:<16}{task.id:<40}{told}  {why}".rstrip(), flush=True)

    endpoint.ask([Message(role="user", content="Hello")], "", 1)  # the first is slow
    with ThreadPoolExecutor(options.at_once) as pool:
        for _ in pool.map(run, jobs):
            pass


@contextlib.contextmanager
def endpoint_of(options: Any) -> Iterator[Endpoint]:
    if options.url:
        yield Endpoint(options.url.rstrip("/").removesuffix("/v1"), options.model)
        return
    with serving(options.engine, options.model, context=CONTEXT) as endpoint:
        yield endpoint


def say_where(report: Report, options: Any) -> None:
    """Which model on what, and how busy the machine is with other things."""
    report.say("model", f"{options.model} on {options.url or engine_version(options.engine)}")
    report.say("load", f"{os.getloadavg()[0]:.1f} when it began")


def engine_version(engine: str) -> str:
    """Its package's; vLLM has an environment of its own, and is slow to import."""
    python = sys.executable if engine == "llamacpp" else str(_files.vllm_python())
    package = "xllamacpp" if engine == "llamacpp" else "vllm"
    asked = "import importlib.metadata as m; print(m.version(m.packages_distributions()[{!r}][0]))"
    command = [python, "-c", asked.format(package)]
    found = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return f"{engine} {found.strip()}"


def tried(report: Report, tasks: Sequence[Task]) -> list[Task]:
    """Those that can be judged here; of the others, why not."""
    why = {task.id: told for task in tasks if (told := why_skipped(task)) is not None}
    for told in dict.fromkeys(why.values()):
        skipped = [task for task, each in why.items() if each == told]
        report.say(f"skipped: {len(skipped)} of {len(tasks)} tasks", told)
    return [task for task in tasks if task.id not in why]


def arms_of(options: Any) -> list[str]:
    arms = options.arms.split(",")
    if unknown := [arm for arm in arms if arm not in ARMS]:
        raise BadSet(f"No arm is called {unknown[0]}; there are {', '.join(ARMS)}.")
    return list(arms)


def measured(report: Report, options: Any, all_tasks: Sequence[Task]) -> None:
    arms, tasks = arms_of(options), tried(report, chosen(all_tasks, options.tasks, options.only))
    results = Results(Path(options.results) if options.results else None, options.model)
    say_where(report, options)
    report.say("tasks, and how many at once", f"{len(tasks)}, {options.at_once}")
    if jobs := jobs_for(tasks, arms, results):
        with endpoint_of(options) as endpoint:
            ran(endpoint, jobs, results, options)
    found = results.of(tasks, arms)
    tell(report, found)
    if "vivace" in arms:
        whole = len(tasks) == len(all_tasks) and not jobs_for(tasks, arms, results)
        goals(report, found, options.model, whole=whole)


def main() -> None:
    report, options = Report.from_arguments(
        "edit-quality",
        "edits of real code by a small model, with a checker each",
        "tree-sitter",
        model=("qwen2.5-coder-0.5b", "which model"),
        engine=("vllm", "vllm or llamacpp"),
        url=("", "an endpoint that runs already, instead of one of our own"),
        set=(
            "tuning",
            "tuning, everyday, everyday-fresh, everyday-third, held-out, or FOLDER[,FOLDER]",
        ),
        open_held_out=(False, "open the held-out set, which is done once"),
        arms=("vivace,oracle", f"of {', '.join(ARMS)}"),
        tasks=(0, "how many of the tasks, evenly spread; 0 for all"),
        only=("", "the tasks with these ids: ID[,ID]"),
        sample=(False, f"what fits into {SAMPLE_MINUTES} minutes"),
        minutes=(0, "no further task after so many minutes; 0 for no end"),
        at_once=(1, "how many tasks are done at once; more than one makes each slower"),
        results=("", "keep every result in this file, and go on from what stands there"),
    )
    options.minutes = options.minutes or (SAMPLE_MINUTES if options.sample else 0)
    started = time.perf_counter()
    try:
        with tasks_of(options.set, open_held_out=options.open_held_out) as tasks:
            measured(report, options, tasks)
    except BadSet as error:
        sys.exit(str(error))
    report.say("seconds in all", time.perf_counter() - started)
    report.end()


if __name__ == "__main__":
    main()

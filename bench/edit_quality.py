"""How many small edits a small model gets right: Vivace's way against three plain prompts.

All ask the same model over one Responses endpoint, greedily, and have two tries. A checker per task
says whether the edited file does what was asked, and whether anything changed that may not. Prompts
and checks were tuned on some of the tasks; the others were written afterwards and are shown apart.
"""

from __future__ import annotations

import contextlib
import statistics
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from bench._edit_arms import ARMS, TRIES, Read, Try, changed_lines, room
from bench._edit_engine import Answers, Endpoint, Reply, serving
from bench._report import Report
from bench.edit_tasks import HELD_OUT, TASKS, Task
from bench.edit_tasks.running import missing_tools
from vivace.protocol.items import Message

Outcome = Literal["right", "wrong", "damage", "refused"]
OUTCOMES: tuple[Outcome, ...] = ("right", "wrong", "damage", "refused")


@dataclass(frozen=True)
class Result:
    """One task done one way, with so many tries at most."""

    task: str
    set: str
    language: str
    kind: str
    arm: str
    tries: int
    outcome: Outcome
    done: bool
    why: str
    changed: int
    reference: int
    seconds: float
    tokens: int
    asked: int
    """How often the model was asked."""


def chosen(tuned: int, held_out: int) -> list[Task]:
    """So many tasks of each set, evenly spread over it; 0 means all."""
    return [*evenly(TASKS, tuned), *evenly(HELD_OUT, held_out)]


def evenly(tasks: Sequence[Task], count: int) -> list[Task]:
    count = min(count, len(tasks)) or len(tasks)
    return [tasks[number * len(tasks) // count] for number in range(count)]


def tried(arm: str, answers: Answers, task: Task) -> list[Result]:
    """What comes of it with one try, with two and so on."""
    trying = ARMS[arm](task, answers.model)
    replies: list[Reply] = []
    results: list[Result] = []
    for tries in range(1, TRIES + 1):
        if results and results[-1].outcome != "refused":
            results.append(replace(results[-1], tries=tries))
            continue
        trying = trying.again() if results else trying
        found = asked(trying, answers, replies)
        results.append(result_of(task, arm, tries, found, replies))
    return results


def asked(trying: Try, answers: Answers, replies: list[Reply]) -> Read:
    if trying.known is not None:
        trying.feed(trying.known)
        return trying.finish(complete=True)
    replies.append(answers.ask(trying.items, trying.prediction, room(trying.prediction)))
    trying.feed(replies[-1].text)
    return trying.finish(complete=replies[-1].complete)


def result_of(task: Task, arm: str, tries: int, found: Read, replies: Sequence[Reply]) -> Result:
    outcome, done, why = outcome_of(task, found)
    after = task.text if found.text is None else found.text
    return Result(
        task=task.id,
        set="held out" if task in HELD_OUT else "tuned on",
        language=task.language,
        kind=task.kind,
        arm=arm,
        tries=tries,
        outcome=outcome,
        done=done,
        why=why,
        changed=changed_lines(task.text, after),
        reference=changed_lines(task.text, task.edited(task.reference)),
        seconds=sum(reply.seconds for reply in replies),
        tokens=sum(reply.tokens for reply in replies),
        asked=len(replies),
    )


def outcome_of(task: Task, found: Read) -> tuple[Outcome, bool, str]:
    if found.text is None:
        return "refused", False, found.why
    verdict = task.judge(found.text)
    if verdict.right:
        return "right", True, ""
    return ("damage" if verdict.damage else "wrong"), verdict.done, verdict.why


# -- the report -----------------------------------------------------------------------------------


def counts(results: Sequence[Result]) -> dict[str, int]:
    return {outcome: sum(r.outcome == outcome for r in results) for outcome in OUTCOMES}


def table(report: Report, results: Sequence[Result]) -> None:
    """Every set, every way, every number of tries: what became of the tasks."""
    print(
        f"  {'set':<12}{'way':<18}{'tries':>5}{'tasks':>7}" + "".join(f"{o:>9}" for o in OUTCOMES)
    )
    rows: list[dict[str, Any]] = []
    for name in sorted({result.set for result in results}):
        for arm in dict.fromkeys(result.arm for result in results):
            for tries in range(1, TRIES + 1):
                here = of(results, arm, tries, name)
                row = {"set": name, "way": arm, "tries": tries, "tasks": len(here), **counts(here)}
                rows.append(row)
                cells = "".join(f"{row[outcome]:>9}" for outcome in OUTCOMES)
                print(f"  {name:<12}{arm:<18}{tries:>5}{len(here):>7}{cells}", flush=True)
    report.figures["outcomes"] = rows


def of(results: Sequence[Result], arm: str, tries: int = TRIES, of_set: str = "") -> list[Result]:
    return [
        result
        for result in results
        if (result.arm, result.tries) == (arm, tries) and of_set in ("", result.set)
    ]


def table_by(report: Report, results: Sequence[Result], by: str) -> None:
    """right/wrong/damage/refused of each way with all its tries, row by row."""
    arms = list(dict.fromkeys(result.arm for result in results))
    print(f"  {'by ' + by:<24}" + "".join(f"{arm:>18}" for arm in arms))
    rows: dict[str, dict[str, dict[str, int]]] = {}
    for name in sorted({str(getattr(result, by)) for result in results}):
        rows[name] = {
            arm: counts([result for result in of(results, arm) if getattr(result, by) == name])
            for arm in arms
        }
        cells = ("/".join(map(str, row.values())) for row in rows[name].values())
        print(f"  {name:<24}" + "".join(f"{cell:>18}" for cell in cells))
    report.figures[f"by {by}"] = rows


def summed_up(report: Report, arm: str, results: Sequence[Result]) -> None:
    report.say(f"{arm}: what was asked is done, damage or not", sum(r.done for r in results))
    if sizes := size_ratios(results):
        report.say(f"{arm}: changed lines to the reference's", statistics.median(sizes))
    report.say(f"{arm}: tokens written", sum(result.tokens for result in results))
    if silent := [result for result in results if not result.asked]:
        text = f"{len(silent)}, of which {counts(silent)['right']} right"
        report.say(f"{arm}: renames, done without asking the model", text)


def size_ratios(results: Sequence[Result]) -> list[float]:
    """How much larger the right edits are than the references."""
    return [result.changed / result.reference for result in results if result.outcome == "right"]


def goals(report: Report, results: Sequence[Result]) -> None:
    """With all tries, against each plain way."""
    ours = of(results, "vivace")
    rivals = [arm for arm in dict.fromkeys(r.arm for r in results) if arm != "vivace"]
    silent = {result.task for result in ours if not result.asked}
    for arm in rivals:
        theirs = of(results, arm)
        compared(report, arm, theirs, ours)
        asked = ([r for r in each if r.task not in silent] for each in (theirs, ours))
        compared(report, f"{arm} where vivace asks the model", *asked)
    for name in sorted({result.set for result in results}):
        best = max(counts(of(results, arm, of_set=name))["right"] for arm in rivals)
        mine = counts(of(results, "vivace", of_set=name))["right"]
        report.goal(
            f"{name}: at least as many right as the best plain way",
            met=mine >= best,
            measured=f"{mine} against {best}",
        )
    damaged = counts(ours)["damage"]
    report.goal("no applied edit with damage", met=not damaged, measured=f"{damaged}")
    size = statistics.median(size_ratios(ours) or [0])
    report.goal(
        "changed lines at most 1.2 of the reference's (median of the right ones)",
        met=size <= 1.2,
        measured=f"{size:.2f}",
    )


def compared(report: Report, what: str, theirs: Sequence[Result], ours: Sequence[Result]) -> None:
    """Task by task: a count alone hides where the other is better."""
    right = {result.task for result in theirs if result.outcome == "right"}
    mine = {result.task for result in ours if result.outcome == "right"}
    report.say(
        f"right with vivace and with {what}",
        f"{len(mine)} and {len(right)} of {len(ours)}; with vivace alone {len(mine - right)}, "
        f"with the other alone {len(right - mine)}",
    )
    if "rewrite" in what:
        report.goal(
            f"at least twice as many right as with {what}",
            met=len(mine) >= 2 * len(right),
            measured=f"{len(mine) / max(1, len(right)):.1f} times",
        )


@contextlib.contextmanager
def endpoint_of(options: Any) -> Iterator[Endpoint]:
    if options.url:
        yield Endpoint(options.url.rstrip("/"), options.model)
        return
    with serving(options.engine, options.model) as endpoint:
        yield endpoint


def ran(answers: Answers, tasks: Sequence[Task], arms: Sequence[str], at_once: int) -> list[Result]:
    """Every task every way; each result is said at once, as a run takes minutes."""
    one_speaks = threading.Lock()

    def done(job: tuple[Task, str]) -> list[Result]:
        task, arm = job
        results = tried(arm, answers, task)
        with one_speaks:
            told = ", ".join(result.outcome for result in results)
            seconds, why = results[-1].seconds, results[-1].why.partition("\n")[0]
            print(f"    {arm:<16}{told:<18}{task.id:<40}{seconds:6.1f} s  {why[:60]}".rstrip())
        return results

    with ThreadPoolExecutor(at_once) as pool:
        jobs = [(task, arm) for task in tasks for arm in arms]
        return [result for results in pool.map(done, jobs) for result in results]


def main() -> None:
    report, options = Report.from_arguments(
        "edit-quality",
        "small edits by a small model, with a checker each",
        "tree-sitter",
        model=("qwen2.5-coder-0.5b", "which model"),
        engine=("vllm", "vllm or llamacpp"),
        tasks=(0, "how many of the tasks tuned on, evenly spread; 0 for all"),
        held_out=(0, "how many of the tasks held out, likewise"),
        arms=(",".join(ARMS), "which ways"),
        at_once=(12, "how many tasks are done at once"),
        url=("", "an endpoint that runs already, instead of one of our own"),
        samples=("", "keep every answer in this file, and go on from what stands there"),
    )
    arms = [arm for arm in ARMS if arm in options.arms.split(",")]
    report.say("model", f"{options.model} on {options.engine}")
    for language, tool in missing_tools().items():
        report.say(f"{language}: looked at but not run, for want of", tool)
    started = time.perf_counter()
    with endpoint_of(options) as endpoint:
        answers = Answers(endpoint, Path(options.samples) if options.samples else None)
        answers.ask([Message(role="user", content="Hello")], "", 1)  # the first is slow
        tasks = chosen(options.tasks, options.held_out)
        results = ran(answers, tasks, arms, options.at_once)
    table(report, results)
    for by in ("language", "kind"):
        table_by(report, results, by)
    for arm in arms:
        summed_up(report, arm, of(results, arm))
    report.say("seconds in all", time.perf_counter() - started)
    if "vivace" in arms and len(arms) > 1:
        goals(report, results)
    report.end()


if __name__ == "__main__":
    main()

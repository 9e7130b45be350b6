"""How many small edits a small model gets right: Vivace's way against "rewrite this file".

Both ways ask the same model over one Responses endpoint, greedily. A checker per task says whether
the edited file does what was asked, and whether anything changed that may not. Prompts and checks
were tuned on some of the tasks; the others were written afterwards and are shown apart.
"""

from __future__ import annotations

import contextlib
import json
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from bench._edit_arms import Tried, changed_lines, plain, vivace
from bench._edit_engine import Endpoint, serving
from bench._report import Report
from bench.edit_tasks import HELD_OUT, TASKS, Task
from bench.edit_tasks.running import missing_tools
from vivace.protocol.items import Message

Arm = Callable[[Endpoint, Task], Tried]
Outcome = Literal["right", "wrong", "damage", "refused"]

ARMS: dict[str, Arm] = {"plain": plain, "vivace": vivace}
OUTCOMES: tuple[Outcome, ...] = ("right", "wrong", "damage", "refused")


@dataclass(frozen=True)
class Result:
    """One task done one way."""

    task: str
    set: str
    language: str
    kind: str
    arm: str
    outcome: Outcome
    done: bool
    why: str
    changed: int
    reference: int
    seconds: float
    tokens: int
    replies: tuple[str, ...]


def chosen(count: int) -> list[Task]:
    """So many tasks, evenly spread over all of them; 0 means all."""
    return evenly([*TASKS, *HELD_OUT], count)


def evenly(tasks: Sequence[Task], count: int) -> list[Task]:
    count = min(count, len(tasks)) or len(tasks)
    return [tasks[number * len(tasks) // count] for number in range(count)]


def tried(arm: str, endpoint: Endpoint, task: Task) -> Result:
    started = time.perf_counter()
    found = ARMS[arm](endpoint, task)
    seconds = time.perf_counter() - started
    outcome, done, why = outcome_of(task, found)
    after = task.text if found.text is None else found.text
    return Result(
        task=task.id,
        set="held out" if task in HELD_OUT else "tuned on",
        language=task.language,
        kind=task.kind,
        arm=arm,
        outcome=outcome,
        done=done,
        why=why,
        changed=changed_lines(task.text, after),
        reference=changed_lines(task.text, task.edited(task.reference)),
        seconds=seconds,
        tokens=sum(reply.tokens for reply in found.replies),
        replies=tuple(reply.text for reply in found.replies),
    )


def outcome_of(task: Task, found: Tried) -> tuple[Outcome, bool, str]:
    if found.text is None:
        return "refused", False, found.why
    verdict = task.judge(found.text)
    if verdict.right:
        return "right", True, ""
    return ("damage" if verdict.damage else "wrong"), verdict.done, verdict.why


# -- the report -----------------------------------------------------------------------------------


def counts(results: Sequence[Result]) -> dict[str, int]:
    return {outcome: sum(r.outcome == outcome for r in results) for outcome in OUTCOMES}


def table(report: Report, found: dict[str, list[Result]], by: str) -> None:
    """right/wrong/damage/refused of each arm, row by row."""
    names = sorted({str(getattr(result, by)) for results in found.values() for result in results})
    heads = "".join(f"{arm + ': right/wrong/damage/refused':>40}" for arm in found)
    print(f"  {'by ' + by:<24}{heads}")
    rows: dict[str, dict[str, dict[str, int]]] = {}
    for name in names:
        rows[name] = {
            arm: counts([result for result in results if getattr(result, by) == name])
            for arm, results in found.items()
        }
        cells = ("/".join(map(str, row.values())) for row in rows[name].values())
        print(f"  {name:<24}" + "".join(f"{cell:>40}" for cell in cells))
    report.figures[f"by {by}"] = rows


def summed_up(report: Report, arm: str, results: Sequence[Result]) -> None:
    report.say(f"{arm}: outcomes", ", ".join(f"{n} {name}" for name, n in counts(results).items()))
    report.say(f"{arm}: what was asked is done, damage or not", sum(r.done for r in results))
    if sizes := size_ratios(results):
        report.say(f"{arm}: changed lines to the reference's", statistics.median(sizes))
    report.say(f"{arm}: tokens written", sum(result.tokens for result in results))
    if silent := [result for result in results if not result.replies]:
        right = counts(silent)["right"]
        text = f"{len(silent)}, of which {right} right"
        report.say(f"{arm}: renames, done without asking the model", text)


def size_ratios(results: Sequence[Result]) -> list[float]:
    """How much larger the right edits are than the references."""
    return [result.changed / result.reference for result in results if result.outcome == "right"]


def goals(report: Report, theirs: Sequence[Result], ours: Sequence[Result]) -> None:
    mine = counts(ours)
    report.say("vivace: refused of all tasks", f"{mine['refused'] / len(ours):.0%}")
    asked = {result.task for result in ours if result.replies}
    twice_as_many(report, "", theirs, ours)
    twice_as_many(
        report,
        " where the model is asked",
        [result for result in theirs if result.task in asked],
        [result for result in ours if result.task in asked],
    )
    report.goal("no applied edit with damage", met=not mine["damage"], measured=f"{mine['damage']}")
    size = statistics.median(size_ratios(ours) or [0])
    report.goal(
        "changed lines at most 1.2 of the reference's (median of the right ones)",
        met=size <= 1.2,
        measured=f"{size:.2f}",
    )


def twice_as_many(
    report: Report, where: str, theirs: Sequence[Result], ours: Sequence[Result]
) -> None:
    plain, mine = counts(theirs)["right"], counts(ours)["right"]
    ratio = mine / max(1, plain)
    report.goal(
        f"at least twice as many right as the plain rewrite{where}",
        met=ratio >= 2,
        measured=f"{mine} against {plain} of {len(ours)}: {ratio:.1f} times",
    )


@contextlib.contextmanager
def endpoint_of(options: Any) -> Iterator[Endpoint]:
    if options.url:
        yield Endpoint(options.url.rstrip("/"), options.model)
        return
    with serving(options.engine, options.model) as endpoint:
        yield endpoint


def ran(
    endpoint: Endpoint, tasks: Sequence[Task], arms: Sequence[str], options: Any
) -> list[Result]:
    """Every task every way; each result is said and kept at once, as a run takes minutes."""
    one_speaks = threading.Lock()
    if options.out:
        Path(options.out).write_text("")

    def done(job: tuple[Task, str]) -> Result:
        task, arm = job
        result = tried(arm, endpoint, task)
        with one_speaks:
            head = f"    {arm:<8}{result.outcome:<9}{task.id:<40}{result.seconds:6.1f} s"
            print(f"{head}  {result.why[:80]}".rstrip(), flush=True)
            if options.out:
                with Path(options.out).open("a", encoding="utf-8") as file:
                    file.write(json.dumps(asdict(result)) + "\n")
        return result

    with ThreadPoolExecutor(options.at_once) as pool:
        return list(pool.map(done, [(task, arm) for task in tasks for arm in arms]))


def main() -> None:
    report, options = Report.from_arguments(
        "edit-quality",
        "small edits by a small model, with a checker each",
        "tree-sitter",
        model=("qwen2.5-coder-0.5b", "which model"),
        engine=("vllm", "vllm or llamacpp"),
        tasks=(0, "how many tasks, evenly spread; 0 for all"),
        arms=("plain,vivace", "which ways"),
        at_once=(4, "how many tasks are done at once"),
        url=("", "an endpoint that runs already, instead of one of our own"),
        out=("", "a file for the result of each task, as JSON lines"),
    )
    arms = [arm for arm in ARMS if arm in options.arms.split(",")]
    report.say("model", f"{options.model} on {options.engine}")
    for language, tool in missing_tools().items():
        report.say(f"{language}: looked at but not run, for want of", tool)
    started = time.perf_counter()
    with endpoint_of(options) as endpoint:
        endpoint.ask([Message(role="user", content="Hello")], "", 1)  # the first is slow
        results = ran(endpoint, chosen(options.tasks), arms, options)
    found = {arm: [result for result in results if result.arm == arm] for arm in arms}
    for by in ("set", "language", "kind"):
        table(report, found, by)
    for arm in arms:
        summed_up(report, arm, found[arm])
    report.say("seconds in all", time.perf_counter() - started)
    if set(found) >= {"plain", "vivace"}:
        goals(report, found["plain"], found["vivace"])
    report.end()


if __name__ == "__main__":
    main()

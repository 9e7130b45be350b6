"""How many small edits a small model gets right: Vivace's way against "rewrite this file".

Both ways ask the same model over one Responses endpoint, greedily. A checker per task says whether
the edited file does what was asked, and whether anything changed that may not.
"""

from __future__ import annotations

import contextlib
import json
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from bench._edit_arms import Tried, changed_lines, plain, vivace
from bench._edit_engine import Endpoint, serving
from bench._report import Report
from bench.edit_tasks import TASKS, Task
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
    count = min(count, len(TASKS)) or len(TASKS)
    return [TASKS[number * len(TASKS) // count] for number in range(count)]


def tried(arm: str, endpoint: Endpoint, task: Task) -> Result:
    started = time.perf_counter()
    found = ARMS[arm](endpoint, task)
    seconds = time.perf_counter() - started
    outcome, done, why = outcome_of(task, found)
    after = task.text if found.text is None else found.text
    return Result(
        task=task.id,
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
    if silent := sum(not result.replies for result in results):
        report.say(f"{arm}: done without asking the model (renames)", silent)
    report.spread(f"{arm}: time per task", [result.seconds for result in results], "s")


def size_ratios(results: Sequence[Result]) -> list[float]:
    """How much larger the right edits are than the references."""
    return [result.changed / result.reference for result in results if result.outcome == "right"]


def goals(report: Report, theirs: Sequence[Result], ours: Sequence[Result]) -> None:
    plain, mine = counts(theirs), counts(ours)
    report.say("vivace: refused of all tasks", f"{mine['refused'] / len(ours):.0%}")
    ratio = mine["right"] / max(1, plain["right"])
    report.goal(
        "at least twice as many right as the plain rewrite",
        met=ratio >= 2,
        measured=f"{mine['right']} against {plain['right']} of {len(ours)}: {ratio:.1f} times",
    )
    report.goal("no applied edit with damage", met=not mine["damage"], measured=f"{mine['damage']}")
    size = statistics.median(size_ratios(ours) or [0])
    report.goal(
        "changed lines at most 1.2 of the reference's (median of the right ones)",
        met=size <= 1.2,
        measured=f"{size:.2f}",
    )


@contextlib.contextmanager
def endpoint_of(options: Any) -> Iterator[Endpoint]:
    if options.url:
        yield Endpoint(options.url.rstrip("/"), options.model)
        return
    with serving(options.engine, options.model) as endpoint:
        yield endpoint


def ran(endpoint: Endpoint, tasks: Sequence[Task], arms: Sequence[str], out: str) -> list[Result]:
    """Every task every way; each result is said and kept at once, as a run takes minutes."""
    results: list[Result] = []
    lines: list[str] = []
    for task in tasks:
        for arm in arms:
            result = tried(arm, endpoint, task)
            results.append(result)
            head = f"    {arm:<8}{result.outcome:<9}{task.id:<40}{result.seconds:6.1f} s"
            print(f"{head}  {result.why[:80]}".rstrip(), flush=True)
            lines.append(json.dumps(asdict(result)) + "\n")
            if out:
                Path(out).write_text("".join(lines), "utf-8")
    return results


def main() -> None:
    report, options = Report.from_arguments(
        "edit-quality",
        "small edits by a small model, with a checker each",
        "tree-sitter",
        model=("qwen2.5-coder-0.5b", "which model"),
        engine=("vllm", "vllm or llamacpp"),
        tasks=(0, "how many tasks, evenly spread; 0 for all"),
        arms=("plain,vivace", "which ways"),
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
        results = ran(endpoint, chosen(options.tasks), arms, options.out)
    found = {arm: [result for result in results if result.arm == arm] for arm in arms}
    for by in ("language", "kind"):
        table(report, found, by)
    for arm in arms:
        summed_up(report, arm, found[arm])
    report.say("seconds in all", time.perf_counter() - started)
    if set(found) >= {"plain", "vivace"}:
        goals(report, found["plain"], found["vivace"])
    report.end()


if __name__ == "__main__":
    main()

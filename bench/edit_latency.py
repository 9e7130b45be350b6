"""From Enter to the applied edit: Vivace and three plain prompts, on one engine that drafts.

All ask the same model over a WebSocket in turn, each with the old text as its draft and with two
tries. Applied means on the disk, through the journal that undo reads. The first hunk is the moment
from which a change could be shown; the plain ways are given our parser for that. Edits that Vivace
does without a model (renames) are left out.
"""

from __future__ import annotations

import asyncio
import random
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from bench._edit_arms import ARMS, TRIES, plan_for, room
from bench._edit_engine import Endpoint
from bench._report import Report, ratio_of
from bench._socket import Client
from bench.edit_quality import endpoint_of
from bench.edit_runs.tasks import Task, tasks_of
from vivace.protocol.items import Item, Message
from vivace.workspace.document import read
from vivace.workspace.journal import Change, Journal
from vivace.workspace.paths import Workspace

ENDS = ("response.completed", "response.incomplete", "response.failed", "error")


@dataclass
class Timing:
    """Seconds from Enter; the end is the applied edit, or the last refusal."""

    ended: float
    applied: bool
    right: bool
    steps: int
    """Of the engine, each with one token of its own and what it took of the draft: what an edit
    costs on any machine, whoever else is busy on it."""
    first_hunk: float | None = None


class Desk:
    """A folder with one file, as a person would have it open."""

    def __init__(self, folder: Path, task: Task) -> None:
        self._workspace = Workspace(folder)
        self._path = folder / Path(task.path).name
        self._path.write_text(task.text, "utf-8")
        self._journal = Journal(self._workspace, folder.parent / "state")

    def read(self) -> str:
        self._document = read(self._workspace.resolve(self._path.name))
        return self._document.text

    def write(self, text: str) -> None:
        change = Change(self._document.path, self._document.version, self._document.encode(text))
        self._journal.apply([change], "edit")

    @property
    def text(self) -> str:
        return self._path.read_text("utf-8")


@dataclass
class Stream:
    """Answers, delta by delta; whether the last came to its own end, and the steps of all."""

    client: Client
    model: str
    complete: bool = False
    steps: int = 0

    async def answer(self, items: Sequence[Item], prediction: str, most: int) -> AsyncIterator[str]:
        await self.client.send(
            "create",
            model=self.model,
            input=msgspec.to_builtins(list(items)),
            temperature=0,
            max_output_tokens=most,
            prediction={"type": "content", "content": prediction},
            store=False,
        )
        while (event := await self.client.event())["type"] not in ENDS:
            if event["type"] == "response.output_text.delta":
                yield event["delta"]
        if event["type"] in ("response.failed", "error"):
            raise RuntimeError(f"the endpoint failed: {event}")
        self.complete = event["type"] == "response.completed"
        usage = event["response"]["usage"]
        drafted = usage["output_tokens_details"].get("accepted_prediction_tokens", 0)
        self.steps += usage["output_tokens"] - drafted


async def timed(arm: str, stream: Stream, task: Task, desk: Desk) -> Timing:
    entered, stream.steps = time.perf_counter(), 0
    desk.read()
    trying = ARMS[arm](task, stream.model)
    first: float | None = None
    for number in range(TRIES):
        trying = trying.again() if number else trying
        most = room(trying.prediction)
        async for delta in stream.answer(trying.items, trying.prediction, most):
            if trying.feed(delta) and first is None:
                first = time.perf_counter() - entered
        found = trying.finish(complete=stream.complete)
        if found.text is not None:
            desk.write(found.text)
            applied = time.perf_counter() - entered
            right = task.judge(desk.text).outcome == "right"
            return Timing(applied, True, right, stream.steps, first or applied)
    return Timing(time.perf_counter() - entered, False, False, stream.steps)


async def measure(
    port: int, tasks: Sequence[Task], arms: Sequence[str], options: Any
) -> dict[str, list[Timing]]:
    until = time.perf_counter() + options.minutes * 60
    found: dict[str, list[Timing]] = {arm: [] for arm in arms}
    async with Client.at(port) as client:
        stream = Stream(client, options.model)
        async for _ in stream.answer([Message(role="user", content="Hello")], "", 4):
            pass  # the first request of an engine is slow
        for number, task in enumerate(tasks):
            if time.perf_counter() > until:
                break
            place = number % len(arms)
            for arm in (*arms[place:], *arms[:place]):
                with tempfile.TemporaryDirectory() as folder:
                    (work := Path(folder) / "work").mkdir()
                    timing = await timed(arm, stream, task, Desk(work, task))
                found[arm].append(timing)
                verdict = "right" if timing.right else "wrong" if timing.applied else "refused"
                took = f"{timing.ended:>8.2f} s {timing.steps:>5} steps"
                print(f"    {arm:<16}{task.id:<36}{took}  {verdict}", flush=True)
    return found


def tell(report: Report, found: dict[str, list[Timing]]) -> None:
    for arm, timings in found.items():
        right = sum(each.right for each in timings)
        refused = sum(not each.applied for each in timings)
        report.say(f"{arm}: right, refused", f"{right}, {refused} of {len(timings)}")
        hunks = [each.first_hunk for each in timings if each.first_hunk is not None]
        applied = [each.ended for each in timings if each.applied]
        if applied:
            report.spread(f"{arm}: to the first hunk", hunks, "s")
            report.spread(f"{arm}: to the applied edit", applied, "s")
        report.spread(f"{arm}: to the applied edit or the refusal", ended(timings), "s")
        report.spread(f"{arm}: steps of the engine to there", steps(timings), "steps")
    if "vivace" in found:
        for arm in (arm for arm in found if arm != "vivace"):
            compare(report, arm, found[arm], found["vivace"])


def compare(report: Report, arm: str, theirs: Sequence[Timing], ours: Sequence[Timing]) -> None:
    report.ratio(f"{arm} to vivace, applied or refused", ended(theirs), ended(ours))
    report.ratio(f"{arm} to vivace, steps of the engine", steps(theirs), steps(ours))
    pairs = [(a, b) for a, b in zip(theirs, ours, strict=True) if a.applied and b.applied]
    both = ended([a for a, _ in pairs]), ended([b for _, b in pairs])
    if pairs:
        report.ratio(f"{arm} to vivace, applied by both", *both)
    if pairs and arm == "rewrite":
        ratio, low, high = ratio_of(*both)
        report.goal(
            "at least 5 times as soon applied as the rewrite, which has drafts too",
            met=ratio >= 5,
            measured=f"{ratio:.1f} (95% interval {low:.1f} to {high:.1f}, {len(pairs)} pairs)",
        )
    right = sum(each.right for each in ours), sum(each.right for each in theirs)
    report.goal(
        f"at least as often right as {arm}",
        met=right[0] >= right[1],
        measured=f"{right[0]} against {right[1]}",
    )


def ended(timings: Sequence[Timing]) -> list[float]:
    return [each.ended for each in timings]


def steps(timings: Sequence[Timing]) -> list[float]:
    return [float(each.steps) for each in timings]


def needing_a_model(tasks: Sequence[Task], model: str) -> list[Task]:
    return [task for task in tasks if plan_for(task, model).known is None]


def port_of(endpoint: Endpoint) -> int:
    return int(endpoint.url.rpartition(":")[2])


def main() -> None:
    report, options = Report.from_arguments(
        "edit-latency",
        "from Enter to the applied edit, on vLLM with drafts",
        "tree-sitter",
        model=("qwen2.5-coder-0.5b", "which model"),
        engine=("vllm", "vllm or llamacpp"),
        url=("", "an endpoint that runs already, instead of one of our own"),
        minutes=(20, "no further task after so many minutes"),
        arms=(",".join(ARMS), "which ways"),
    )
    arms = [arm for arm in ARMS if arm in options.arms.split(",")]
    with tasks_of("old") as tasks:
        tasks = needing_a_model(tasks, options.model)
    random.Random(1).shuffle(tasks)  # so that those of any number of minutes are of all kinds
    with endpoint_of(options, context=8192) as endpoint:
        found = asyncio.run(measure(port_of(endpoint), tasks, arms, options))
    tell(report, found)
    report.end()


if __name__ == "__main__":
    main()

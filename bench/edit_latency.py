"""From Enter to the applied edit: Vivace and three plain prompts, on one engine that drafts.

All ask the same model over a WebSocket in turn, each with the old text as its draft and with two
tries: Vivace at the desk, as ``vivace edit --yes`` does. Applied means on the disk, through the
journal that undo reads. The first hunk is the moment from which a change could be shown; the plain
ways are given our parser for that. Edits that need no model (renames) are left out.
"""

from __future__ import annotations

import asyncio
import random
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from bench._edit_engine import Endpoint
from bench._report import Report, ratio_of
from bench._socket import Client
from bench.edit_quality import endpoint_of
from bench.edit_runs.desk import WAYS, at_desk
from bench.edit_runs.plain import PLAIN, Plain, room
from bench.edit_runs.tasks import Task, tasks_of
from vivace.protocol.items import Item, Message
from vivace.workspace.document import read
from vivace.workspace.journal import Change, Journal
from vivace.workspace.paths import Workspace

ARMS = (*PLAIN, "vivace")
TRIES = 2
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


def at_the_desk(task: Task, endpoint: Endpoint) -> Timing | None:
    """None where no model was asked."""
    done = at_desk(task, WAYS["vivace"], endpoint.url, endpoint.model)
    if not done.requests:
        return None
    applied, steps = done.text != task.text, done.tokens - done.drafted
    right = applied and task.judge(done.text).outcome == "right"
    return Timing(done.seconds, applied, right, steps, done.first_hunk if applied else None)


async def plainly(arm: str, stream: Stream, task: Task) -> Timing:
    """Written through the journal too, as an edit at the desk is."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve() / "work"
        task.lay_out(root)
        entered, stream.steps = time.perf_counter(), 0
        workspace = Workspace(root)
        document = read(workspace.resolve(task.path))
        trying = Plain(task, arm)
        first: float | None = None
        for number in range(TRIES):
            trying = trying.again() if number else trying
            most = room(trying.prediction)
            async for delta in stream.answer(trying.items, trying.prediction, most):
                if trying.feed(delta) and first is None:
                    first = time.perf_counter() - entered
            found = trying.finish(complete=stream.complete)
            if found.text is not None:
                change = Change(document.path, document.version, document.encode(found.text))
                Journal(workspace, root.parent / "state").apply([change], "edit")
                applied = time.perf_counter() - entered
                right = task.judge(found.text).outcome == "right"
                return Timing(applied, True, right, stream.steps, first or applied)
        return Timing(time.perf_counter() - entered, False, False, stream.steps)


async def timed(arm: str, task: Task, endpoint: Endpoint, stream: Stream) -> Timing | None:
    if arm in PLAIN:
        timing: Timing | None = await plainly(arm, stream, task)
    else:
        timing = await asyncio.to_thread(at_the_desk, task, endpoint)
    if timing is None:
        told = "left out: no model was asked"
    else:
        verdict = "right" if timing.right else "wrong" if timing.applied else "refused"
        told = f"{timing.ended:>8.2f} s {timing.steps:>5} steps  {verdict}"
    print(f"    {arm:<16}{task.id:<36}{told}", flush=True)
    return timing


async def measure(
    endpoint: Endpoint, tasks: Sequence[Task], arms: Sequence[str], minutes: int
) -> dict[str, list[Timing]]:
    until = time.perf_counter() + minutes * 60
    found: dict[str, list[Timing]] = {arm: [] for arm in arms}
    async with Client.at(port_of(endpoint)) as client:
        stream = Stream(client, endpoint.model)
        async for _ in stream.answer([Message(role="user", content="Hello")], "", 4):
            pass  # the first request of an engine is slow
        for number, task in enumerate(tasks):
            if time.perf_counter() > until:
                break
            place = number % len(arms)
            turn = (*arms[place:], *arms[:place])
            timings = {arm: await timed(arm, task, endpoint, stream) for arm in turn}
            for arm, timing in timings.items():
                if timing is not None and None not in timings.values():
                    found[arm].append(timing)
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
        set=("everyday", "everyday, tuning, or FOLDER[,FOLDER] of TOML files"),
        minutes=(20, "no further task after so many minutes"),
        arms=(",".join(ARMS), "which ways"),
    )
    arms = [arm for arm in ARMS if arm in options.arms.split(",")]
    with tasks_of(options.set) as tasks, endpoint_of(options) as endpoint:
        random.Random(1).shuffle(tasks)  # so that those of any number of minutes are of all kinds
        edits = [task for task in tasks if task.expect == "edit"]
        found = asyncio.run(measure(endpoint, edits, arms, options.minutes))
    tell(report, found)
    report.end()


if __name__ == "__main__":
    main()

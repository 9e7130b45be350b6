"""From Enter to the applied edit: a plain rewrite, and Vivace with and without drafts.

The same model on the same vLLM settings answers all three over a WebSocket; only the last has an
engine that drafts. Applied means on the disk, through the journal that undo reads. The first hunk
is the moment from which a change could be shown; a plain rewrite is given our parser for that.
Edits that Vivace does without a model (renames) are left out.
"""

from __future__ import annotations

import asyncio
import contextlib
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from bench._edit_arms import TRIES, plain_prompt, plan_for, room, whole_file
from bench._edit_engine import Endpoint, serving
from bench._report import Report, percentile, ratio_of
from bench._socket import Client
from bench.edit_quality import chosen, evenly
from bench.edit_tasks import Task
from vivace.edits import attempt
from vivace.edits.rewrite import Rewrite
from vivace.protocol.items import Item, Message
from vivace.workspace.document import read
from vivace.workspace.journal import Change, Journal
from vivace.workspace.paths import Workspace

ENDS = ("response.completed", "response.incomplete", "response.failed", "error")


@dataclass
class Timing:
    """Seconds from Enter; what did not happen is None."""

    first_hunk: float | None
    applied: float | None
    right: bool
    share_at_first: float | None = None
    """How much of the answer had come when the first hunk was there."""
    hunks: int = 1


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


async def answer(
    client: Client, model: str, items: Sequence[Item], prediction: str, most: int
) -> AsyncIterator[str]:
    await client.send(
        "create",
        model=model,
        input=msgspec.to_builtins(list(items)),
        temperature=0,
        max_output_tokens=most,
        prediction={"type": "content", "content": prediction},
        store=False,
    )
    while (event := await client.event())["type"] not in ENDS:
        if event["type"] == "response.output_text.delta":
            yield event["delta"]
    if event["type"] in ("response.failed", "error"):
        raise RuntimeError(f"the endpoint failed: {event}")


async def plain(client: Client, model: str, task: Task, desk: Desk) -> Timing:
    entered = time.perf_counter()
    text = desk.read()
    rewrite = Rewrite(text)
    pieces: list[str] = []
    first: float | None = None
    asked = [Message(role="user", content=plain_prompt(task))]
    async for delta in answer(client, model, asked, text, room(text)):
        pieces.append(delta)
        if rewrite.feed(delta) and first is None:
            first = time.perf_counter() - entered
    desk.write(whole_file("".join(pieces), text))
    applied = time.perf_counter() - entered
    right = task.judge(desk.text).right
    return Timing(first, applied, right)


async def ours(client: Client, model: str, task: Task, desk: Desk) -> Timing:
    entered = time.perf_counter()
    plan = plan_for(task, desk.read(), model)
    first: tuple[float, int] | None = None
    share: float | None = None
    for _ in range(TRIES):
        trying = attempt.Attempt(plan)
        said = 0
        most = room(plan.prediction)
        async for delta in answer(client, model, plan.items, plan.prediction, most):
            said += len(delta)
            if trying.feed(delta) and first is None:
                first = time.perf_counter() - entered, said
        outcome = trying.finish()
        if share is None and first:
            share = first[1] / said
        if outcome.good:
            desk.write(outcome.text)
            applied = time.perf_counter() - entered
            right = task.judge(desk.text).right
            soonest = first[0] if first else applied
            return Timing(soonest, applied, right, share, len(outcome.hunks))
        plan = attempt.retry(plan, outcome)
    return Timing(first[0] if first else None, None, False, share)


WAYS = {"plain rewrite": plain, "ours without drafts": ours, "ours with drafts": ours}


async def measure(
    ports: dict[str, int], tasks: Sequence[Task], model: str
) -> dict[str, list[Timing]]:
    found: dict[str, list[Timing]] = {way: [] for way in WAYS}
    async with contextlib.AsyncExitStack() as stack:
        clients = {
            way: await stack.enter_async_context(Client.at(port)) for way, port in ports.items()
        }
        for client in clients.values():  # the first request of an engine is slow
            async for _ in answer(client, model, [Message(role="user", content="Hello")], "", 4):
                pass
        for number, task in enumerate(tasks):
            names = list(WAYS)
            for way in names[number % 3 :] + names[: number % 3]:
                with tempfile.TemporaryDirectory() as folder:
                    (place := Path(folder) / "work").mkdir()
                    timing = await WAYS[way](clients[way], model, task, Desk(place, task))
                found[way].append(timing)
                took = f"{timing.applied:.2f} s" if timing.applied else "refused"
                verdict = "right" if timing.right else "wrong" if timing.applied else ""
                print(f"    {way:<20} {task.id:<36} {took:>9} {verdict}", flush=True)
    return found


def tell(report: Report, found: dict[str, list[Timing]]) -> None:
    for way, timings in found.items():
        right = [each for each in timings if each.right]
        report.say(f"{way}: right", f"{len(right)} of {len(timings)}")
        hunks = [each.first_hunk for each in timings if each.first_hunk is not None]
        if hunks:
            report.spread(f"{way}: to the first hunk", hunks, "s")
        report.spread(f"{way}: to the applied edit", took(timings), "s")
        if right:
            report.spread(f"{way}: to the right applied edit", took(right), "s")
    theirs, mine = found["plain rewrite"], found["ours with drafts"]
    pairs = [(a.applied, b.applied) for a, b in zip(theirs, mine, strict=True)]
    both = [(a, b) for a, b in pairs if a is not None and b is not None]
    ratio, low, high = ratio_of([a for a, _ in both], [b for _, b in both])
    successes = sum(each.right for each in theirs), sum(each.right for each in mine)
    report.goal(
        "with drafts at least 5 times as soon applied as a plain rewrite",
        met=ratio >= 5,
        measured=f"{ratio:.1f} times (95% interval {low:.1f} to {high:.1f}, {len(both)} tasks)",
    )
    report.goal(
        "and at least as often right",
        met=successes[1] >= successes[0],
        measured=f"{successes[1]} against {successes[0]}",
    )
    several = [each.share_at_first for each in mine if each.hunks > 1]
    if shares := [share for share in several if share is not None]:
        middle = statistics.median(shares)
        report.goal(
            "edits of several hunks: the first is shown before half of the answer (median)",
            met=middle < 0.5,
            measured=f"at {middle:.0%}, p90 {percentile(shares, 0.9):.0%} (n={len(shares)})",
        )


def needing_a_model(tasks: Sequence[Task], model: str) -> list[Task]:
    return [task for task in tasks if plan_for(task, task.text, model).known is None]


def took(timings: Sequence[Timing]) -> list[float]:
    return [each.applied for each in timings if each.applied is not None]


def port_of(endpoint: Endpoint) -> int:
    return int(endpoint.url.rpartition(":")[2])


def main() -> None:
    report, options = Report.from_arguments(
        "edit-latency",
        "from Enter to the applied edit, on vLLM",
        "tree-sitter",
        model=("qwen2.5-coder-0.5b", "which model"),
        tasks=(12, "how many tasks of edit-quality, evenly spread"),
    )
    tasks = evenly(needing_a_model(chosen(0), options.model), options.tasks)
    with contextlib.ExitStack() as stack:
        ports: dict[str, int] = {}
        slow = stack.enter_context(serving("vllm", options.model, drafts=False))
        fast = stack.enter_context(serving("vllm", options.model))
        ports["plain rewrite"] = ports["ours without drafts"] = port_of(slow)
        ports["ours with drafts"] = port_of(fast)
        found = asyncio.run(measure(ports, tasks, options.model))
    tell(report, found)
    report.end()


if __name__ == "__main__":
    main()

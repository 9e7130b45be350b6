"""An edit by the tool of vivace mcp, and the file rewritten by the same model, in turns.

The tool is called by the official client, as an agent does; the server process is there before, as
it is for an agent. The rewrite is what the agent would do itself: the whole file anew, with the old
one as its draft and two tries. Each task's checker says what became of the file.
"""

from __future__ import annotations

import asyncio
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from bench._edit_engine import Endpoint
from bench._report import Report
from bench._socket import Client as Socket
from bench.edit_latency import Stream, Timing, ended, plainly, port_of
from bench.edit_quality import endpoint_of
from bench.edit_runs.desk import target_of
from bench.edit_runs.tasks import Task, tasks_of
from mcp import Client, StdioServerParameters
from vivace.protocol.items import Message

ARMS = ("tool", "rewrite")


async def by_tool(task: Task, endpoint: Endpoint) -> Timing:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve() / "work"
        task.lay_out(root)
        command = ["-m", "vivace.cli", "mcp", "--url", f"{endpoint.url}/v1", str(root)]
        own = {"XDG_STATE_HOME": f"{folder}/state", "PYTHONPATH": ":".join(filter(None, sys.path))}
        server = StdioServerParameters(command=sys.executable, args=command, env=own)
        asked = {"path": task.path, "instruction": task.instruction}
        if lines := target_of(task).removeprefix(task.path).removeprefix(":"):
            asked["selection"] = lines
        async with Client(server) as agent:
            entered = time.perf_counter()
            result = await agent.call_tool("edit_file", asked)
            seconds = time.perf_counter() - entered
        text = (root / task.path).read_bytes().decode()
        applied = not result.is_error
        right = applied and task.judge(text).outcome == "right"
        return Timing(seconds, applied, right, steps=0)


async def measure(
    endpoint: Endpoint, tasks: Sequence[Task], minutes: int
) -> dict[str, list[Timing]]:
    until = time.perf_counter() + minutes * 60
    found: dict[str, list[Timing]] = {arm: [] for arm in ARMS}
    async with Socket.at(port_of(endpoint)) as socket:
        stream = Stream(socket, endpoint.model)
        async for _ in stream.answer([Message(role="user", content="Hello")], "", 4):
            pass  # the first request of an engine is slow
        for number, task in enumerate(tasks):
            if time.perf_counter() > until:
                break
            for arm in ARMS if number % 2 else reversed(ARMS):
                rewrites = arm == "rewrite"
                timing = await (plainly(arm, stream, task) if rewrites else by_tool(task, endpoint))
                found[arm].append(timing)
                verdict = "right" if timing.right else "wrong" if timing.applied else "refused"
                print(f"    {arm:<10}{task.id:<36}{timing.ended:>8.2f} s  {verdict}", flush=True)
    return found


def tell(report: Report, found: dict[str, list[Timing]]) -> None:
    for arm, timings in found.items():
        right = sum(each.right for each in timings)
        wrong = sum(each.applied and not each.right for each in timings)
        refused = len(timings) - right - wrong
        report.say(f"{arm}: right, wrong, refused", f"{right}, {wrong}, {refused}")
        report.spread(f"{arm}: from the call to its end", ended(timings), "s")
        if applied := [each.ended for each in timings if each.applied]:
            report.spread(f"{arm}: to the applied edit", applied, "s")
    report.ratio("rewrite to tool", ended(found["rewrite"]), ended(found["tool"]))


def main() -> None:
    report, options = Report.from_arguments(
        "mcp",
        "an edit by the tool, and by rewriting the file",
        "mcp",
        model=("qwen2.5-coder-0.5b", "which model"),
        engine=("llamacpp", "vllm or llamacpp"),
        url=("", "an endpoint that runs already, instead of one of our own"),
        set=("everyday", "everyday, tuning, or FOLDER[,FOLDER] of TOML files"),
        tasks=(20, "how many tasks"),
        minutes=(30, "no further task after so many minutes"),
    )
    with tasks_of(options.set) as tasks, endpoint_of(options) as endpoint:
        random.Random(1).shuffle(tasks)  # so that any number of them is of all kinds
        edits = [task for task in tasks if task.expect == "edit"][: options.tasks]
        found = asyncio.run(measure(endpoint, edits, options.minutes))
    tell(report, found)
    report.end()


if __name__ == "__main__":
    main()

"""Fill in the middle on a real model: Vivace's answers against the bare server's, test by test.

Both ask the same llama.cpp process, greedily: Vivace through ``/v1/completions`` with a suffix, the
bare server with the template written out by hand. A task passes when its own unit test passes.
"""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
import time
from typing import Any

import httpx2
import psutil

from bench import _files
from bench._report import Report
from bench._server import served

CONFIG = """
version = 1
[server]
port = {{port}}
[store]
path = ":memory:"
[[engines]]
name = "llama.cpp"
kind = "llamacpp"
model = "qwen2.5-coder-0.5b"
path = "{path}"
context = 2048
slots = 1
"""


def bare_server(pid: int) -> httpx2.Client:
    """The llama.cpp that this gateway started, on the socket that its command line names."""
    for child in psutil.Process(pid).children(recursive=True):
        line = child.cmdline()
        if "--host" in line:
            # It closes what was idle for a while, maybe just when it is asked again.
            anew = httpx2.Limits(max_keepalive_connections=0)
            by_socket = httpx2.HTTPTransport(uds=line[line.index("--host") + 1], limits=anew)
            return httpx2.Client(transport=by_socket, base_url="http://localhost", timeout=120)
    raise RuntimeError("the gateway started no llama.cpp")


def through_vivace(server: httpx2.Client, task: dict[str, Any]) -> str:
    return complete(server, {"prompt": task["prompt"], "suffix": task["suffix"]})


def bare(server: httpx2.Client, task: dict[str, Any]) -> str:
    prompt = f"<|fim_prefix|>{task['prompt']}<|fim_suffix|>{task['suffix']}<|fim_middle|>"
    return complete(server, {"prompt": prompt})


def complete(server: httpx2.Client, body: dict[str, Any]) -> str:
    answer = server.post("/v1/completions", json={**SETTINGS, **body})
    return str(answer.json()["choices"][0]["text"])


SETTINGS: dict[str, Any] = {"max_tokens": 48, "temperature": 0, "stop": ["\n"]}


def passes(task: dict[str, Any], middle: str) -> bool:
    """Run the task's own test, in a process of its own and not for long."""
    program = (
        f"{task['prompt']}{middle}\n{task['suffix']}\n{task['test']}\ncheck({task['entry_point']})"
    )
    try:
        ran = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=10)
    except subprocess.TimeoutExpired:
        return False
    return ran.returncode == 0


def main() -> None:
    report, options = Report.from_arguments(
        "fim",
        "HumanEval single-line infilling with Qwen2.5-Coder-0.5B on llama.cpp",
        "xllamacpp",
        tasks=(30, "how many tasks"),
    )
    with gzip.open(_files.data("humaneval-single-line"), "rt") as lines:
        every = [json.loads(line) for line in lines]
    tasks = every[:: len(every) // options.tasks][: options.tasks]
    passed = {"vivace": 0, "bare server": 0}
    times: dict[str, list[float]] = {"vivace": [], "bare server": []}
    same = 0
    with served(CONFIG.format(path=_files.model("qwen2.5-coder-0.5b"))) as (port, process):
        gateway = httpx2.Client(base_url=f"http://127.0.0.1:{port}", timeout=120)
        other = bare_server(process.pid)
        for number, task in enumerate(tasks):
            answers: dict[str, str] = {}
            # The second to ask finds the prompt cached, so they take turns at being first.
            ways = [("vivace", through_vivace, gateway), ("bare server", bare, other)]
            for name, ask, at in ways if number % 2 else ways[::-1]:
                started = time.perf_counter()
                answers[name] = ask(at, task)
                times[name].append(time.perf_counter() - started)
                passed[name] += passes(task, answers[name])
            same += answers["vivace"] == answers["bare server"]
    report.say("tasks", len(tasks))
    for name in passed:
        report.say(f"passed by {name}", passed[name])
        report.spread(f"time per task, {name}", times[name], "s")
    report.say("answers that are the same", same)
    report.goal(
        "passes at least as many as the bare server",
        met=passed["vivace"] >= passed["bare server"],
        measured=f"{passed['vivace']} against {passed['bare server']} of {len(tasks)}",
    )
    report.end()


if __name__ == "__main__":
    main()

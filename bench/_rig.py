"""The servers of ``scripts/bench pipeline``, a client of each kind, and the clocks around them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
from tests.support.ports import free_port

from bench._cores import FIRST_CORE, OTHER_CORES
from bench._peers import MODEL, serve_bare, serve_litellm, serve_vivace, serve_vllm
from bench._server import cpu, threads
from bench._ways import (
    ChatHistory,
    FullHistory,
    OverWebSocket,
    OverWebSocketWithTools,
    PreviousResponse,
    Timing,
    Way,
)

PARSED = "e, parsers on"

# -- the engine's own figures ---------------------------------------------------------------------

_FIGURE = re.compile(
    r"vllm:request_(queue|prefill|decode|inference)_time_seconds_(sum|count)\{.*\} (.*)"
)


class EngineClock:
    """How long the engine itself took since the last lap, by its own metrics."""

    def __init__(self, port: int) -> None:
        self._address = f"http://127.0.0.1:{port}/metrics"
        self._before = self._read()

    def _read(self) -> dict[str, float]:
        with urllib.request.urlopen(self._address) as answer:
            found = _FIGURE.findall(answer.read().decode())
        return {f"{what}_{kind}": float(value) for what, kind, value in found}

    async def lap(self) -> dict[str, float]:
        """Seconds by phase since the last lap; waits for the engine to have written them down."""
        while True:
            now = self._read()
            if now.get("inference_count", 0) > self._before.get("inference_count", 0):
                break
            await asyncio.sleep(0.002)
        lap = {name: now[name] - self._before.get(name, 0.0) for name in now}
        self._before = now
        return lap


def share_out(pid: int) -> None:
    """The engine's processes (its scheduler, its worker) to their core, the others to the rest."""
    for process in [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]:
        cores = FIRST_CORE if process.name().startswith("VLLM::") else OTHER_CORES
        for task in threads(process.pid):
            with contextlib.suppress(OSError):
                os.sched_setaffinity(int(task.name), cores)


@contextlib.contextmanager
def sharing(*servers: subprocess.Popen[str]) -> Iterator[None]:
    """Meanwhile these and we ourselves keep to our cores."""
    for server in servers:
        share_out(server.pid)
    os.sched_setaffinity(0, OTHER_CORES)
    try:
        yield
    finally:
        os.sched_setaffinity(0, FIRST_CORE | OTHER_CORES)


# -- (a) ------------------------------------------------------------------------------------------


class Bare:
    """(a), told what to do over a pipe; it measures inside."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.lap: dict[str, float] = {}
        """What the engine, and the process itself, needed for what was told last."""

    def turns(self, turns: list[tuple[str, str]], max_tokens: int) -> dict[str, Any]:
        given = [{"conversation": name, "text": text} for name, text in turns]
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"turns": given, "max_tokens": max_tokens}) + "\n")
        self._process.stdin.flush()
        while not (line := self._process.stdout.readline()).startswith("{"):
            if not line:
                raise RuntimeError("the bare AsyncLLM has ended")
        answer: dict[str, Any] = json.loads(line)  # other lines are vLLM's log
        self.lap = answer["engine"]
        return answer


class BareClient(Way):
    def __init__(self, bare: Bare, conversation: str, max_tokens: int) -> None:
        super().__init__(conversation, 0, MODEL, max_tokens)
        self._bare = bare

    async def ask(self, message: dict[str, str]) -> Timing:
        done = self._bare.turns([(self.name, message["content"])], self.max_tokens)
        return Timing(done["first"], done["wall"], done["tokens"], "")

    def forget(self) -> None:
        super().forget()
        self.name += "'"

    async def close(self) -> None:
        pass


# -- figures --------------------------------------------------------------------------------------


class Figures:
    """Seconds outside the engine's core, turn by turn; and of the serving process's CPU, which
    other work on the machine does not lengthen."""

    def __init__(self) -> None:
        self.roundtrip: list[float] = []
        self.first: list[float] = []
        self.cpu: list[float] = []

    def add(self, timing: Timing, lap: dict[str, float]) -> None:
        self.roundtrip.append(timing.wall - lap["queue_sum"] - lap["inference_sum"])
        self.first.append(timing.first - lap["queue_sum"] - lap["prefill_sum"])
        self.cpu.append(lap.get("cpu", 0.0))

    def beyond(self, bare: Figures) -> Figures:
        """What is left when AsyncLLM's own part, of the same turn, is taken away."""
        left = Figures()
        left.roundtrip = less(self.roundtrip, bare.roundtrip)
        left.first = less(self.first, bare.first)
        left.cpu = less(self.cpu, bare.cpu)
        return left


def less(ours: list[float], bare: list[float]) -> list[float]:
    return [mine - its for mine, its in zip(ours, bare, strict=True)]


class Rig:
    """All servers, and a client of each kind when it is asked for."""

    def __init__(self, ports: dict[str, int], processes: dict[str, Any]) -> None:
        vllm, ours = ports["vllm"], ports["vivace"]
        self.kinds: dict[str, tuple[type[Way], int, int]] = {
            "b1": (FullHistory, vllm, vllm),
            "b2": (PreviousResponse, vllm, vllm),
            "d": (PreviousResponse, ours, ours),
            "e": (OverWebSocket, ours, ours),
        }
        self.parsed = (OverWebSocketWithTools, ours, ours)
        if "litellm" in ports:
            self.kinds["c"] = (ChatHistory, ports["litellm"], vllm)
        self.bare = Bare(processes["bare"])
        owners = {"a": "bare", "b": "vllm", "c": "litellm", "d": "vivace", "e": "vivace"}
        self._pids = {
            name: processes[owner].pid for name, owner in owners.items() if owner in processes
        }
        self._clocks = {port: EngineClock(port) for port in (vllm, ours)}

    @property
    def names(self) -> list[str]:
        return ["a", *self.kinds]

    def client(self, name: str, conversation: str, tokens: int) -> Way:
        if name == "a":
            return BareClient(self.bare, conversation, tokens)
        kind, port, _ = self.parsed if name == PARSED else self.kinds[name]
        return kind(conversation, port, MODEL, tokens)

    def cpu(self, name: str) -> float:
        """Seconds that the process which a client of this kind talks to has used."""
        return cpu(self._pids[name[0]])

    async def turn(self, name: str, way: Way, text: str) -> tuple[Timing, dict[str, float]]:
        """A turn of a client of this kind, and what of it was the engine's."""
        before = self.cpu(name)
        timing = await way.turn(text)
        used = self.cpu(name) - before
        return timing, {"cpu": used} | await self._lap(name)

    async def _lap(self, name: str) -> dict[str, float]:
        return self.bare.lap if name == "a" else await self._clocks[self.kinds[name][2]].lap()

    async def warm_up(self) -> None:
        for name in self.names:
            first = self.client(name, "warm-up", 4)
            await self.turn(name, first, "Say yes.")
            await first.close()


@contextlib.contextmanager
def serving(options: Any, model: Path, folder: Path, **more: Any) -> Iterator[Rig]:
    """All of them with this model, the cores shared out; ``more`` are arguments of vLLM."""
    python, ports = options.python, {"vllm": free_port(), "vivace": free_port()}
    with contextlib.ExitStack() as stack:
        processes = {
            "bare": stack.enter_context(serve_bare(python, model, **more)),
            "vllm": stack.enter_context(serve_vllm(python, model, ports["vllm"], **more)),
            "vivace": stack.enter_context(
                serve_vivace(python, model, ports["vivace"], folder, **more)
            ),
        }
        if options.litellm:
            ports["litellm"] = free_port()
            proxy = serve_litellm(options.litellm, ports["litellm"], ports["vllm"], folder)
            processes["litellm"] = stack.enter_context(proxy)
        print("  all servers are ready", flush=True)
        with sharing(*processes.values()):
            yield Rig(ports, processes)

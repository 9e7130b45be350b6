"""Gateways for ``scripts/bench link``: with an engine of their own, and with one on a node.

Both have the same scripted engine. The node is a process of its own that runs what
``vivace engine`` runs, with an engine that notes when its work was stopped where that is asked.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.ports import free_port

from bench._peers import ROOT
from bench._server import served, wait_until_ready

MODEL = "local-model"
LARGE = "large-prompts"
KEY = "a key that only this run has"
KEYED = {"VIVACE_FLEET_KEY": KEY}

_ENGINE = f"""
[[engines]]
name = "yardstick"
kind = "scripted"
model = "{MODEL}"
script = "script.toml"
rate = {{rate}}
slots = 64
"""
_LARGE = f"""
[[engines]]
name = "{LARGE}"
kind = "scripted"
model = "{LARGE}"
context = 4000000
slots = 64
"""
_NODE = """
version = 1
[node]
name = "{name}"
port = {port}
"""
_GATEWAY = """
version = 1
[server]
port = {{port}}
[limits]
body_megabytes = 32
[store]
{store}
"""
MEMORY = 'path = ":memory:"'


@dataclass(frozen=True)
class Played:
    """What the engine does, whatever it is asked."""

    rate: float
    acts: tuple[str, ...]
    large: bool = False
    """Whether there is another beside it that takes prompts of any size and reads none."""

    @property
    def script(self) -> str:
        return f"[[replies]]\nthen = [{', '.join(self.acts)}]\n"

    @property
    def engines(self) -> str:
        return _ENGINE.format(rate=self.rate) + (_LARGE if self.large else "")


def says(times: int) -> str:
    return f'{{ do = "say", text = " word", times = {times} }}'


# -- nodes and gateways ---------------------------------------------------------------------------


@dataclass
class NodeProcess:
    port: int
    process: subprocess.Popen[str]
    stops: dict[str, float] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self.port}"

    def stopped(self, turn: str) -> float:
        """When the engine had ended its work on a turn, by ``time.perf_counter``."""
        while turn not in self.stops:
            assert self.process.stdout is not None
            line = self.process.stdout.readline()
            if not line:
                raise RuntimeError("the engine node has ended")
            name, when = line.split()
            self.stops[name] = float(when)
        return self.stops.pop(turn)


def environment() -> dict[str, str]:
    return {**os.environ, **KEYED, "PYTHONPATH": f"{ROOT}/src:{ROOT}"}


@contextlib.contextmanager
def node(played: Played, *, name: str = "n", notes: bool = False) -> Iterator[NodeProcess]:
    """An engine node; one that ``notes`` tells when work was stopped."""
    port = free_port()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "vivace.toml"
        path.write_text(_NODE.format(name=name, port=port) + played.engines)
        (Path(folder) / "script.toml").write_text(played.script)
        command = [sys.executable, "-m", "vivace.cli", "engine", "--config", str(path)]
        if notes:
            command = [sys.executable, "-m", "bench._link_node", "node", str(path)]
        with subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment(),
            text=True,
        ) as process:
            try:
                wait_until_ready(port, process)
                yield NodeProcess(port, process)
            finally:
                process.terminate()


@contextlib.contextmanager
def embedded(played: Played, store: str = MEMORY) -> Iterator[tuple[int, int]]:
    """The port and the process of a gateway that has the engine itself."""
    config = _GATEWAY.format(store=store) + played.engines
    with served(config, source=ROOT / "src", script_toml=played.script) as (port, process):
        yield port, process.pid


@contextlib.contextmanager
def gateway(nodes: Sequence[NodeProcess], store: str = MEMORY) -> Iterator[tuple[int, int]]:
    """The same of one whose engines are on these nodes."""
    config = _GATEWAY.format(store=store)
    config += f"[fleet]\nengines = {json.dumps([each.url for each in nodes])}\n"
    os.environ.update(KEYED)
    with served(config, source=ROOT / "src") as (port, process):
        yield port, process.pid


@contextlib.contextmanager
def on_a_node(played: Played, *, notes: bool = False) -> Iterator[tuple[int, int, NodeProcess]]:
    with node(played, notes=notes) as there, gateway([there]) as (port, pid):
        yield port, pid, there


# -- the engine alone -----------------------------------------------------------------------------


class Alone:
    """The same engine in a process that only reads it: what it costs without a link."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def begin(self, streams: int) -> None:
        """So many streams at once."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{streams}\n")
        self._process.stdin.flush()

    def cost(self) -> float:
        """Seconds of CPU for a token, when all that was begun has ended."""
        assert self._process.stdout is not None
        told: dict[str, Any] = json.loads(self._process.stdout.readline())
        return float(told["cpu"] / told["tokens"])


@contextlib.contextmanager
def alone(rate: float, tokens: int) -> Iterator[Alone]:
    command = [sys.executable, "-m", "bench._link_node", "alone", str(rate), str(tokens)]
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment(),
        text=True,
    ) as process:
        try:
            yield Alone(process)
        finally:
            process.terminate()

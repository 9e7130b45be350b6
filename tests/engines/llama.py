"""llama.cpp as an engine: how tests start it, and what becomes of its processes."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar
from unittest import mock

import psutil

from tests.support.files import model_file
from tests.support.waiting import PATIENCE_S
from vivace.engines.base import Card
from vivace.engines.llamacpp import LlamaCppEngine
from vivace.models import MODELS
from vivace.supervisor import Supervisor

T = TypeVar("T")

MODEL = "qwen2.5-coder-0.5b"
SLOTS = 4
QWEN = next(known.fim for known in MODELS if known.name == MODEL)


def model() -> Path:
    return model_file(MODEL)


def new_engine(path: Path | None = None, supervisor: Supervisor | None = None) -> LlamaCppEngine:
    # One thread: several wait for each other, and stand still when something else has a core.
    with mock.patch("vivace.engines.llamacpp.usable_cpus", return_value=1):
        return LlamaCppEngine(
            "llama",
            Card(MODEL, 1024),
            path or model(),
            fim=QWEN,
            slots=SLOTS,
            supervisor=supervisor,
        )


def on_loop(check: Callable[[], Coroutine[Any, Any, T]]) -> T:
    return asyncio.run(asyncio.wait_for(check(), 4 * PATIENCE_S))


def kill(engine: LlamaCppEngine) -> None:
    assert engine.pid is not None
    os.kill(engine.pid, signal.SIGKILL)


def family_of(engine: LlamaCppEngine) -> list[psutil.Process]:
    assert engine.pid is not None
    process = psutil.Process(engine.pid)
    return [process, *process.children(recursive=True)]


_PARENT = """
import asyncio, sys
from pathlib import Path
from vivace.engines.base import Card
from vivace.engines.llamacpp import LlamaCppEngine

async def main():
    engine = LlamaCppEngine("llama", Card("m", 512), Path(sys.argv[1]), slots=1)
    await engine.start()
    print(engine.pid, flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""


def start_parent(path: Path, **environment: str) -> tuple[subprocess.Popen[str], list[Any]]:
    """A process of its own with an engine, and the processes that engine is made of."""
    command = [sys.executable, "-c", _PARENT, str(path)]
    parent = subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env=os.environ | environment
    )
    assert parent.stdout is not None
    child = psutil.Process(int(parent.stdout.readline()))
    return parent, [child, *child.children(recursive=True)]


def all_end(processes: list[psutil.Process]) -> bool:
    _, alive = psutil.wait_procs(processes, timeout=PATIENCE_S)
    for process in alive:
        process.kill()
    return not alive

"""One vLLM engine for a whole test module: it takes a minute to start.

Run such tests with the environment that has vLLM (``scripts/install-vllm``), not with ``.venv``.
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
import signal
from collections.abc import Awaitable, Callable
from typing import Any, Literal, TypeVar

import psutil
import pytest
from msgspec import Struct

from tests.support.waiting import eventually_async
from vivace import models
from vivace.download.files import cache_root
from vivace.engines.base import Card
from vivace.engines.vllm import VllmEngine

__all__ = [
    "ARGUMENTS",
    "BLOCK",
    "CARD",
    "ENVIRONMENT",
    "MODEL",
    "SharedEngine",
    "Step",
    "needs_vllm",
    "new_engine",
]

T = TypeVar("T")

MODEL = cache_root() / "models" / "qwen2.5-coder-0.5b-hf"
"""Made by ``scripts/install-vllm``, which is not asked for it: tests are collected without it."""
CARD = Card("qwen2.5-coder-0.5b", 8192)
BLOCK = 32
ARGUMENTS = {
    "enforce_eager": True,
    "max_num_seqs": 8,
    "block_size": BLOCK,
    "disable_log_stats": False,
}
ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "VLLM_CPU_KVCACHE_SPACE": "2",
    "VLLM_CPU_OMP_THREADS_BIND": "0-1",
    "VLLM_LOGGING_LEVEL": "WARNING",
}


def _missing() -> str:
    if importlib.util.find_spec("vllm") is None:
        return "needs vLLM: see docs/start/gpu-server.md"
    return "" if MODEL.is_dir() else f"needs {MODEL.name}: run scripts/install-vllm"


needs_vllm = pytest.mark.skipif(bool(_missing()), reason=_missing())


def new_engine(
    speculation: Literal["edits", "exact"] | None = None, **arguments: Any
) -> VllmEngine:
    """``arguments`` may ask for several ranks: each has a processor of its own."""
    model = models.find("qwen2.5-coder-0.5b")
    assert model is not None
    environment = dict(ENVIRONMENT)
    if (ranks := arguments.get("data_parallel_size", 1)) > 1:
        environment["VLLM_CPU_OMP_THREADS_BIND"] = "|".join(map(str, range(ranks)))
    return VllmEngine(
        "vllm",
        CARD,
        str(MODEL),
        arguments={**ARGUMENTS, **arguments},
        environment=environment,
        tool_parser="hermes",
        fim=model.fim,
        speculation=speculation,
    )


class Step(Struct, frozen=True):
    """What the scheduler said after one step."""

    running: int
    waiting: int
    cache: float


class _Steps:
    """A stat logger of vLLM's that writes down every step."""

    def __init__(self) -> None:
        self.seen: list[Step] = []

    def record(self, scheduler_stats: Any, *_: Any, **__: Any) -> None:
        if scheduler_stats is not None:
            stats = scheduler_stats
            self.seen.append(
                Step(stats.num_running_reqs, stats.num_waiting_reqs, stats.kv_cache_usage)
            )


class SharedEngine:
    """The engine and the one event loop it lives in."""

    def __init__(self) -> None:
        self.engine = new_engine()
        self.killed: list[psutil.Process] = []
        self._runner = asyncio.Runner()
        self._steps = _Steps()

    @property
    def core(self) -> Any:
        """vLLM's own engine object, for what only it can tell."""
        return self.engine._engine

    @property
    def steps(self) -> list[Step]:
        return self._steps.seen

    def run(self, check: Callable[[], Awaitable[T]], patience: float) -> T:
        """With a running engine and nothing in its cache."""

        async def whole() -> T:
            await self._ready()
            return await asyncio.wait_for(check(), patience)

        return self._runner.run(whole())

    async def _ready(self) -> None:
        watching = self.engine._watching
        if watching is None or watching.done():
            await self.engine.start()
        await self.back()
        loggers = self.core.logger_manager.stat_loggers
        if self._steps not in loggers:
            loggers.append(self._steps)
        self.steps.clear()
        await self.core.reset_prefix_cache()

    async def back(self) -> None:
        """Wait until it is healthy again, by itself."""
        await eventually_async(self.engine.healthy, 600)

    def kill(self) -> None:
        """kill -9 of the process that schedules; remembers all that ran under it."""
        [process] = self.core.engine_core.resources.engine_manager.processes
        core = psutil.Process(process.pid)
        self.killed = [core, *core.children(recursive=True)]
        os.kill(process.pid, signal.SIGKILL)

    def close(self) -> None:
        self._runner.run(self.engine.stop())
        self._runner.close()

"""Any engine of the suite, behind a link to an engine node in the same process."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Sequence,
)
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar
from unittest import mock

import pytest

from tests.engines.suite import Rig, until
from tests.support import virtual_time
from tests.support.waiting import PATIENCE_S
from vivace.config import Config, check
from vivace.conversation.deltas import Delta
from vivace.engines.base import Card, Continues, Engine, Work
from vivace.engines.remote import Address, Node, RemoteEngine
from vivace.link.frames import WINDOW
from vivace.node.app import EngineNode
from vivace.protocol.items import Item

__all__ = ["KEY", "LinkedRig", "by_command", "linked", "node_config", "on_virtual_time"]

by_command = pytest.mark.skipif(
    "VIVACE_NODE_SUITES" not in os.environ,
    reason="minutes with a real model; the scripted engine's suite runs always: "
    "VIVACE_NODE_SUITES=1 scripts/test --all tests/engines/test_llamacpp.py -k OnANode",
)

T = TypeVar("T")
KEY = "a key that only tests have"


def node_config(name: str = "n", slots: int = 64) -> Config:
    """Of one engine, which is given beside it."""
    engine = {"name": "e", "kind": "scripted", "model": "m", "slots": slots}
    raw = {"version": 1, "engines": [engine], "node": {"name": name, "port": 0}}
    return check(raw, Path("node.toml"))


def on_virtual_time(work: Coroutine[Any, Any, T]) -> T:
    """Run gateways and nodes of one process; their links and clocks go by virtual time."""
    now = SimpleNamespace(monotonic=lambda: asyncio.get_running_loop().time(), time=time.time)
    with mock.patch("vivace.node.app.time", now), mock.patch("vivace.node.works.time", now):
        return virtual_time.run(work, sockets=True)


@asynccontextmanager
async def linked(engine: Engine, window: int = WINDOW) -> AsyncIterator[tuple[EngineNode, Node]]:
    """A node with this engine, and a link to it."""
    node = EngineNode(node_config(), Path(), {"VIVACE_FLEET_KEY": KEY}, build=lambda *_: engine)
    async with node.listening() as (host, port):
        address = Address(f"ws://{host}:{port}", KEY)
        remote = Node(address, "gateway_tests", window=window)
        running = asyncio.create_task(remote.run())
        try:
            await asyncio.wait_for(remote.linked.wait(), PATIENCE_S)
            yield node, remote
        finally:
            remote.close()
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


class _Borrowed:
    """An engine that is another's to start and to stop."""

    def __init__(self, engine: Engine) -> None:
        self.name, self.cards, self.continues = engine.name, engine.cards, engine.continues
        self.counts = engine.counts
        self.healthy, self.running = engine.healthy, engine.running
        self.count, self.metrics = engine.count, engine.metrics
        self.generate = engine.generate

    async def start(self) -> None:
        pass

    async def stop(self) -> None:
        pass


class _Facade:
    """The engine behind the link of the moment; each check has one of its own."""

    def __init__(self, inner: Engine) -> None:
        self.name = "e"
        self.cards: Sequence[Card] = inner.cards
        self.continues: Continues = inner.continues
        self.counts = inner.counts
        self.remote: RemoteEngine | None = None

    @property
    def _engine(self) -> RemoteEngine:
        assert self.remote is not None, "this is asked inside a check"
        return self.remote

    async def start(self) -> None:
        await self._engine.start()

    async def stop(self) -> None:
        await self._engine.stop()

    def healthy(self) -> bool:
        return self._engine.healthy()

    def running(self) -> int:
        return self._engine.running()

    def count(self, items: Sequence[Item], model: str) -> int:
        return RemoteEngine.count(self.remote, items, model)  # type: ignore[arg-type]

    def metrics(self) -> bytes:
        return b""

    def generate(self, work: Work) -> AsyncGenerator[Delta, None]:
        return self._engine.generate(work)


class LinkedRig(Rig):
    def __init__(self, inner: Rig, window: int = WINDOW) -> None:
        self.inner = inner
        self.window = window
        self.engine = self.facade = _Facade(inner.engine)
        self.long_tokens = inner.long_tokens
        self.patience = inner.patience
        self.isolates_owners = inner.isolates_owners
        self.can_fail = inner.can_fail
        self.can_be_busy = inner.can_be_busy
        self.knows_its_health = inner.knows_its_health
        self.repeats_itself = inner.repeats_itself
        self.joins_for_slow_readers = inner.joins_for_slow_readers

    def short(self) -> Work:
        return self.inner.short()

    def long(self) -> Work:
        return self.inner.long()

    def echo(self, word: str) -> Work:
        return self.inner.echo(word)

    def counting(self) -> Work:
        return self.inner.counting()

    def failing(self) -> Work:
        return self.inner.failing()

    def refused(self) -> Work:
        return self.inner.refused()

    def overloaded(self) -> Work:
        return self.inner.overloaded()

    def kill(self) -> None:
        self.inner.kill()

    async def revive(self) -> None:
        await self.inner.revive()
        await until(self.engine.healthy)

    def run(self, check: Callable[[], Awaitable[T]]) -> T:
        async def whole() -> T:
            async with linked(_Borrowed(self.inner.engine), self.window) as (_, node):
                self.facade.remote = node.engines[0]
                try:
                    return await check()
                finally:
                    self.facade.remote = None

        return self.inner.run(whole)

"""Gateways as they ship, below the sockets: ``vivace.gateway.app.Gateway`` with a store, a journal
and engines that a seed decides about."""

from __future__ import annotations

import asyncio
import hashlib
import random
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any

from starlette.requests import Request

from chaos.history import Note, Process, Struck, Worked
from chaos.simulation.loop import Life, VirtualLoop, in_life
from chaos.simulation.store import Database, SimulatedJournal, SimulatedStore
from chaos.simulation.wires import Wire
from vivace import config as configs
from vivace.conversation.deltas import Delta
from vivace.engines.base import Card, Work
from vivace.engines.scripted import (
    Act,
    Call,
    Capacity,
    Mark,
    Recite,
    Reply,
    Script,
    ScriptedEngine,
    Think,
    _shown,
)
from vivace.gateway import app as apps
from vivace.gateway.responses import ResponsesApi

__all__ = ["SCRIPT", "Machine", "configured"]

_BODY = 1_000_000
_NEEDED = frozenset({"heartbeat", "going on", "parked", "presence", "orders"})
"""Of what a gateway does all its life: what these turns need."""


_REPLIES: dict[str, tuple[Act, ...]] = {
    "TEXT": (Mark(5),),
    "LONG": (Mark(10),),
    "CALL": (Mark(2), Call("look", "{}")),
    "THINK": (Think(" Hm."), Mark(3)),
    "": (Mark(3),),
}
SCRIPT = Script(
    tuple(Reply(when=f"^{word}", then=(Recite(), *acts)) for word, acts in _REPLIES.items())
)
_OWNERS = ("alice", "bob")


def configured(*, shared: bool, rate: float, burst: int) -> configs.Config:
    """``shared``: several gateways on one store, none of which writes down what turns say."""
    return configs.Config(
        version=1,
        engines=tuple(
            configs.ScriptedConfig(name=name, model="local-model", rate=rate, burst=burst)
            for name in ("left", "right")
        ),
        tiers=(configs.TierConfig(name="local-model", engines=("left", "right")),),
        limits=configs.LimitsConfig(orphan_seconds=2),
        store=configs.StoreConfig(
            url="postgresql://127.0.0.1/vivace" if shared else None, resume_seconds=4
        ),
        keys=tuple(
            configs.KeyConfig(name=name, sha256=hashlib.sha256(name.encode()).hexdigest())
            for name in _OWNERS
        ),
    )


class _Engine(ScriptedEngine):
    """Tells for whom it works."""

    note: Note
    life: Life
    clock: Callable[[], float]

    async def generate(self, work: Work) -> AsyncGenerator[Delta, None]:
        shown = tuple(Recite.text(_shown(work)).split()[1:])
        text = "" if work.said is None else work.said.text
        place = self.name, self.life.name, work.id
        self.note(Worked(self.clock(), *place, "began", work.attempt, shown, text))
        answer = super().generate(work)
        try:
            async for delta in answer:
                yield delta
        finally:
            await answer.aclose()
            if not self.life.over:
                self.note(Worked(self.clock(), *place, "stopped", work.attempt))


class _Gateway(apps.Gateway):
    """The shipped one, whose answers over HTTP are had without a way there."""

    def _app(self, config: configs.Config) -> Any:
        routes = ResponsesApi(self.runner, _BODY).routes()
        self.endpoints: dict[tuple[str, str], Any] = {
            (method, route.path.removeprefix("/v1/responses")): route.endpoint
            for route in routes
            for method in route.methods or ()
        }
        return None


class Machine:
    """Where a gateway runs, dies and is started again."""

    def __init__(
        self,
        name: str,
        config: configs.Config,
        database: Database,
        disk: Path | None,
        note: Note,
        dice: random.Random,
        loop: VirtualLoop,
    ) -> None:
        """``disk``: where what turns say is written down; None where it is not."""
        self.name = name
        self.gateway: _Gateway | None = None
        self.life: Life | None = None
        self.wires: list[Wire] = []
        self.engines: list[_Engine] = []
        self._config = config
        self._database = database
        self._disk = disk
        self._note = note
        self._dice = dice
        self._loop = loop
        self._lives = 0
        self._journals: list[SimulatedJournal] = []
        self._died = 0.0
        """When it did for which it has not been healed."""
        self._stop: Any = None
        self._isolated = False

    @property
    def up(self) -> bool:
        return self.gateway is not None

    @property
    def holder(self) -> str:
        return self.gateway.keeper.holder if self.gateway is not None else ""

    async def start(self) -> None:
        self._lives += 1
        life = Life(f"{self.name}.{self._lives}", self._ended)
        self.life, self._isolated = life, False
        work: Any = self._begin(life)
        await self._loop.create_task(_awaited(self._loop, work, life))
        if not life.over:
            self._note(Process(self._loop.time(), self.name, life.name, True))
            if self._lives > 1:
                self._note(Struck(self._died, self._loop.time(), "kill-gateway", self.name))
                self._died = 0.0

    async def _begin(self, life: Life) -> None:
        gateway = self._build(life)
        watch = gateway.supervisor.watch

        def watch_some(name: str, work: Any) -> Any:
            return watch(name, work) if name in _NEEDED else None

        gateway.supervisor.watch = watch_some  # type: ignore[method-assign]
        opened = gateway.opened()
        self._stop = opened  # which is never left in order
        await opened.__aenter__()
        self.gateway = gateway
        await gateway.start_engines()

    def _build(self, life: Life) -> _Gateway:
        near = self._disk is not None
        store = SimulatedStore(self._database, life, self._dice, near=near)
        journal: SimulatedJournal | None = None
        if self._disk is not None:
            journal = SimulatedJournal(self._disk, life)
            self._journals.append(journal)
        self.engines = []

        def engine(config: Any, base: Path, supervisor: Any) -> _Engine:
            card = Card(config.model, config.context, ends_thinking=True)
            made = _Engine(
                config.name, [card], SCRIPT, Capacity(rate=config.rate, burst=config.burst)
            )
            made.note, made.life, made.clock = self._note, life, self._loop.time
            self.engines.append(made)
            return made

        given = {
            "build_store": lambda *_: store,
            "build_journal": lambda *_: journal,
            "build_keyrings": lambda *_: [],
            "build_colleagues": lambda *_: None,
            "build_engine": engine,
            "Metrics": _Nothing,
        }
        taken = {name: getattr(apps, name) for name in given}
        try:
            for name, value in given.items():
                setattr(apps, name, value)
            return _Gateway(self._config, self._disk or Path("/nonexistent"))
        finally:
            for name, value in taken.items():
                setattr(apps, name, value)

    def connect(self) -> Wire | None:
        """To whom listens there; None if nobody does."""
        if self.gateway is None or self.life is None or self.life.over or self._isolated:
            return None
        wire = Wire(self.life, self._dice)
        self.wires.append(wire)
        return wire

    def isolate(self) -> None:
        """No client reaches this life of it any more."""
        self._isolated = True
        for wire in self.wires:
            wire.cut()
        self.wires.clear()

    def open_socket(self, wire: Wire, owner: str) -> None:
        assert self.gateway is not None
        scope = {"type": "websocket", "path": "/v1/responses", "state": _state(owner)}
        wire.say({"type": "websocket.connect"})
        wire.serve(self.gateway.door, scope)

    def ask(self, wire: Wire, owner: str, method: str, path: str, body: bytes) -> None:
        assert self.gateway is not None
        place, _, query = path.removeprefix("/v1/responses").partition("?")
        parts = place.split("/")
        name = parts[1] if len(parts) > 1 else ""
        known = place.replace(f"/{name}", "/{id}", 1) if name else ""
        endpoint = self.gateway.endpoints[method, known]
        scope = {
            "type": "http",
            "method": method,
            "path": path,
            "query_string": query.encode(),
            "headers": [],
            "path_params": {"id": name},
            "state": _state(owner),
        }

        async def answer(scope: Any, receive: Any, send: Any) -> None:
            request = Request(scope, receive, send)
            response = await endpoint(request)
            await response(scope, receive, send)

        wire.say({"type": "http.request", "body": body})
        wire.serve(answer, scope)

    def figures(self) -> dict[str, float]:
        """What runs, waits or is held, of which there should be nothing when all is calm."""
        gateway = self.gateway
        if gateway is None:
            return {}
        loads = gateway.dispatch._scheduler.loads(self._loop.time())
        return {
            f"{self.name} running": len(gateway.runner._running),
            f"{self.name} waiting": sum(gateway.dispatch._scheduler.lengths().values()),
            f"{self.name} on engines": sum(load.running for load in loads.values()),
            f"{self.name} engines work": sum(engine.running() for engine in self.engines),
        }

    def _ended(self, life: Life) -> None:
        self._died = self._died or self._loop.time()
        self._note(Process(self._loop.time(), self.name, life.name, False))
        self.gateway = None
        for wire in self.wires:
            wire.died()
        self.wires.clear()
        for journal in self._journals:
            journal.abandon()
        self._journals.clear()
        after = self._dice.choice([0.05, 0.5, 3])
        self._loop.call_later(after, self._start_again, context=in_life(None))

    def _start_again(self) -> None:
        self._loop.create_task(self.start(), context=in_life(None))


class _Nothing:
    """In place of metrics, which cost much to make and are not looked at."""

    def __getattr__(self, name: str) -> _Nothing:
        return self

    def __call__(self, *given: object, **more: object) -> _Nothing:
        return self


def _state(owner: str) -> dict[str, Any]:
    return {"owner": owner, "request_id": f"req of {owner}", "codex": False, "traceparent": None}


async def _awaited(loop: VirtualLoop, work: Any, life: Life) -> None:
    """Whoever starts a gateway goes on when that has died meanwhile."""
    task = loop.create_task(work, context=in_life(life))
    while not task.done() and not life.over:
        await asyncio.sleep(0.01)
    if task.done():
        task.result()

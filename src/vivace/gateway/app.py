"""The composition root: configuration in, a running server out. Concrete parts are named here."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import signal
import socket
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.responses import Response as HttpResponse
from starlette.routing import Route
from starlette.types import ASGIApp

from vivace.addresses import is_loopback
from vivace.config import (
    Config,
    OpenAIConfig,
    check_reach,
    stand_ins,
)
from vivace.conversation.session import Limits
from vivace.engines.base import Engine
from vivace.engines.building import build_engine
from vivace.engines.llamacpp import accelerators, llamacpp_command
from vivace.errors import ConfigError, StoreAway, StoreError
from vivace.gateway.archive import Archive
from vivace.gateway.auth import Keys
from vivace.gateway.catalogue import Catalogue
from vivace.gateway.chat import ChatApi
from vivace.gateway.client_connection import connect
from vivace.gateway.connections import Connections
from vivace.gateway.dispatch import Dispatch
from vivace.gateway.draining import Draining
from vivace.gateway.elsewhere.along import ReadingAlong
from vivace.gateway.elsewhere.asking import Asking
from vivace.gateway.elsewhere.carrying import Carrying
from vivace.gateway.elsewhere.runs import SharedRuns
from vivace.gateway.examining import examine
from vivace.gateway.fleet import Fleet
from vivace.gateway.fleet_api import FleetApi
from vivace.gateway.front import Front
from vivace.gateway.handing_over import HandingOver
from vivace.gateway.http import fault, wrong_address
from vivace.gateway.ids import new_id, now
from vivace.gateway.keeping.adopted import Asked
from vivace.gateway.keeping.counting import counted
from vivace.gateway.keeping.kept import Keeper
from vivace.gateway.keeping.recovery import Recovery
from vivace.gateway.keyring import Keyring
from vivace.gateway.large import LargeWork
from vivace.gateway.listening import Listening
from vivace.gateway.membership import Membership
from vivace.gateway.messages_api import MessagesApi
from vivace.gateway.metrics import Metrics
from vivace.gateway.models_api import ModelsApi
from vivace.gateway.parts import (
    build_bell,
    build_colleagues,
    build_journal,
    build_keyrings,
    build_limiter,
    build_shared_keys,
    build_store,
    build_tier,
    migrate_store,
)
from vivace.gateway.planning import Planner
from vivace.gateway.ports import RunDirectory
from vivace.gateway.responses import ResponsesApi
from vivace.gateway.resuming.records import LocalEventLog
from vivace.gateway.runner import Runner
from vivace.gateway.runs import LocalRuns
from vivace.gateway.websocket import WebSocketDoor
from vivace.gateway.wire_http import HttpConnection
from vivace.gateway.wire_websocket import WebSocketConnection
from vivace.inbound import listen, within_file_limit
from vivace.logs import Throttled, on_loop_error
from vivace.scheduling.memory import Memory
from vivace.scheduling.scheduler import Room, Scheduler
from vivace.supervisor import Supervisor

__all__ = [
    "Gateway",
    "accelerators",
    "build_shared_keys",
    "examine",
    "llamacpp_command",
    "migrate_store",
    "serve",
]

log = logging.getLogger("vivace")

Ready = Callable[[], Coroutine[Any, Any, None]]

_MEGABYTE = 1_000_000
_PRUNE_EVERY = 30.0
_LOOK_AT_TROUBLE = 2.0
_LOOK_AT_KEYS = 0.25
_LOOK_AGAIN = 1.0


class Gateway:
    """Everything one process needs to serve, wired together."""

    def __init__(self, config: Config, base: Path) -> None:
        """``base`` is where relative paths in the configuration start."""
        limits = config.limits
        self._config = config
        self._started: list[Engine] = []
        self._loaded: list[Engine] = []
        """Of those that were started, the ones that have answered."""
        self.metrics = Metrics()
        self.supervisor = Supervisor()
        self.metrics.show_tasks(self.supervisor)
        self._own = [build_engine(engine, base, self.supervisor) for engine in config.engines]
        """Engines of this process, which it starts and stops; others join."""
        self.catalogue = Catalogue(
            self._own,
            [build_tier(tier) for tier in config.tiers],
            stand_ins(config),
            grows=bool(config.fleet.engines),
        )
        rooms = {each.name: Room(each.slots, each.reserved) for each in config.engines}
        scheduler = Scheduler(self.catalogue.tiers, rooms)
        self.listening = Listening(
            self.catalogue.by_name,
            {
                each.name: each.silence_seconds
                for each in config.engines
                if not isinstance(each, OpenAIConfig)  # its time limits are its endpoint's
            },
        )
        self.dispatch = Dispatch(
            scheduler, self.catalogue.by_name, self.metrics, self.listening.silent
        )
        self.membership = Membership(self.catalogue, self.dispatch, self.listening)
        holder = new_id("gateway")
        shared = config.store.url is not None
        self.fleet = Fleet(
            config.fleet,
            base,
            self.membership,
            self.supervisor,
            holder,
            orphan_seconds=limits.orphan_seconds if shared else 0.0,
        )
        self.memory = Memory(
            limits.memory_megabytes * _MEGABYTE, limits.memory_megabytes_per_key * _MEGABYTE
        )
        self.metrics.show_memory(self.memory)
        store = counted(build_store(config.store, base), self.metrics)
        events = LocalEventLog(self.memory, limits.orphan_seconds)
        large = LargeWork()
        self.archive = Archive(store, events, self.memory, large, shared=shared)
        self.keeper = Keeper(
            store,
            build_journal(config.store, base),
            holder,
            must=shared,
            dead_after=config.fleet.dead_after_seconds if shared else None,
        )
        self.metrics.show_store(lambda: store.trouble is None)
        keyrings = build_keyrings(config.store, base)
        # Whether there are keys in a database is found out when it answers.
        closed = config.store.url is not None and not is_loopback(config.server.host)
        self.keys = Keys(config.keys, keyrings, closed=closed)
        check_reach(config, keys=self.keys.needed)  # whoever made the configuration, and however
        presence = self.keeper.presence
        self.limiter = build_limiter(config.fleet, lambda: presence.gateways)
        self.metrics.show_limits(self.limiter)
        here = LocalRuns()
        runs: RunDirectory = here
        self.recovery = Recovery(
            self.keeper,
            self.archive,
            here,
            resume_seconds=config.store.resume_seconds,
            nodes=self.fleet,
            knows=self.keys.knows,
            serves=self._serves,
        )
        asking: Asking | None = None
        if shared:
            self.bell = build_bell(config.fleet, holder)
            reads = self.archive.reads
            asking = Asking(self.keeper, self.bell, self.metrics, self.recovery, reads)
            runs = SharedRuns(here, asking, ReadingAlong(self.fleet, self.memory))
            self.carrying = Carrying(
                self.keeper,
                here,
                self.recovery,
                self.bell,
                self.metrics,
                config.fleet.heartbeat_seconds,
            )
            asking.look_here = self.carrying.look
        self.runner = Runner(
            Planner(self.catalogue, self.dispatch, self.limiter),
            self.archive,
            self.keeper,
            runs,
            self.metrics,
            Limits(limits.turns_in_flight, limits.lanes, limits.turns_waiting),
            self.memory,
            large,
            self.keys.knows,
            self.listening,
            self.recovery,
            connect,
            limits.orphan_seconds,
            asking,
        )
        self.connections = Connections(limits, config.server.trusted_proxies, self.metrics)
        self.door = WebSocketDoor(self.runner, max_seconds=limits.connection_minutes * 60)
        self.colleagues = build_colleagues(config.store)
        self.draining = self._draining(config)
        self.app = self._app(config)

    def _serves(self, owner: str, asked: Asked) -> bool:
        """Return whether this gateway may take such a turn over: it could run it, or knows that no
        gateway may."""
        with contextlib.suppress(StoreAway):
            if not self.keys.knows(owner):
                return self.keys.was_revoked(owner)
        return self.catalogue.may_serve(asked.model, asked.service_tier)

    def _draining(self, config: Config) -> Draining:
        name = config.fleet.name or f"{socket.gethostname()}:{config.server.port}"
        holder, table = self.keeper.holder, self.colleagues
        if table is None:
            return Draining(self.runner, self.door, holder, name)
        giving = HandingOver(self.runner, self.keeper, self.recovery, table, self.fleet)
        return Draining(self.runner, self.door, holder, name, table, giving)

    def _fleet_api(self, config: Config) -> FleetApi:
        return FleetApi(
            self.keys,
            self.catalogue,
            self.dispatch,
            self.fleet,
            self.draining,
            self.runner.reader,
            self.keeper.holder,
            self.colleagues,
            dead_after=config.fleet.dead_after_seconds,
            drain_seconds=config.limits.drain_seconds,
        )

    def _app(self, config: Config) -> ASGIApp:
        max_body = config.limits.body_megabytes * _MEGABYTE
        routes = [
            *ResponsesApi(self.runner, max_body).routes(),
            *ChatApi(self.runner, max_body).routes(),
            *MessagesApi(self.runner, self.catalogue, max_body).routes(),
            *ModelsApi(self.catalogue).routes(),
            *self._fleet_api(config).routes(),
            Route("/healthz", self._healthz),
            Route("/readyz", self._readyz),
            Route("/metrics", self._metrics),
        ]
        origins = config.server.allowed_origins
        middleware = [
            Middleware(
                CORSMiddleware, allow_origins=origins, allow_methods=["*"], allow_headers=["*"]
            )
        ]
        app = Starlette(
            routes=routes,
            middleware=middleware if origins else [],
            exception_handlers={HTTPException: wrong_address, Exception: fault},
        )
        return Front(
            app,
            {"/v1/responses": self.door},
            self.keys,
            self.connections,
            origins=origins,
            hosts=config.server.allowed_hosts,
        )

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Engines are ready inside the block and gone after it."""
        async with self.opened():
            await self.start_engines()
            yield

    @contextlib.asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        """Inside the block requests are answered, as far as engines have been started; after it all
        of them are gone."""
        await self.archive.open()
        if self.keys.unread and self.archive.trouble is None:
            for keyring in self.keys.keyrings:
                await self.keys.look(keyring)
        if self.keeper.must:
            with contextlib.suppress(StoreError):  # before the first turn: who never beat is gone
                await self.keeper.presence.beat()
            self.supervisor.watch("heartbeat", self._beat)
            self.supervisor.watch("turns of gateways that are gone", self._take_over)
            self.supervisor.watch("presence", self.keeper.presence.watch)
            self.supervisor.watch("orders", self.carrying.watch)
            self.supervisor.watch("what is wanted of this gateway", self.draining.watch)
            if self._config.fleet.valkey is not None:
                self.supervisor.watch("wake-ups", self.bell.watch)
        else:
            try:
                await self.recovery.look()
            except StoreError:  # a damaged one is told of by /readyz
                self.supervisor.watch("turns left open", self._look_again)
        if self._config.fleet.valkey is not None:
            await self.limiter.open()
            self.supervisor.watch("limits", self.limiter.watch)
        self.supervisor.watch("parked", self.recovery.watch)
        self.supervisor.watch("going on", self.runner.reviving.watch)
        self.supervisor.watch("deadlines", self.connections.watch)
        self.supervisor.watch("pruning", self._prune)
        for name, keyring in zip(("keys", "shared keys"), self.keys.keyrings, strict=False):
            self.supervisor.watch(name, partial(self._watch_keys, keyring))
        self.supervisor.watch("listening", self.listening.watch)
        self.fleet.start()
        # What exists now lives as long as the process; a collector that never looks at it again
        # has less to do in the middle of somebody's answer.
        gc.collect()
        gc.freeze()
        try:
            yield
        finally:
            await self.supervisor.stop()
            for engine in self._started:
                await engine.stop()
            await self.limiter.close()
            await self.keeper.write_owed()
            await self.draining.gone()
            # Together: each waits a while for a database that does not answer.
            await asyncio.gather(self.archive.close(), self.keys.close())
            self.keeper.close()

    async def start_engines(self) -> None:
        """One after the other; returns when all of them answer."""
        for engine in self._own:
            self._started.append(engine)
            await engine.start()
            self._loaded.append(engine)

    @property
    def loading(self) -> bool:
        return len(self._loaded) < len(self._own)

    async def _watch_keys(self, keyring: Keyring) -> None:
        """A revoked key ends within a second all that it began, without a restart. Each keyring is
        looked at for itself: one that does not answer holds up no other."""
        while True:
            await asyncio.sleep(_LOOK_AT_KEYS)
            for owner, name in (await self.keys.look(keyring)).items():
                log.info("the key %r was revoked; what it began ends", name)
                self.door.revoke(owner)
                self.runner.revoke(owner)
                self.connections.revoke(owner)

    async def _look_again(self) -> None:
        """Turns that a crash cut off, until the store lets us have them."""
        while True:
            await asyncio.sleep(_LOOK_AGAIN)
            with contextlib.suppress(StoreError):
                await self.recovery.look()
                return

    async def _beat(self) -> None:
        """Others that share the store know by this that we live."""
        while True:
            with contextlib.suppress(StoreError):  # its trouble is known, and told elsewhere
                await self.keeper.presence.beat()
            await asyncio.sleep(self._config.fleet.heartbeat_seconds)

    async def _take_over(self) -> None:
        """What the dead held has an end. To take much may last longer than who lives is silent, so
        no heartbeat waits for it."""
        while True:
            if not self.draining.active:
                with contextlib.suppress(StoreError):
                    await self.recovery.look(dead_after=self._config.fleet.dead_after_seconds)
            await asyncio.sleep(self._config.fleet.heartbeat_seconds)

    async def _prune(self) -> None:
        """Also finds out when a store that was in trouble works again, if no turn does before."""
        while True:
            try:
                gone = await self.archive.prune(now())
            except StoreError:
                if self.archive.trouble is None:
                    raise
                gone = 0
            self.keeper.wipe()
            if gone:
                self.keeper.deleted()
                log.info("forgot %d stored turns that were too old or too many", gone)
            await self._until_pruning_is_due()

    async def _until_pruning_is_due(self) -> None:
        for _ in range(max(1, round(_PRUNE_EVERY / _LOOK_AT_TROUBLE))):
            await asyncio.sleep(min(_PRUNE_EVERY, _LOOK_AT_TROUBLE))
            await self.keeper.write_owed()
            if self.archive.trouble:
                return

    async def drain(self) -> None:
        await self.draining.leave(self._config.limits.drain_seconds)
        self.connections.shut_down()
        await self.door.close()

    # -- small endpoints --------------------------------------------------------------------------

    async def _healthz(self, request: Request) -> HttpResponse:
        return PlainTextResponse("ok\n")

    async def _readyz(self, request: Request) -> HttpResponse:
        why = "; ".join(self._unready())
        return PlainTextResponse(f"{why or '; '.join(self._ready())}\n", 503 if why else 200)

    def _ready(self) -> Iterator[str]:
        """What is missing and no reason to send requests elsewhere: other gateways have the same
        nodes."""
        yield "ready"
        for tier in self.catalogue.deserted:
            yield f"no engine node that offers {tier!r} is connected"

    def _unready(self) -> Iterator[str]:
        """Why no requests should be sent here."""
        if why := self.draining.why:
            yield why
        if not any(engine.healthy() for engine in self.catalogue.engines) and not self._own:
            yield "no engine node is connected"
        for engine in self._own:
            if engine not in self._loaded:
                yield f"{engine.name} is loading its model"
            elif not engine.healthy():
                yield f"{engine.name} has died"
            elif self.dispatch.is_left(engine.name):
                yield f"{engine.name} has work and does none of it"
        if trouble := self.archive.trouble:
            yield trouble
        if self.keys.unread:
            yield "the keys in the store have not been read yet"
        if down := self.supervisor.down():
            yield f"failed and about to start again: {', '.join(down)}"

    async def _metrics(self, request: Request) -> HttpResponse:
        # Two engines of one kind may share one registry, whose figures must not come twice.
        self.dispatch.measure()
        of_engines = {engine.metrics() for engine in self.catalogue.engines}
        body = self.metrics.exposition() + b"".join(sorted(of_engines))
        return HttpResponse(body, media_type=Metrics.CONTENT_TYPE)


# -- running --------------------------------------------------------------------------------------


class Server(uvicorn.Server):
    """uvicorn, but it answers while engines load, and SIGTERM lets running turns finish first."""

    def __init__(self, config: uvicorn.Config, gateway: Gateway, ready: Ready | None) -> None:
        super().__init__(config)
        self.failure: BaseException | None = None
        """Why an engine could not be started."""
        self._gateway = gateway
        self._ready = ready
        self._beginning: asyncio.Task[None] | None = None
        self._leaving: asyncio.Task[None] | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._beginning = asyncio.create_task(self._begin())

    async def _begin(self) -> None:
        try:
            await self._gateway.start_engines()
        except Exception as error:  # noqa: BLE001 - whatever it is, it ends the server, which tells
            self.failure = error
            self.should_exit = True
            return
        if self._ready is not None:
            await self._ready()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            # Windows has no signal handlers on the loop; there Ctrl-C ends the process at once.
            with contextlib.suppress(NotImplementedError):
                loop.add_signal_handler(number, self.leave, number)
        yield

    def leave(self, number: int) -> None:
        if self._leaving is None:
            log.info("shutting down: no new turns, waiting for running ones")
            if self._beginning is not None and not self._gateway.loading:
                self._beginning.cancel()
            self._leaving = asyncio.create_task(self._leave(number))
        else:  # asked twice: somebody is in a hurry
            self.should_exit = self.force_exit = True

    async def _leave(self, number: int) -> None:
        try:
            await self._gateway.drain()
        finally:
            if self._gateway.loading:
                # An engine that loads its model cannot be called off: we end as if we had not
                # listened, and it ends with us.
                signal.signal(number, signal.SIG_DFL)
                signal.raise_signal(number)
            self.should_exit = True


def uvicorn_config(gateway: Gateway, config: Config) -> uvicorn.Config:
    return uvicorn.Config(
        gateway.app,
        host=config.server.host,
        port=config.server.port,
        http=partial(HttpConnection, gateway.connections),  # type: ignore[arg-type]
        ws=partial(WebSocketConnection, gateway.connections),  # type: ignore[arg-type]
        ws_max_size=config.limits.body_megabytes * _MEGABYTE,
        # Deflate costs each idle connection tens of kilobytes and each token its latency.
        ws_per_message_deflate=False,
        ws_ping_interval=30,
        ws_ping_timeout=30,
        access_log=False,
        log_config=None,
        server_header=False,
        timeout_graceful_shutdown=2,
        lifespan="off",
        backlog=4096,
    )


def serve(config: Config, base: Path, ready: Ready | None = None) -> None:
    """Listen until told to stop. ``ready`` is called once requests are answered."""
    config = within_file_limit(config)
    logging.getLogger("uvicorn.error").addFilter(Throttled())  # a line for each broken request
    gateway = Gateway(config, base)  # a second one on this store is refused before it takes a port
    try:
        listener = listen(config.server.host, config.server.port, "server.port or VIVACE_PORT")
    except ConfigError:
        asyncio.run(gateway.archive.close())
        raise
    host, port = listener.getsockname()[:2]
    models = ", ".join(card.name for card in gateway.catalogue.cards) or "those of engine nodes"
    open_to = "this machine only" if is_loopback(config.server.host) else "everyone with a key"
    log.info("listening on http://%s:%d/v1 for %s; models: %s", host, port, open_to, models)
    settings = uvicorn_config(gateway, config)
    server = Server(settings, gateway, ready)

    async def run() -> None:
        asyncio.get_running_loop().set_exception_handler(on_loop_error)
        async with gateway.opened():
            await server.serve(sockets=[listener])
            if server.failure is not None:
                raise server.failure

    with asyncio.Runner(loop_factory=settings.get_loop_factory()) as runner:
        runner.run(run())

"""The composition of an engine node: its engines, served to gateways over links."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
import signal
import ssl
import time
from collections.abc import AsyncIterator, Callable, Mapping
from functools import partial
from pathlib import Path

from websockets.asyncio.server import ServerConnection

from vivace.config import Config, check_node
from vivace.engine_config import EngineConfig, OpenAIConfig
from vivace.engines.base import Engine
from vivace.engines.building import build_engine
from vivace.engines.link_socket import LinkSocket
from vivace.engines.remote_work import encode_cards
from vivace.errors import ConfigError, LinkError
from vivace.fleet_config import fleet_key
from vivace.inbound import listen, within_file_limit
from vivace.link.frames import (
    SUBPROTOCOL,
    Drain,
    Hello,
    Load,
    Measure,
    Measured,
    Offer,
    Run,
    ToGateway,
    ToNode,
    Welcome,
    agreed,
    decode_to_node,
)
from vivace.link.node_end import Begin, NodeEnd
from vivace.link.pieces import ByteBudget, Joiner
from vivace.logs import on_loop_error, place_of
from vivace.node.door import Door
from vivace.node.draining import Draining
from vivace.node.lengths import Lengths
from vivace.node.works import Works
from vivace.scheduling.scheduler import Room
from vivace.supervisor import Supervisor

__all__ = ["EngineNode", "new_loop", "run_node"]

log = logging.getLogger("vivace.node")

_MEGABYTE = 1_000_000
_HANDING_OVER = 2.0
"""Seconds that gateways get to take elsewhere what has begun."""
_BACKLOG = 128
"""Connections that wait to be accepted. Gateways are few; behind thousands of strangers one would
wait for longer than it tries."""
_LOOK = 0.1
"""Seconds between two looks at the engines; what has changed is told."""


Build = Callable[[EngineConfig, Path, Supervisor], Engine]


class EngineNode:
    def __init__(
        self,
        config: Config,
        base: Path,
        environment: Mapping[str, str] = os.environ,
        build: Build = build_engine,
    ) -> None:
        """``base`` is where relative paths in the configuration start."""
        check_node(config, environment)
        self._config = config
        self._base = base
        self._key = fleet_key(config.fleet, environment)
        self._incarnation = secrets.token_hex(8)
        self.supervisor = Supervisor()
        self._engines: dict[str, Engine] = {
            each.name: build(each, base, self.supervisor) for each in config.engines
        }
        memory = config.limits.memory_megabytes * _MEGABYTE
        self._end = NodeEnd(max_bytes=config.node.log_megabytes * _MEGABYTE, max_open_bytes=memory)
        self._pieces = ByteBudget(config.limits.unfinished_megabytes * _MEGABYTE)
        rooms = {each.name: Room(each.slots, each.reserved) for each in config.engines}
        # Gateways close a client that takes nothing after slow_reader_seconds; they come first.
        untaken = 2 * config.limits.slow_reader_seconds
        self._works = Works(self._engines, rooms, self._end, self._flush_soon, untaken)
        self._lengths = Lengths(self._engines)
        self._sockets: dict[str, LinkSocket[ToGateway, ToNode]] = {}
        self._flushing = False
        self._loaded = False
        self._leaving = False
        self._draining = Draining(config.limits.drain_seconds)

    # -- its life ---------------------------------------------------------------------------------

    @contextlib.asynccontextmanager
    async def listening(self) -> AsyncIterator[tuple[str, int]]:
        """Answers gateways inside the block, once the engines are ready; gives where."""
        node, limits = self._config.node, self._config.limits
        tls = self._tls()
        listener = listen(node.host, node.port, "node.port", _BACKLOG)
        host, port = listener.getsockname()[:2]
        door = Door(
            listener,
            tls,
            self._key,
            limits,
            self._config.server.trusted_proxies,
            self._link,
            self._unready,
            lambda: self._loaded and not self._leaving,  # one that is drained is read on
        )
        door.open()
        try:
            for engine in self._engines.values():
                await engine.start()
            self._loaded = True
            self.supervisor.watch("looking at engines", self._look)
            yield host, port
        finally:
            self._leaving = True
            await self._works.stop()
            await door.stop()
            self._lengths.stop()
            await self.supervisor.stop()
            for engine in self._engines.values():
                await engine.stop()

    def _tls(self) -> ssl.SSLContext | None:
        node = self._config.node
        if node.certificate is None or node.private_key is None:
            return None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        try:
            context.load_cert_chain(self._base / node.certificate, self._base / node.private_key)
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(
                f"node.certificate and node.private_key cannot be used: {error}."
            ) from error
        return context

    async def drain(self, seconds: float) -> None:
        """Take no new work; wait until what runs has ended. What has not in so many seconds goes on
        at another node, if it can."""
        self._draining.for_good(seconds, time.monotonic())
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds + _HANDING_OVER):
                await self._works.finished()

    # -- links ------------------------------------------------------------------------------------

    def _unready(self) -> str:
        if self._leaving:
            return "shutting down"
        return self._draining.why if self._loaded else "loading models"

    async def _link(self, connection: ServerConnection) -> None:
        """One gateway, for as long as its link lasts."""
        if connection.subprotocol != SUBPROTOCOL:
            await connection.close(1002, f"this node speaks {SUBPROTOCOL}")
            return
        peer = secrets.token_hex(8)
        joiner = Joiner(budget=self._pieces, evict=connection.transport.abort)
        socket = LinkSocket[ToGateway, ToNode](
            connection, decode_to_node, joiner=joiner, drained=self._flush_soon
        )
        sending = asyncio.create_task(socket.send())
        try:
            async for messages in socket.received():
                for message in messages:
                    self._received(peer, socket, message)
                if peer not in self._sockets:
                    raise LinkError("A gateway must say hello first.")
                self._flush_soon()
                if sending.done():
                    break
        except LinkError as error:
            log.warning("a link is closed: %s", error)
            await connection.close(1002, str(error)[:100])
        except Exception as error:  # noqa: BLE001 - whatever a gateway says ends its link alone
            log.error("fault of a link: %s", place_of(error))
            await connection.close(1011)
        finally:
            joiner.close()
            if self._sockets.pop(peer, None) is not None:
                self._end.lost(peer, time.monotonic())
                self._lengths.lost(peer)
                self._works.room()
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)

    def _received(self, peer: str, socket: LinkSocket[ToGateway, ToNode], message: ToNode) -> None:
        if isinstance(message, Hello):
            if peer in self._sockets:
                raise LinkError("A gateway said hello twice.")
            self._welcome(peer, socket, message)
            return
        if peer not in self._sockets:
            raise LinkError("A gateway must say hello first.")
        if isinstance(message, Measure):
            self._lengths.measure(peer, message, partial(self._tell_length, peer))
            return
        now = time.monotonic()
        if isinstance(message, Drain):
            self._drain(message, now)
            return
        full = self._draining.stage(now) or self._leaving
        if full and isinstance(message, Run) and not self._end.knows(message.run):
            self._end.turn_away(peer, message, "It takes no more work.")
            return
        for do in self._end.received(peer, message, now):  # type: ignore[arg-type]
            if isinstance(do, Begin):
                self._works.begin(do)
            else:
                self._works.halt(do.run)
        self._works.room()

    def _drain(self, asked: Drain, now: float) -> None:
        if asked.on:
            self._draining.begin(asked.seconds, now)
        else:
            self._draining.undo()
        log.info("%s", self._draining.why or "takes work")
        self._tell()

    def _welcome(self, peer: str, socket: LinkSocket[ToGateway, ToNode], hello: Hello) -> None:
        version = agreed(hello.versions)
        self._sockets[peer] = socket
        self._end.joined(peer)
        offers = tuple(
            _offer(config, self._engines[config.name]) for config in self._config.engines
        )
        stage = self._draining.stage(time.monotonic())
        socket.say([Welcome(self._config.node.name, self._incarnation, version, offers, stage)])
        log.info("linked to gateway %s", hello.gateway)

    def _tell_length(self, peer: str, measured: Measured) -> None:
        if peer in self._sockets:  # it may be gone by now
            self._sockets[peer].say([measured])

    def _flush_soon(self) -> None:
        """When this turn of the event loop is over: what engines say in one step goes together."""
        if not self._flushing:
            self._flushing = True
            asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        self._flushing = False
        ready = [peer for peer in self._end.waiting() if not self._sockets[peer].is_full]
        for peer in ready:
            self._sockets[peer].say(self._end.outgoing(peer))
        if any(not self._sockets[peer].is_full for peer in self._end.waiting()):
            self._flush_soon()

    # -- time -------------------------------------------------------------------------------------

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(_LOOK)
            for halt in self._end.tick(time.monotonic()):
                self._works.halt(halt.run)
            self._works.look()
            self._tell()

    def _tell(self) -> None:
        """Gateways how things stand."""
        loads = [
            Load(
                each.name,
                engine.healthy(),
                engine.running(),
                self._works.waiting(each.name),
                each.slots,
            )
            for each in self._config.engines
            for engine in [self._engines[each.name]]
        ]
        self._end.stands(loads, self._draining.stage(time.monotonic()))
        self._flush_soon()


def _offer(config: EngineConfig, engine: Engine) -> Offer:
    return Offer(
        config.name,
        encode_cards(engine.cards),
        config.slots,
        config.reserved,
        engine.continues,
        None if isinstance(config, OpenAIConfig) else config.silence_seconds,
        engine.counts,
    )


def run_node(config: Config, base: Path, build: Build = build_engine) -> None:
    """Serve gateways until told to stop."""
    config = within_file_limit(config)
    node = EngineNode(config, base, build=build)

    async def run() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(on_loop_error)
        told = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, told.set)
        async with node.listening() as (host, port):
            log.info("engine node %s on %s:%d", config.node.name or "", host, port)
            await told.wait()
            log.info("shutting down: no new work, waiting for what runs")
            await node.drain(config.limits.drain_seconds)

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(run())


def new_loop() -> asyncio.AbstractEventLoop:
    """The faster kind where there is one, as gateways have it."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()

"""The port of a node: strangers are bounded, and keep no gateway out."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from websockets.exceptions import InvalidStatus

from tests.engines.linked import KEY, node_config, on_virtual_time
from tests.engines.test_scripted import engine
from tests.node.test_app import dial
from tests.support.nodes import make_certificates
from tests.support.virtual_time import elapse
from tests.support.waiting import PATIENCE_S
from vivace.config import Config
from vivace.engines.remote import Address, Node
from vivace.engines.scripted import Say
from vivace.link.frames import encode
from vivace.node import app
from vivace.node.app import EngineNode, run_node

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


def config(*, trusted: tuple[str, ...] = ("127.0.0.0/8",), **limits: int) -> Config:
    """Return limits in which no connection is closed for its age unless a test wants that."""
    given = node_config()
    return replace(
        given,
        limits=replace(given.limits, **{"head_seconds": 3600, **limits}),
        server=replace(given.server, trusted_proxies=trusted),
    )


def serving(settings: Config, base: Path = Path()) -> EngineNode:
    return EngineNode(
        settings, base, {"VIVACE_FLEET_KEY": KEY}, build=lambda *_: engine(Say("word"))
    )


def run(check: Callable[[int], Coroutine[Any, Any, None]], settings: Config | None = None) -> None:
    async def whole() -> None:
        async with serving(settings or config()).listening() as (_, port):
            await check(port)

    asyncio.run(asyncio.wait_for(whole(), PATIENCE_S))


@asynccontextmanager
async def stranger(port: int, data: bytes = b"") -> AsyncIterator[Streams]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(data)
        yield reader, writer
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


async def left_alone(streams: Streams) -> None:
    """Returns when the node has closed it, without a word."""
    with suppress(ConnectionResetError):
        assert await streams[0].read() == b""


@asynccontextmanager
async def linked(port: int, tls: ssl.SSLContext | None = None) -> AsyncIterator[Node]:
    scheme = "ws" if tls is None else "wss"
    node = Node(Address(f"{scheme}://127.0.0.1:{port}", KEY, tls, "127.0.0.1"), "g")
    running = asyncio.create_task(node.run())
    try:
        await node.linked.wait()
        yield node
    finally:
        node.close()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


def test_newer_connections_take_the_place_of_those_that_show_no_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("vivace.node.door._MAX_PENDING", 3)

    async def check(port: int) -> None:
        async with AsyncExitStack() as stack:
            idle = [await stack.enter_async_context(stranger(port)) for _ in range(4)]
            await left_alone(idle[0])
            async with linked(port) as gateway:
                await left_alone(idle[1])
                more = [await stack.enter_async_context(stranger(port)) for _ in range(9)]
                await left_alone(more[0])
                assert gateway.linked.is_set(), "one with the key is not pending"

    run(check)


def test_connections_of_one_address_are_bounded() -> None:
    async def check(port: int) -> None:
        async with (
            stranger(port) as first,
            stranger(port) as second,
            stranger(port, b"GET /healthz HTTP/1.1\r\n\r\n") as third,
        ):
            await left_alone(first)
            assert (await third[0].read()).startswith(b"HTTP/1.1 200")
            async with linked(port), linked(port):
                await left_alone(second)
                async with stranger(port) as fourth:  # both places are gateways' now
                    await left_alone(fourth)

    run(check, config(trusted=(), connections_per_address=2))


def test_connections_of_all_addresses_are_bounded() -> None:
    async def check(port: int) -> None:
        async with linked(port), linked(port), stranger(port) as third:
            await left_alone(third)

    run(check, config(connections=2))


def test_links_with_the_key_are_bounded() -> None:
    async def check(port: int) -> None:
        async with linked(port):
            with pytest.raises(InvalidStatus, match="429"):
                await dial(port)
        async with linked(port):
            pass

    run(check, config(connections_per_key=1))


@pytest.mark.parametrize(
    "data",
    [b"", b"GET /link HTTP/1.1\r\nx: ", b"GET /link HTTP/1.1\r\n" + b"x: y\r\n" * 20],
)
def test_stranger_has_so_many_seconds_to_show_the_key(data: bytes) -> None:
    async def check() -> None:
        node = serving(config(head_seconds=3))
        async with node.listening() as (_, port), stranger(port, data) as one:
            began = asyncio.get_running_loop().time()
            await left_alone(one)
            assert 2.9 < asyncio.get_running_loop().time() - began < 4

    on_virtual_time(check())


def test_link_without_a_first_word_is_closed_though_it_beats() -> None:
    async def check(port: int) -> None:
        async with dial(port) as connection:
            await connection.send(encode([]))
            await connection.wait_closed()
            assert "hello first" in (connection.close_reason or "")

    run(check)


def test_head_that_does_not_end_is_not_kept() -> None:
    """The library would keep a megabyte of it: 128 headers of 8 KB."""

    async def check(port: int) -> None:
        head = b"".join(b"x%d: %b\r\n" % (number, b"y" * 900) for number in range(100))
        async with stranger(port, b"GET /link HTTP/1.1\r\n" + head) as one:
            await left_alone(one)

    run(check)


GARBAGE = [
    b"x\r\n\r\n",
    b"GET /link HTTP/1.1\r\nAuthorization Bearer SECRET\r\n\r\n",
    b"GET /link HTTP/1.1\r\nAuthorization: Bearer SECRET\r\n\r\n",
    b"POST /readyz HTTP/1.1\r\ncontent-length: 5\r\n\r\nhello",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"x" * 600,
    b"",
]


def test_strangers_are_logged_by_their_number_once_a_minute(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)

    async def check() -> None:
        async with serving(config()).listening() as (_, port):
            for data in GARBAGE * 4:
                async with stranger(port, data) as (reader, writer):
                    writer.write_eof()
                    await reader.read()
            await elapse(61)
            await elapse(61)

    on_virtual_time(check())
    lines = [each for each in caplog.records if "refused" in each.message]
    assert len(lines) == 2
    assert {each.levelno for each in caplog.records} == {logging.INFO}
    counts = [int(word) for each in lines for word in each.message.split() if word.isdigit()]
    assert sum(counts) == 24
    assert "SECRET" not in caplog.text
    assert not any(each.exc_info for each in caplog.records)


def test_strangers_count_before_tls_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("vivace.node.door._MAX_PENDING", 3)
    make_certificates(tmp_path)
    given = config()
    files = replace(given.node, certificate="node.pem", private_key="node.key")
    trust = ssl.create_default_context(cafile=tmp_path / "ca.pem")

    async def check() -> None:
        node = serving(replace(given, node=files), tmp_path)
        async with node.listening() as (_, port), AsyncExitStack() as stack:
            idle = [await stack.enter_async_context(stranger(port)) for _ in range(4)]
            await left_alone(idle[0])
            async with linked(port, trust):
                await left_alone(idle[1])
                for data in GARBAGE:
                    async with stranger(port, data) as (reader, writer):
                        writer.write_eof()
                        with suppress(ConnectionResetError):
                            await reader.read()

    asyncio.run(asyncio.wait_for(check(), PATIENCE_S))
    others = [each for each in caplog.records if each.name != "vivace.link"]  # the gateway's
    assert not [each for each in others if each.levelno >= logging.WARNING]


def test_node_asks_for_the_files_that_its_connections_need(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[tuple[int, int]] = []
    monkeypatch.setattr("resource.getrlimit", lambda _: (1024, 4096))
    monkeypatch.setattr("resource.setrlimit", lambda _, limits: asked.append(limits))
    made: list[Config] = []

    def make(settings: Config, *_: Any, **__: Any) -> None:
        made.append(settings)
        raise InterruptedError

    monkeypatch.setattr(app, "EngineNode", make)
    with pytest.raises(InterruptedError):
        run_node(config(), Path())
    assert asked == [(4096, 4096)]
    assert made[0].limits.connections == 1024 * 3 // 4

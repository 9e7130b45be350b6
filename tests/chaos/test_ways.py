"""The way between two processes: what is cut, delayed and held back there."""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager

import pytest

from tests.support.proxy import Proxy

LATE = 0.15


def on_a_loop(test: Callable[[], Coroutine[None, None, None]]) -> Callable[[], None]:
    @functools.wraps(test)
    def run() -> None:
        asyncio.run(test())

    return run


async def _echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(1024):
        writer.write(data.upper())
        await writer.drain()
    writer.close()


@asynccontextmanager
async def way() -> AsyncIterator[Proxy]:
    server = await asyncio.start_server(_echo, "127.0.0.1", 0)
    async with server, Proxy(server.sockets[0].getsockname()[1], reads=False) as proxy:
        yield proxy


async def asked(
    proxy: Proxy, words: bytes, within: float = 5
) -> tuple[bytes, asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
    writer.write(words)
    return await asyncio.wait_for(reader.read(100), within), reader, writer


@on_a_loop
async def test_what_is_said_comes_back() -> None:
    async with way() as proxy:
        answer, _, writer = await asked(proxy, b"P is no statement here, nor is B")
        assert answer == b"P IS NO STATEMENT HERE, NOR IS B"
        writer.close()


@on_a_loop
async def test_a_way_that_is_cut_breaks_connections_and_makes_none() -> None:
    async with way() as proxy:
        _, reader, _ = await asked(proxy, b"a")
        proxy.cut()
        with pytest.raises(ConnectionError):
            assert await reader.read(1) or _gone()
        with pytest.raises(ConnectionError):
            assert (await asked(proxy, b"b"))[0] or _gone()
        proxy.heal()
        assert (await asked(proxy, b"c"))[0] == b"C"


def _gone() -> bool:
    """An end is as good as a break."""
    raise ConnectionResetError


@on_a_loop
async def test_what_is_held_back_one_way_arrives_when_that_is_healed() -> None:
    async with way() as proxy:
        _, reader, writer = await asked(proxy, b"a")
        proxy.hold("back")
        writer.write(b"b")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(reader.read(1), LATE)
        proxy.heal()
        assert await asyncio.wait_for(reader.read(1), 5) == b"B"
        proxy.hold("there")
        writer.write(b"c")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(reader.read(1), LATE)
        proxy.heal()
        assert await asyncio.wait_for(reader.read(1), 5) == b"C"


@on_a_loop
async def test_who_dials_a_way_that_is_held_gets_no_answer_and_no_end() -> None:
    async with way() as proxy:
        proxy.hold()
        with pytest.raises(TimeoutError):
            await asked(proxy, b"a", within=LATE)


@on_a_loop
async def test_the_end_of_a_connection_is_held_back_too() -> None:
    async with way() as proxy:
        _, reader, writer = await asked(proxy, b"a")
        proxy.hold("there")
        writer.write_eof()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(reader.read(1), LATE)
        proxy.heal()
        assert await asyncio.wait_for(reader.read(1), 5) == b""


@on_a_loop
async def test_a_delay_is_added_each_way() -> None:
    async with way() as proxy:
        proxy.delay = LATE
        began = time.monotonic()
        await asked(proxy, b"a")
        assert time.monotonic() - began >= 2 * LATE

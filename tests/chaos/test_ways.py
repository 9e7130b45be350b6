"""The way between two processes: what is cut, delayed and held back there."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager

import pytest

from tests.support import virtual_time
from tests.support.proxy import Proxy, Way
from tests.support.waiting import PATIENCE_S, eventually_async


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
    proxy: Proxy, words: bytes, within: float = PATIENCE_S
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
        cases: list[tuple[Way, bytes]] = [("back", b"b"), ("there", b"c")]
        for held, words in cases:
            proxy.hold(held)
            answer = asyncio.create_task(reader.read(1))
            writer.write(words)
            await eventually_async(lambda: proxy.waiting == 1)
            assert not answer.done()
            proxy.heal()
            assert await asyncio.wait_for(answer, PATIENCE_S) == words.upper()


@on_a_loop
async def test_a_client_that_dials_a_held_way_gets_no_answer_and_no_end() -> None:
    async with way() as proxy:
        proxy.hold()
        answer = asyncio.create_task(asked(proxy, b"a"))
        await eventually_async(lambda: proxy.waiting == 1)
        assert not answer.done()
        proxy.heal()
        assert (await answer)[0] == b"A"


@on_a_loop
async def test_the_end_of_a_connection_is_held_back_too() -> None:
    async with way() as proxy:
        _, reader, writer = await asked(proxy, b"a")
        proxy.hold("there")
        end = asyncio.create_task(reader.read(1))
        writer.write_eof()
        await eventually_async(lambda: proxy.waiting == 1)
        assert not end.done()
        proxy.heal()
        assert await asyncio.wait_for(end, PATIENCE_S) == b""


def test_a_delay_is_added_each_way() -> None:
    async def check() -> None:
        async with way() as proxy:
            proxy.delay = 3600
            began = asyncio.get_running_loop().time()
            _, _, writer = await asked(proxy, b"a", within=3 * proxy.delay)
            assert asyncio.get_running_loop().time() - began == pytest.approx(2 * proxy.delay)
            writer.close()

    virtual_time.run(check(), sockets=True)

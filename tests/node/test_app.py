"""An engine node, and those who come to it: gateways, strangers, and gateways gone wrong."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import Raw
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidStatus

from tests.engines.linked import KEY, node_config
from tests.engines.test_scripted import ask, engine
from tests.support.waiting import PATIENCE_S, eventually_async
from vivace.engines.remote import Address, Node
from vivace.engines.scripted import Capacity, Say
from vivace.errors import ConfigError
from vivace.link.frames import (
    SUBPROTOCOL,
    Beat,
    Broke,
    Heard,
    Hello,
    Run,
    ToNode,
    Welcome,
    decode_to_gateway,
    encode,
)
from vivace.node.app import EngineNode

RAW = Raw(msgspec.msgpack.encode(None))


def serving(**engine_of: Any) -> EngineNode:
    inner = engine(Say("word ", times=100), **engine_of)
    return EngineNode(node_config(), Path(), {"VIVACE_FLEET_KEY": KEY}, build=lambda *_: inner)


def dial(port: int, key: str = KEY, subprotocol: str | None = SUBPROTOCOL) -> connect:
    return connect(
        f"ws://127.0.0.1:{port}/link",
        additional_headers={"Authorization": f"Bearer {key}"},
        subprotocols=[subprotocol] if subprotocol else None,  # type: ignore[list-item]
        compression=None,
    )


def run(check: Callable[[int, EngineNode], Coroutine[Any, Any, None]], **engine_of: Any) -> None:
    async def whole() -> None:
        node = serving(**engine_of)
        async with node.listening() as (_, port):
            await check(port, node)

    asyncio.run(asyncio.wait_for(whole(), PATIENCE_S))


async def closed(connection: ClientConnection, *messages: ToNode | bytes) -> tuple[int, str]:
    """How the node ends a link on which this is said."""
    for each in messages:
        await connection.send(each if isinstance(each, bytes) else encode([each]))
    async with asyncio.timeout(PATIENCE_S):
        await connection.wait_closed()
    return connection.close_code or 0, connection.close_reason or ""


HELLO = Hello("g")


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ((Heard(()),), "hello"),
        ((Hello("g", (99,)),), "versions"),
        ((HELLO, HELLO), "twice"),
        ((b"garbage",), "cannot be read"),
        ((HELLO, b"\x91" * 60_000), "cannot be read"),
        ((HELLO, encode([Run(1, "r", "t", 1, 1, "e", "", 1.0, RAW, keep=-1)])), "cannot be read"),
    ],
)
def test_a_gateway_gone_wrong_is_told_why(said: tuple[ToNode | bytes, ...], words: str) -> None:
    async def check(port: int, node: EngineNode) -> None:
        async with dial(port) as connection:
            code, reason = await closed(connection, *said)
            assert code == 1002
            assert words in reason
        await eventually_async(lambda: not node._sockets and not node._end._peers)
        async with dial(port) as connection:  # it goes on
            await connection.send(encode([HELLO]))
            assert isinstance(decode_to_gateway(await connection.recv(decode=False))[0], Welcome)

    run(check)


def test_one_who_says_nothing_is_left_alone_after_a_second() -> None:
    async def check(port: int, node: EngineNode) -> None:
        async with dial(port) as connection:
            await closed(connection)

    run(check)


def test_another_subprotocol_is_refused() -> None:
    async def check(port: int, node: EngineNode) -> None:
        for other in (None, "vivace-link.0"):
            with pytest.raises(InvalidStatus, match="400"):
                await dial(port, subprotocol=other)

    run(check)


@pytest.mark.parametrize(
    "headers",
    [
        b"",
        b"Authorization: Bearer wrong\r\n",
        b"Authorization: Bearer \xff\xfe\r\n",
        b"Authorization: Bearer a\r\nAuthorization: Bearer b\r\n",
        b"Authorization: Basic x\r\n",
    ],
)
def test_a_stranger_is_sent_away_and_nothing_is_logged_of_it(
    headers: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async def check(port: int, node: EngineNode) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(
            b"GET /link HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
            + headers
            + b"\r\n"
        )
        answer = await asyncio.wait_for(reader.read(200), PATIENCE_S)
        writer.close()
        assert answer.startswith(b"HTTP/1.1 401")

    run(check)
    assert not [each for each in caplog.records if each.levelno >= logging.ERROR]


def test_a_node_without_a_key_says_how_to_make_one() -> None:
    with pytest.raises(ConfigError, match="openssl rand"):
        EngineNode(node_config(), Path(), {}, build=lambda *_: engine())


def test_work_that_cannot_be_read_fails_alone() -> None:
    async def check(port: int, node: EngineNode) -> None:
        async with dial(port) as connection:
            bad = Run(1, "r", "t", 1, 1, "e", "", 1.0, RAW)
            said: list[ToNode] = [HELLO, bad, Beat()]
            await connection.send(encode(said))
            while True:
                for each in decode_to_gateway(await connection.recv(decode=False)):
                    if isinstance(each, Broke):
                        assert each.kind == "EngineError"
                        return

    run(check)


def test_a_run_does_not_keep_the_frame_that_it_came_in() -> None:
    """A prompt of megabytes would stay for as long as its answer takes."""

    async def check(port: int, node: EngineNode) -> None:
        remote = Node(Address(f"ws://127.0.0.1:{port}", KEY), "g")
        dialling = asyncio.create_task(remote.run())
        await remote.linked.wait()
        deltas = remote.engines[0].generate(ask("hi"))
        await anext(deltas)
        [task] = node._works._tasks.values()
        [frame] = task.get_stack()
        assert not any(type(each).__name__ in {"Begin", "Run"} for each in frame.f_locals.values())
        await deltas.aclose()
        dialling.cancel()
        await asyncio.gather(dialling, return_exceptions=True)

    run(check, capacity=Capacity(rate=20))

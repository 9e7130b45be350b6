"""``vivace engine`` as a process: killed, stopped, started again, and over TLS."""

from __future__ import annotations

import asyncio
import signal
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.engines.suite import answer, text_in
from tests.support.nodes import FLEET_KEY as KEY
from tests.support.nodes import EngineProcess, make_certificates
from tests.support.waiting import PATIENCE_S, eventually_async
from vivace.engines.base import Chat, Work
from vivace.engines.remote import _UNTRIED as UNTRIED
from vivace.engines.remote import Address, Node, RemoteEngine
from vivace.errors import EngineDied
from vivace.protocol.items import Message

SCRIPT = """
[[replies]]
when = "long"
then = [{ do = "say", text = "word ", times = 3000 }]
[[replies]]
when = "middle"
then = [{ do = "say", text = "word ", times = 200 }]
[[replies]]
then = [{ do = "say", text = "A few words." }]
"""


def node_process(folder: Path, port: int | None = None, **node: Any) -> EngineProcess:
    return EngineProcess(folder, "n", SCRIPT, rate=200, port=port, **node)


def work(words: str) -> Work:
    return Work(
        id="resp_1", model="local-model", prompt=Chat(items=[Message(role="user", content=words)])
    )


@asynccontextmanager
async def link(port: int, tls: ssl.SSLContext | None = None) -> AsyncIterator[Node]:
    scheme = "ws" if tls is None else "wss"
    node = Node(Address(f"{scheme}://127.0.0.1:{port}", KEY, tls), "gateway")
    running = asyncio.create_task(node.run())
    try:
        yield node
    finally:
        node.close()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def engine_of(node: Node) -> RemoteEngine:
    async with asyncio.timeout(PATIENCE_S):
        await node.linked.wait()
    [engine] = node.engines
    return engine


def run(check: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(check(), PATIENCE_S))


def test_a_node_that_is_killed_is_noticed_at_once_and_used_again_when_it_is_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vivace.engines.remote._LINK_BROKEN", 3600)  # the refusal tells

    async def check() -> None:
        with node_process(tmp_path) as first:
            async with link(first.port) as node:
                engine = await engine_of(node)
                deltas = engine.generate(work("long"))
                await anext(deltas)
                first.process.kill()
                with pytest.raises(EngineDied):
                    async for _ in deltas:
                        pass
                assert not engine.healthy()
                first.process.wait()
                with node_process(tmp_path, first.port):
                    again = await engine_of(node)
                    assert engine.healthy()
                    assert text_in(await answer(again, work("short"))) == "A few words."
                    assert text_in(await answer(engine, work("short"))) == "A few words."

    run(check)


def test_a_node_that_is_frozen_fails_its_answers_and_thaws_without_doing_harm(
    tmp_path: Path,
) -> None:
    async def check() -> None:
        with node_process(tmp_path) as process:
            async with link(process.port) as node:
                engine = await engine_of(node)
                deltas = engine.generate(work("long"))
                await anext(deltas)
                process.process.send_signal(signal.SIGSTOP)
                with pytest.raises(EngineDied):
                    async for _ in deltas:
                        pass
                process.process.send_signal(signal.SIGCONT)
                again = await engine_of(node)
                assert text_in(await answer(again, work("short"))) == "A few words."

    run(check)


def test_a_node_that_is_told_to_stop_finishes_what_it_does(tmp_path: Path) -> None:
    async def check() -> None:
        with node_process(tmp_path) as process:
            async with link(process.port) as node:
                engine = await engine_of(node)
                deltas = engine.generate(work("middle"))
                said = [await anext(deltas)]
                process.process.send_signal(signal.SIGTERM)
                said += [each async for each in deltas]
                assert text_in(said) == "word " * 200
            assert await asyncio.to_thread(process.process.wait) == 0
            assert "Traceback" not in process.log

    run(check)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An authority, and a certificate of it for this machine."""
    return make_certificates(tmp_path_factory.mktemp("certificates"))


def test_an_encrypted_link_needs_a_certificate_that_is_believed(
    tmp_path: Path, certificates: Path
) -> None:
    believed = ssl.create_default_context(cafile=str(certificates / "ca.pem"))
    files: dict[str, Any] = {
        "certificate": str(certificates / "node.pem"),
        "private_key": str(certificates / "node.key"),
    }

    async def check() -> None:
        with node_process(tmp_path, **files) as process:
            async with link(process.port, believed) as node:
                engine = await engine_of(node)
                assert text_in(await answer(engine, work("short"))) == "A few words."
            async with link(process.port, ssl.create_default_context()) as stranger:
                await eventually_async(lambda: "fleet.ca" in (stranger.trouble or ""))
                assert not stranger.linked.is_set()
            async with link(process.port) as plain:
                await eventually_async(lambda: plain.trouble != UNTRIED)
                assert not plain.linked.is_set()

    run(check)

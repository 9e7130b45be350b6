"""OpenAI's own Python SDK sends a request again when its connection breaks: under an idempotency
key that is one turn, and without one it is not."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal
from unittest import mock

import pytest
from openai import OpenAI

from tests.support.server import MODEL, RunningGateway, configuration
from tests.support.waiting import PATIENCE_S, eventually_async
from vivace.engines.scripted import Reply, Say, Stall

REPLY = Reply(then=(Say("early "), Stall(0.5), Say("late")))
KEYED = {"Idempotency-Key": "order-7"}
Lose = Literal["begun", "ended"]


class Cutter:
    """A proxy in a thread of its own that loses the answers to the first requests: the request goes
    on whole, and the client's connection is cut, at once or when the answer was given."""

    def __init__(
        self, gateway: RunningGateway, asked: Callable[[], int], lose: int, when: Lose
    ) -> None:
        """``asked`` returns how many turns the engine has begun."""
        self._gateway = gateway
        self._asked = asked
        self._lose = lose
        self._when = when
        self.requests: list[bytes] = []
        self._ready = threading.Event()
        self._stop: asyncio.Event | None = None
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()))

    async def _run(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        async with await asyncio.start_server(self._serve, "127.0.0.1", 0) as server:
            self.port = server.sockets[0].getsockname()[1]
            self._ready.set()
            await self._stop.wait()

    async def _serve(self, reader: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        answers, on = await asyncio.open_connection("127.0.0.1", self._gateway.port)
        with suppress(OSError, asyncio.IncompleteReadError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                body = await reader.readexactly(_length(head))
                self.requests.append(head)
                on.write(head + body)
                if self._lose:
                    self._lose -= 1
                    if self._when == "ended":
                        await answers.read(65536)
                    else:
                        await eventually_async(self._has_begun)
                    break
                back.write(await answers.read(65536))
                await self._pass(answers, back)
        back.transport.abort()
        on.transport.abort()

    def _has_begun(self) -> bool:
        """Return whether the gateway has read every request, and the engine has begun the first."""
        return self._gateway.witness.bodies == len(self.requests) and self._asked() > 0

    async def _pass(self, answers: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        while data := await answers.read(65536):
            back.write(data)
            await back.drain()
        back.close()

    def start(self) -> None:
        self._thread.start()
        assert self._ready.wait(PATIENCE_S)

    def stop(self) -> None:
        assert self._stop is not None
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(PATIENCE_S)


def _length(head: bytes) -> int:
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            return int(line.split(b":")[1])
    return 0


@contextmanager
def cut_off(folder: Path, lose: int, when: Lose = "begun") -> Iterator[tuple[OpenAI, Cutter]]:
    config = configuration(store={"path": "turns.db"})
    with (
        RunningGateway([REPLY], config=config, base=folder) as gateway,
        mock.patch.object(gateway.engine, "generate", wraps=gateway.engine.generate) as generate,
    ):
        cutter = Cutter(gateway, lambda: generate.call_count, lose, when)
        cutter.start()
        url = f"http://127.0.0.1:{cutter.port}/v1"
        with OpenAI(base_url=url, api_key="unused", max_retries=2) as client:
            yield client, cutter
        cutter.stop()


def turns(folder: Path) -> list[tuple[str, str]]:
    with sqlite3.connect(folder / "turns.db") as db:
        return db.execute("SELECT id, status FROM turns").fetchall()


@pytest.mark.parametrize("when", ["begun", "ended"])
@pytest.mark.parametrize("lose", [1, 2])
def test_what_the_sdk_sends_again_is_one_turn(tmp_path: Path, lose: int, when: Lose) -> None:
    with cut_off(tmp_path, lose, when) as (client, cutter):
        made = client.responses.create(model=MODEL, input="Hi", extra_headers=KEYED)
        assert made.output_text == "early late"
        assert len(cutter.requests) == 1 + lose
        assert all(b"idempotency-key: order-7" in each.lower() for each in cutter.requests)
    assert turns(tmp_path) == [(made.id, "completed")]


def test_a_stream_is_told_from_its_start(tmp_path: Path) -> None:
    with cut_off(tmp_path, 1) as (client, cutter):
        with client.responses.stream(model=MODEL, input="Hi", extra_headers=KEYED) as stream:
            events = list(stream)
        assert events[0].type == "response.created"
        assert stream.get_final_response().output_text == "early late"
        assert len(cutter.requests) == 2
    assert len(turns(tmp_path)) == 1


def test_the_sdk_sends_no_key_by_itself_and_without_one_each_try_is_a_turn(tmp_path: Path) -> None:
    with cut_off(tmp_path, 1) as (client, cutter):
        client.responses.create(model=MODEL, input="Hi")
        assert all(b"idempotency" not in each.lower() for each in cutter.requests)
    assert len(turns(tmp_path)) == 2

"""A client whose connection breaks in the middle of an answer, behind a proxy that cuts it."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.server import ServerConnection, serve

from tests.support.server import RunningGateway, configuration
from tests.support.waiting import PATIENCE_S, eventually_async
from vivace.client.connection import ClientError, Connection, open_connection
from vivace.engines.scripted import Reply, Say, Stall
from vivace.gateway.runs import Home

WORDS = " ".join(map(str, range(60)))


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine is no reason to give up."""
    monkeypatch.setattr("vivace.client.resuming._PATIENCE_S", PATIENCE_S)


class Proxy:
    """Passes bytes on, and cuts all connections when told to."""

    def __init__(self, gateway: RunningGateway) -> None:
        self._gateway = gateway
        self._open: set[asyncio.StreamWriter] = set()
        self.connections = 0
        self.to_refuse = 0
        """How many of the next connections nobody answers."""
        self.requests_to_lose = 0
        """How many requests are passed on, and their connection is cut before an answer comes."""

    def cut(self) -> None:
        for writer in self._open:
            writer.transport.abort()
        self._open.clear()

    async def cut_now(self) -> None:
        """Cut them; what is sent afterwards arrives nowhere."""
        cut = list(self._open)
        self.cut()
        await asyncio.gather(*(each.wait_closed() for each in cut), return_exceptions=True)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.to_refuse:
            self.to_refuse -= 1
            writer.transport.abort()
            return
        self.connections += 1
        there = await asyncio.open_connection("127.0.0.1", self._gateway.port)
        self._open |= {writer, there[1]}
        await asyncio.gather(self._ask(reader, there[1], writer), self._pass(there[0], writer))

    async def _ask(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        back: asyncio.StreamWriter,
    ) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            writer.write(await reader.readuntil(b"\r\n\r\n"))
            while data := await reader.read(65536):
                if self.requests_to_lose:
                    self.requests_to_lose -= 1
                    back.transport.abort()
                    witness = self._gateway.witness
                    before = witness.received
                    writer.write(data)
                    await writer.drain()
                    await eventually_async(lambda: witness.received > before)  # noqa: B023
                    writer.transport.abort()
                    return
                writer.write(data)
                await writer.drain()
        writer.close()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        writer.close()


@asynccontextmanager
async def behind_proxy(
    gateway: RunningGateway, *, waits: bool = True
) -> AsyncIterator[tuple[Connection, Proxy]]:
    proxy = Proxy(gateway)
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    async with open_connection(url) as connection:
        connection.waits = waits
        yield connection, proxy
    server.close()


async def read(connection: Connection, at: dict[int, Callable[[], Any]], **body: Any) -> list[str]:
    """An answer; at so many pieces of it something happens."""
    texts: list[str] = []
    async for text in connection.turn(input="x", **body):
        texts.append(text)
        act = at.get(len(texts))
        done = act() if act is not None else None
        if asyncio.iscoroutine(done):
            await done
    return texts


@pytest.mark.parametrize("store", [True, False])
@pytest.mark.parametrize("cuts", [(1,), (3, 20, 21), (59,)])
def test_whoever_is_cut_off_gets_the_whole_text_once(store: bool, cuts: tuple[int, ...]) -> None:
    back: list[None] = []

    async def asked(gateway: RunningGateway) -> tuple[list[str], int]:
        async with behind_proxy(gateway) as (connection, proxy):
            connection.on_back = lambda: back.append(None)

            async def go_on(connections: int) -> None:
                await eventually_async(lambda: proxy.connections > connections)
                await asyncio.to_thread(gateway.go_on)

            def last_cut() -> asyncio.Task[None]:
                proxy.cut()
                return asyncio.create_task(go_on(proxy.connections))

            at = {**dict.fromkeys(cuts, proxy.cut), cuts[-1]: last_cut}
            texts = await read(connection, at, store=store)
            return texts, proxy.connections

    with RunningGateway([Reply(then=(Say(WORDS), Stall(3600), Say(".")))]) as gateway:
        texts, connections = asyncio.run(asyncio.wait_for(asked(gateway), PATIENCE_S))
    assert "".join(texts) == f"{WORDS}."
    assert connections - 1 == len(back) > 0


def test_the_conversation_goes_on_where_it_came_back() -> None:
    async def asked(gateway: RunningGateway) -> list[str]:
        async with behind_proxy(gateway) as (connection, proxy):
            connection.on_back = gateway.go_on
            first = await read(connection, {3: proxy.cut}, store=False)
            assert connection.response is not None
            before = connection.response.id
            gateway.engine.play([Reply(then=(Say(WORDS),))])
            return ["".join(first), *await read(connection, {}, previous_response_id=before)]

    with RunningGateway([Reply(then=(Say(WORDS), Stall(3600)))]) as gateway:
        first, *second = asyncio.run(asyncio.wait_for(asked(gateway), PATIENCE_S))
    assert first == "".join(second) == WORDS


def test_a_server_that_is_away_for_a_while_is_waited_for() -> None:
    async def asked(gateway: RunningGateway) -> str:
        async with behind_proxy(gateway) as (connection, proxy):

            def away() -> None:
                proxy.to_refuse = 3
                proxy.cut()

            return "".join(await read(connection, {3: away}))

    with RunningGateway([Reply(then=(Say(WORDS),))]) as gateway:
        assert asyncio.run(asyncio.wait_for(asked(gateway), PATIENCE_S)) == WORDS


def test_without_waiting_it_is_an_error_and_no_half_answer() -> None:
    async def asked(gateway: RunningGateway) -> None:
        async with behind_proxy(gateway, waits=False) as (connection, proxy):
            await read(connection, {3: proxy.cut})

    reply = Reply(then=(Say(WORDS), Stall(3600)))
    with RunningGateway([reply]) as gateway, pytest.raises(ClientError, match="lost"):
        asyncio.run(asyncio.wait_for(asked(gateway), PATIENCE_S))


async def go_on_when_moved(gateway: RunningGateway, home: Home) -> None:
    """End the stall behind "Other." once the turn is on another connection than ``home``.

    The client may have had all events up to the stall before it was cut off, so that no event tells
    it that it is back.
    """
    running = gateway.gateway.runner._running
    await eventually_async(lambda: any(run.home is not home for run in list(running)))
    await asyncio.to_thread(gateway.go_on, "Other.")


@pytest.mark.parametrize("arrives", [True, False])
def test_words_said_as_it_breaks_are_said_once(arrives: bool) -> None:
    async def asked(gateway: RunningGateway) -> str:
        async with behind_proxy(gateway) as (connection, proxy):
            going_on: list[asyncio.Task[None]] = []

            async def steer() -> None:
                if arrives:
                    [run] = gateway.gateway.runner._running
                    await connection.steer("y")
                    events = gateway.witness.events
                    await eventually_async(lambda: "response.steer.accepted" in events)
                    going_on.append(asyncio.create_task(go_on_when_moved(gateway, run.home)))
                    proxy.cut()
                else:
                    await proxy.cut_now()
                    await connection.steer("y")

            texts = await read(connection, {3: steer})
            await asyncio.gather(*going_on)
            return "".join(texts)

    # What follows a steer can be gone on with as long as it runs.
    told = Reply(when="y", then=(Say("Other."), *[Stall(3600)] * arrives))
    with RunningGateway(
        [told, Reply(then=(Say(WORDS), Stall(3600 if arrives else 0.2)))]
    ) as gateway:
        text = asyncio.run(asyncio.wait_for(asked(gateway), PATIENCE_S))
    assert text.endswith("Other.")
    assert text.count("Other.") == 1
    if not arrives:
        assert text == f"{WORDS}Other."


def test_an_interrupt_as_it_breaks_stops_it() -> None:
    async def asked(gateway: RunningGateway) -> str:
        async with behind_proxy(gateway) as (connection, proxy):

            async def interrupt() -> None:
                await proxy.cut_now()
                await connection.interrupt()

            return "".join(await read(connection, {3: interrupt}))

    with RunningGateway([Reply(then=(Say(WORDS), Stall(3600)))]) as gateway:
        assert WORDS.startswith(asyncio.run(asyncio.wait_for(asked(gateway), PATIENCE_S)))


def test_a_server_that_knows_nothing_of_it_fails_as_ever() -> None:
    heard: list[str] = []

    async def behave(socket: ServerConnection) -> None:
        heard.append(str(await socket.recv()))
        if "response.resume" in heard[-1]:
            await socket.send('{"type": "error", "error": {"message": "No such type."}}')
            await socket.wait_closed()
        created = '{"type": "response.created", "sequence_number": 0, "response": {"id": "r"}}'
        await socket.send(created)
        await socket.close(1011)

    async def asked() -> None:
        async with serve(behave, "127.0.0.1", 0) as server:
            port = next(iter(server.sockets)).getsockname()[1]
            async with open_connection(f"http://127.0.0.1:{port}/v1") as connection:
                async for _ in connection.turn(input="x"):
                    pass

    with pytest.raises(ClientError, match="closed the connection"):
        asyncio.run(asyncio.wait_for(asked(), PATIENCE_S))
    assert len(heard) == 2


def test_a_server_that_refuses_to_wait_is_asked_without() -> None:
    heard: list[str] = []

    async def behave(socket: ServerConnection) -> None:
        async for message in socket:
            heard.append(str(message))
            if "on_disconnect" in heard[-1]:
                await socket.send(
                    '{"type": "error", "error": {"message": "Unknown parameter: on_disconnect", '
                    '"code": "unknown_parameter", "param": "on_disconnect"}}'
                )
            else:
                await socket.send('{"type": "response.created", "response": {"id": "r"}}')
                await socket.send('{"type": "response.output_text.delta", "delta": "Yes."}')
                await socket.send('{"type": "response.completed", "response": {"id": "r"}}')

    async def asked() -> str:
        async with serve(behave, "127.0.0.1", 0) as server:
            port = next(iter(server.sockets)).getsockname()[1]
            async with open_connection(f"http://127.0.0.1:{port}/v1") as connection:
                connection.waits = True
                return "".join([text async for text in connection.turn(input="x")])

    assert asyncio.run(asyncio.wait_for(asked(), PATIENCE_S)) == "Yes."
    assert len(heard) == 2


# -- before anything has come ---------------------------------------------------------------------


@pytest.mark.parametrize("times", [1, 2])
def test_a_request_whose_answer_was_lost_is_sent_again_and_runs_once(
    tmp_path: Path, times: int
) -> None:
    async def asked(gateway: RunningGateway) -> list[str]:
        async with behind_proxy(gateway) as (connection, proxy):
            first = await read(connection, {})
            assert connection.response is not None
            proxy.requests_to_lose = times
            before = connection.response.id
            second = await read(connection, {}, previous_response_id=before)
            assert proxy.connections == 1 + times
            return ["".join(first), "".join(second)]

    config = configuration(store={"path": "turns.db"})
    with RunningGateway([Reply(then=(Say(WORDS),))], config=config, base=tmp_path) as gateway:
        assert asyncio.run(asyncio.wait_for(asked(gateway), PATIENCE_S)) == [WORDS, WORDS]
    with sqlite3.connect(tmp_path / "turns.db") as db:
        assert db.execute("SELECT count(*) FROM turns").fetchone() == (2,)


def test_a_connection_that_broke_between_two_answers_is_made_again() -> None:
    async def asked(gateway: RunningGateway) -> str:
        async with behind_proxy(gateway) as (connection, proxy):
            await read(connection, {})
            await proxy.cut_now()
            return "".join(await read(connection, {}))

    with RunningGateway([Reply(then=(Say(WORDS),))]) as gateway:
        assert asyncio.run(asyncio.wait_for(asked(gateway), PATIENCE_S)) == WORDS


def test_one_that_is_not_kept_is_not_sent_again() -> None:
    async def asked(gateway: RunningGateway) -> None:
        async with behind_proxy(gateway) as (connection, proxy):
            proxy.requests_to_lose = 1
            with pytest.raises(ClientError, match="closed the connection"):
                await read(connection, {}, store=False)

    with RunningGateway([Reply(then=(Say(WORDS),))]) as gateway:
        asyncio.run(asyncio.wait_for(asked(gateway), PATIENCE_S))


def test_what_the_server_says_to_a_request_that_was_sent_again_is_told() -> None:
    async def asked(gateway: RunningGateway) -> None:
        async with behind_proxy(gateway) as (connection, proxy):
            proxy.requests_to_lose = 1
            with pytest.raises(ClientError, match="nobody"):
                await read(connection, {}, model="nobody")

    with RunningGateway([Reply(then=(Say(WORDS),))]) as gateway:
        asyncio.run(asyncio.wait_for(asked(gateway), PATIENCE_S))


def test_a_server_that_knows_no_keys_is_asked_without() -> None:
    seen: list[dict[str, Any]] = []

    async def answer(socket: ServerConnection) -> None:
        async for message in socket:
            seen.append(json.loads(message))
            known = {"type", "input", "on_disconnect"}
            unknown = [name for name in seen[-1] if name not in known]
            if unknown:
                error = {"code": "unknown_parameter", "param": unknown[0], "message": "Unknown."}
                await socket.send(json.dumps({"type": "error", "error": error}))
                continue
            response = {"id": "resp_1", "status": "completed", "output": []}
            for number, kind in enumerate(("response.created", "response.completed")):
                event = {"type": kind, "sequence_number": number, "response": response}
                await socket.send(json.dumps(event))

    async def asked() -> None:
        async with serve(answer, "127.0.0.1", 0) as server:
            [listening] = server.sockets
            port = listening.getsockname()[1]
            async with open_connection(f"http://127.0.0.1:{port}/v1") as connection:
                connection.waits = True
                assert await read(connection, {}) == []

    asyncio.run(asyncio.wait_for(asked(), PATIENCE_S))
    assert "idempotency_key" in seen[0]
    assert "idempotency_key" not in seen[-1]

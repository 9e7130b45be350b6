"""The client's connection against a real gateway, and against servers that go away."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from types import SimpleNamespace
from unittest import mock

import msgspec
import pytest
from websockets.asyncio.client import connect
from websockets.asyncio.server import ServerConnection, serve

from tests.support.http import key, keys
from tests.support.ports import free_port
from tests.support.server import MODEL, RunningGateway, configuration
from tests.support.waiting import PATIENCE_S, eventually
from vivace.client.connection import ClientError, Connection, Figures, open_connection
from vivace.client.events import Response
from vivace.engines.scripted import Die, Fail, Reply, Say, Stall, Think


async def text_of(connection: Connection, question: str) -> str:
    return "".join([text async for text in connection.turn(input=question)])


def answer(url: str, question: str = "Hello", key: str | None = None) -> tuple[str, Connection]:
    async def asked() -> tuple[str, Connection]:
        async with open_connection(url, key) as connection:
            return await text_of(connection, question), connection

    return asyncio.run(asked())


def refusal(url: str, key: str | None = None) -> ClientError:
    with pytest.raises(ClientError) as caught:
        answer(url, key=key)
    return caught.value


# -- figures --------------------------------------------------------------------------------------


def test_figures_of_a_turn() -> None:
    figures = Figures(started=10.0, first=10.5, last=12.5, tokens=101)
    assert figures.first_token == 0.5
    assert figures.tokens_per_second == 50.0


@pytest.mark.parametrize(
    "figures",
    [
        Figures(started=10.0),
        Figures(started=10.0, tokens=7),
        Figures(started=10.0, first=10.5, last=10.5, tokens=1),
        Figures(started=10.0, first=10.5, last=10.5, tokens=7),
    ],
    ids=["nothing yet", "no text", "one token", "all at once"],
)
def test_a_speed_that_cannot_be_told_is_not_told(figures: Figures) -> None:
    assert figures.tokens_per_second is None


def test_the_figures_are_those_of_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    # Made, asked, the first text, and all further texts.
    clock = itertools.chain([0.0, 5.0, 5.3], itertools.repeat(5.9))
    fake = SimpleNamespace(perf_counter=lambda: next(clock))
    monkeypatch.setattr("vivace.client.connection.time", fake)
    with RunningGateway([Reply(then=(Say("one ", times=60),))]) as gateway:
        text, connection = answer(gateway.url)
    figures = connection.figures
    assert text == "one " * 60
    assert connection.response is not None
    assert figures.tokens == connection.response.output_tokens
    assert figures.first_token == pytest.approx(0.3)
    assert figures.tokens_per_second == pytest.approx((figures.tokens - 1) / 0.6)


@pytest.mark.parametrize(
    ("details", "drafted"),
    [
        ({"accepted_prediction_tokens": 7}, 7),
        ({"accepted_prediction_tokens": "many"}, 0),
        ({}, 0),
        (None, 0),
        ("none", 0),
    ],
)
def test_drafted_tokens_are_told_where_the_server_tells_them(details: object, drafted: int) -> None:
    usage = {"output_tokens": 9, "output_tokens_details": details}
    response = msgspec.convert({"id": "r", "usage": usage}, Response)
    assert (response.output_tokens, response.drafted_tokens) == (9, drafted)


def test_a_turn_without_text_has_tokens_and_no_first_one(gateway: RunningGateway) -> None:
    gateway.engine.play([Reply(then=(Think("Hm, well."),))])
    text, connection = answer(gateway.url)
    assert text == ""
    assert connection.figures.tokens > 0
    assert connection.figures.first_token is None


# -- turns ----------------------------------------------------------------------------------------


def test_turns_follow_each_other_with_figures_of_their_own(gateway: RunningGateway) -> None:
    gateway.engine.play(
        [Reply(when="^1$", then=(Say("a b c d"),)), Reply(when="^2$", then=(Say("a"),))]
    )

    async def two() -> list[tuple[str, int]]:
        async with open_connection(gateway.url) as connection:
            return [
                (await text_of(connection, question), connection.figures.tokens)
                for question in ("1", "2")
            ]

    assert asyncio.run(two()) == [("a b c d", 4), ("a", 1)]


def test_after_an_error_the_connection_can_be_used_again(gateway: RunningGateway) -> None:
    gateway.engine.play([Reply(when="^Fail$", then=(Fail("As told."),))])

    async def both() -> str:
        async with open_connection(gateway.url) as connection:
            with pytest.raises(ClientError, match="As told"):
                await text_of(connection, "Fail")
            return await text_of(connection, "Hello")

    assert asyncio.run(both())


def test_a_refused_turn_does_not_show_the_response_of_the_one_before(
    gateway: RunningGateway,
) -> None:
    async def both() -> Connection:
        async with open_connection(gateway.url) as connection:
            await text_of(connection, "Hello")
            with pytest.raises(ClientError):
                async for _ in connection.turn(input="Hello", model="none"):
                    pass
            return connection

    assert asyncio.run(both()).response is None


def test_leaving_stops_a_running_turn(gateway: RunningGateway) -> None:
    gateway.engine.play([Reply(then=(Say("on and on ", times=100_000),))])

    async def part() -> None:
        async with open_connection(gateway.url) as connection:
            async for _ in connection.turn(input="Go on"):
                assert gateway.engine.running() == 1
                return

    asyncio.run(part())
    eventually(lambda: gateway.engine.running() == 0)


# -- errors ---------------------------------------------------------------------------------------


def test_a_refusal_keeps_its_code(gateway: RunningGateway) -> None:
    async def asked() -> None:
        async with open_connection(gateway.url) as connection:
            async for _ in connection.turn(input="Hello", model="none"):
                pass

    with pytest.raises(ClientError, match=MODEL) as caught:
        asyncio.run(asked())
    assert caught.value.code == "model_not_found"


@pytest.mark.parametrize(
    ("act", "code"), [(Fail("Unwell."), "server_error"), (Die("Unwell."), "engine_died")]
)
def test_a_turn_that_fails_says_why(gateway: RunningGateway, act: Fail | Die, code: str) -> None:
    gateway.engine.play([Reply(then=(Say("So far"), act))])
    error = refusal(gateway.url)
    assert "Unwell." in str(error)
    assert error.code == code


def test_without_a_server_it_says_how_to_start_one() -> None:
    url = f"http://127.0.0.1:{free_port()}/v1"
    error = refusal(url)
    assert url in str(error)
    assert "vivace up" in str(error)


def test_a_wrong_key_is_a_refusal_and_the_right_one_is_not() -> None:
    with RunningGateway(config=configuration(keys=keys("alice"))) as gateway:
        assert "401" in str(refusal(gateway.url, key="wrong"))
        assert answer(gateway.url, key=key("alice"))[0]


def test_the_slash_at_the_end_of_an_address_does_not_matter(gateway: RunningGateway) -> None:
    assert answer(f"{gateway.url}/")[0]


@pytest.mark.parametrize("url", ["127.0.0.1:8765/v1", "ftp://127.0.0.1/v1", "http://[::1", ""])
def test_what_is_no_address_is_a_client_error(url: str) -> None:
    assert str(refusal(url))


# -- servers that go away -------------------------------------------------------------------------

Behaviour = Callable[[ServerConnection], Awaitable[None]]


@asynccontextmanager
async def pretender(behaviour: Behaviour) -> AsyncIterator[str]:
    """A server that takes a connection and then does this with it."""
    async with serve(behaviour, "127.0.0.1", 0) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        yield f"http://127.0.0.1:{port}/v1"


def failure(behaviour: Behaviour) -> ClientError:
    async def asked() -> None:
        async with pretender(behaviour) as url, open_connection(url) as connection:
            await text_of(connection, "Hello")

    with pytest.raises(ClientError) as caught:
        asyncio.run(asyncio.wait_for(asked(), PATIENCE_S))
    return caught.value


def test_a_connection_closed_with_a_reason_passes_it_on() -> None:
    async def goes(socket: ServerConnection) -> None:
        await socket.recv()
        await socket.close(1001, "The server is shutting down.")

    assert "The server is shutting down." in str(failure(goes))


def test_a_connection_that_breaks_off_is_an_error_and_no_wait() -> None:
    async def breaks(socket: ServerConnection) -> None:
        await socket.recv()
        socket.transport.abort()

    assert "closed the connection" in str(failure(breaks))


def test_a_connection_that_closes_in_the_middle_of_the_answer_is_an_error() -> None:
    async def half(socket: ServerConnection) -> None:
        await socket.recv()
        await socket.send('{"type": "response.created", "response": {"id": "resp_1"}}')
        await socket.send('{"type": "response.output_text.delta", "delta": "So far"}')
        await socket.close()

    assert "closed the connection" in str(failure(half))


def test_asking_on_a_closed_connection_says_to_try_again() -> None:
    async def goes(socket: ServerConnection) -> None:
        await socket.close()

    async def late() -> None:
        async with pretender(goes) as url, open_connection(url) as connection:
            await connection._wire._wire._socket.wait_closed()  # type: ignore[attr-defined]
            await text_of(connection, "Hello")

    with pytest.raises(ClientError, match="try again"):
        asyncio.run(late())


# -- interrupts -----------------------------------------------------------------------------------


@pytest.mark.parametrize("when", ["before the first word", "at the last word"])
def test_an_interrupt_leaves_nothing_behind_for_the_next_turn(
    gateway: RunningGateway, when: str
) -> None:
    first = (Stall(3600),) if when == "before the first word" else (Say("The end"),)
    gateway.engine.play([Reply(when="^First$", then=first), Reply(then=(Say("Second."),))])

    async def both() -> str:
        async with open_connection(gateway.url) as connection:
            turn = connection.turn(input="First")
            if when == "before the first word":
                interrupting = asyncio.create_task(connection.interrupt())
                assert [text async for text in turn] == []
                await interrupting
            else:
                async for _ in turn:
                    await connection.interrupt()
            return await text_of(connection, "Second")

    assert asyncio.run(asyncio.wait_for(both(), PATIENCE_S)) == "Second."


# -- servers that mean ill ------------------------------------------------------------------------

CREATED = '{"type": "response.created", "response": {"id": "resp_1"}}'


def says(*messages: str | bytes) -> Behaviour:
    async def behave(socket: ServerConnection) -> None:
        await socket.recv()
        for message in messages:
            await socket.send(message)
        await socket.wait_closed()

    return behave


@pytest.mark.parametrize(
    "message",
    [
        "hello",
        "[1]",
        "{}",
        '{"type": 5}',
        "[" * 100_000,
        b"\xff\xfe",
        '{"type": "response.output_text.delta", "delta": "\\ud800"}',
        '{"type": "response.completed", "response": "x"}',
        '{"type": "response.completed", "response": {}}',
        '{"type": "response.failed", "response": {"id": "r", "usage": {"output_tokens": "x"}}}',
        '{"type": "response.failed", "response": {"id": "r", "usage": {"output_tokens": 1e999}}}',
        '{"type": "error", "error": "boom"}',
    ],
)
def test_what_is_no_event_is_a_client_error(message: str | bytes) -> None:
    assert "no event of the Responses API" in str(failure(says(CREATED, message)))


@pytest.mark.parametrize(
    "message",
    [
        '{"type": "error"}',
        '{"type": "error", "error": {}}',
        '{"type": "error", "message": [], "code": {}}',
        '{"type": "response.steer.failed"}',
        '{"type": "response.failed", "response": {"id": "r", "error": {}}}',
    ],
)
def test_an_error_without_words_is_one(message: str) -> None:
    assert "gave no reason" in str(failure(says(CREATED, message)))


def test_an_error_of_many_words_is_cut() -> None:
    said = f'{{"type": "error", "error": {{"message": "{"y" * 1_000_000}", "code": 7}}}}'
    error = failure(says(said))
    assert error.code == "7"
    assert len(str(error)) < 3000


def test_an_answer_without_an_end_is_broken_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vivace.client.connection._LONGEST_ANSWER", 100_000)
    monkeypatch.setattr("vivace.client.dialling._GOODBYE_S", 0.05)

    said = "and so on " * 100

    async def floods(socket: ServerConnection) -> None:
        await socket.recv()
        while True:
            await socket.send(f'{{"type": "response.output_text.delta", "delta": "{said}"}}')

    dialled = mock.Mock(wraps=connect)
    monkeypatch.setattr("vivace.client.dialling.connect", dialled)
    assert "does not end" in str(failure(floods))  # though it goes on while we say goodbye
    assert dialled.call_args.kwargs["close_timeout"] == 0.05


def test_a_message_without_an_end_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vivace.client.dialling.LONGEST_LINE", 100_000)
    assert "1009" in str(failure(says("x" * 200_000)))

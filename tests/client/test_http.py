"""The connection to an endpoint without a WebSocket does what it does with one."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.support.plain_endpoint import PlainEndpoint, Refusal, ResponsesEndpoint, sse
from tests.support.server import RunningGateway
from tests.support.waiting import PATIENCE_S, eventually, eventually_async
from vivace.client.connection import ClientError, Connection, open_connection
from vivace.client.endpoint import Endpoint
from vivace.client.http import HttpWire
from vivace.engines.scripted import Fail, Reply, Say
from vivace.protocol.sse import SseLines


def words(body: dict[str, Any]) -> list[str]:
    """Says again what was said to it last."""
    last = body["input"][-1]["content"]
    return [f"{word} " for word in ("You", "said:", *last.split())]


async def text_of(connection: Connection, **body: Any) -> str:
    return "".join([text async for text in connection.turn(**body)])


def test_an_endpoint_without_a_websocket_is_spoken_to_over_http() -> None:
    async def asked(url: str) -> tuple[str, int]:
        async with open_connection(url) as connection:
            return await text_of(connection, input="Hello there"), connection.figures.tokens

    with ResponsesEndpoint(words) as endpoint:
        assert asyncio.run(asked(endpoint.url)) == ("You said: Hello there ", 4)


def test_fields_that_it_does_not_know_are_left_out_and_not_sent_again() -> None:
    extra = {"prediction": {"type": "content", "content": "x"}, "temperature": 0.0}

    async def twice(url: str) -> None:
        async with open_connection(url) as connection:
            for _ in range(2):
                assert await text_of(connection, input="Hello", **extra)

    with ResponsesEndpoint(words) as endpoint:
        asyncio.run(twice(endpoint.url))
        assert sorted(endpoint.refused) == ["prediction", "temperature"]
        assert len(endpoint.bodies) == 2


def test_a_refusal_for_another_reason_is_one() -> None:
    async def asked(url: str) -> None:
        async with open_connection(url) as connection:
            await text_of(connection, input="Hello", wisdom=1, prediction={"content": "x"})

    with ResponsesEndpoint(words) as endpoint, pytest.raises(ClientError, match="wisdom"):
        asyncio.run(asked(endpoint.url))


def test_half_a_character_is_not_sent_and_nobody_waits_for_an_answer(
    gateway: RunningGateway,
) -> None:
    async def asked(url: str) -> None:
        async with open_connection(url) as connection:
            await asyncio.wait_for(text_of(connection, input="\ud83d"), PATIENCE_S)

    with ResponsesEndpoint(words) as endpoint:
        for url in (endpoint.url, gateway.url):
            with pytest.raises(ClientError, match="half a character"):
                asyncio.run(asked(url))


def test_an_answer_can_be_gone_on_from_without_the_endpoint_remembering_it() -> None:
    async def two(url: str) -> None:
        async with open_connection(url) as connection:
            await text_of(connection, input="One")
            assert connection.response is not None
            before = connection.response.id
            await text_of(connection, input="Two", previous_response_id=before)

    with ResponsesEndpoint(words) as endpoint:
        asyncio.run(two(endpoint.url))
        second = endpoint.bodies[1]
    assert "previous_response_id" not in second
    assert [(each["role"], each["content"]) for each in second["input"]] == [
        ("user", "One"),
        ("assistant", "You said: One "),
        ("user", "Two"),
    ]


def test_a_steer_breaks_the_answer_off_and_asks_again() -> None:
    async def steered(endpoint: ResponsesEndpoint) -> tuple[str, int]:
        endpoint.go_on.clear()
        async with open_connection(endpoint.url) as connection:
            said: list[str] = []
            async for text in connection.turn(input="One two three four"):
                said.append(text)
                if text == "said: " and not endpoint.go_on.is_set():
                    await connection.steer("Five")
                    endpoint.go_on.set()
            return "".join(said), connection.redirects

    with ResponsesEndpoint(words) as endpoint:
        said, redirects = asyncio.run(steered(endpoint))
        assert said.endswith("You said: Five ")
        assert "four" not in said
        assert redirects == 1
        assert endpoint.bodies[1]["input"][-1]["content"] == "Five"


def test_a_steer_that_comes_too_late_is_the_next_thing_said() -> None:
    async def late(url: str) -> str:
        async with open_connection(url) as connection:
            wire: Any = connection._wire
            said = ""
            async for text in connection.turn(input="One"):
                said += text
                if text == "One ":
                    await eventually_async(lambda: not wire._running)
                    await connection.steer("Two")
            return said

    with ResponsesEndpoint(words) as endpoint:
        assert asyncio.run(late(endpoint.url)) == "You said: One You said: Two "


def test_an_interrupt_ends_the_turn_and_the_next_one_is_unharmed() -> None:
    async def interrupted(endpoint: ResponsesEndpoint) -> str:
        endpoint.go_on.clear()
        async with open_connection(endpoint.url) as connection:
            async for _ in connection.turn(input="One two three"):
                await connection.interrupt()
            endpoint.go_on.set()
            return await text_of(connection, input="Two")

    with ResponsesEndpoint(words) as endpoint:
        assert asyncio.run(interrupted(endpoint)) == "You said: Two "


@pytest.mark.parametrize("directions", [["Left"], ["Left", "Right"]])
def test_an_interrupt_right_after_a_steer_ends_the_turn_though_no_answer_to_it_began(
    directions: list[str],
) -> None:
    async def interrupted(endpoint: ResponsesEndpoint) -> str:
        endpoint.go_on.clear()
        async with open_connection(endpoint.url) as connection:
            async for _ in connection.turn(input="One two three"):
                for each in directions:
                    await connection.steer(each)
                await connection.interrupt()
            endpoint.go_on.set()
            return await text_of(connection, input="Two")

    with ResponsesEndpoint(words) as endpoint:
        assert asyncio.run(asyncio.wait_for(interrupted(endpoint), PATIENCE_S)) == "You said: Two "


def test_an_address_without_the_api_is_said() -> None:
    async def asked(url: str) -> None:
        async with open_connection(url) as connection:
            await text_of(connection, input="Hello")

    with ResponsesEndpoint(words) as endpoint, pytest.raises(ClientError, match="no Responses API"):
        asyncio.run(asked(endpoint.url.replace("/v1", "/v2")))


# -- servers that have nothing but chats ----------------------------------------------------------


def chatted(body: dict[str, Any]) -> list[bytes]:
    """Says again what was said to it last, as llama.cpp and others stream it."""
    last = body["messages"][-1]["content"]
    if body.get("max_tokens") == 1:
        ends = [{"delta": {}, "finish_reason": "length"}]
    else:
        ends = [{"delta": {}, "finish_reason": "stop"}]
    return sse(
        {"id": "c1", "model": "m", "choices": [{"delta": {"role": "assistant", "content": None}}]},
        {"id": "c1", "choices": [{"index": 0, "delta": {"content": "You said: "}}]},
        {"id": "c1", "choices": [{"index": 0, "delta": {"content": last}}]},
        {"id": "c1", "choices": ends},
        {"id": "c1", "choices": [], "usage": {"completion_tokens": 2}},
        "[DONE]",
    )


def test_a_server_that_has_only_chats_is_asked_as_one_and_from_then_on() -> None:
    async def two(url: str) -> None:
        async with open_connection(url) as connection:
            said = await text_of(connection, input="One", store=False, max_output_tokens=9)
            assert (said, connection.figures.tokens) == ("You said: One", 2)
            assert connection.response is not None
            before = connection.response.id
            assert await text_of(connection, input="Two", previous_response_id=before)

    with PlainEndpoint({"/v1/chat/completions": chatted}) as endpoint:
        asyncio.run(two(endpoint.url))
        assert endpoint.paths == ["/v1/responses", *["/v1/chat/completions"] * 2]
        first, second = (body for path, body in endpoint.asked if "chat" in path)
    assert first == {
        "messages": [{"role": "user", "content": "One"}],
        "max_tokens": 9,
        "stream": True,
    }
    assert [each["content"] for each in second["messages"]] == ["One", "You said: One", "Two"]


def test_a_chat_that_was_ended_for_its_length_says_so() -> None:
    async def asked(url: str) -> None:
        async with open_connection(url) as connection:
            await text_of(connection, input="One", max_output_tokens=1)
            assert connection.response is not None
            assert connection.response.cut_off

    with PlainEndpoint({"/v1/chat/completions": chatted}) as endpoint:
        asyncio.run(asked(endpoint.url))


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (Refusal(400, {"error": {"message": "Too long."}}), "Too long"),
        (Refusal(404, {"error": {"message": "No model x.", "param": "model"}}), "No model x"),
        (Refusal(404), "no Responses API"),
        (sse({"choices": [{"delta": {"content": "a"}}]}), "broke off"),
        (sse({"error": {"message": "Unwell."}}), "Unwell"),
        (sse({"choices": 5}), "no part of a chat"),
        (sse("what?"), "no part of a chat"),
    ],
)
def test_a_chat_that_comes_to_nothing_says_why(answer: list[bytes] | Refusal, why: str) -> None:
    async def asked(url: str) -> None:
        async with open_connection(url) as connection:
            await text_of(connection, input="One")

    with (
        PlainEndpoint({"/v1/chat/completions": lambda body: answer}) as endpoint,
        pytest.raises(ClientError, match=why),
    ):
        asyncio.run(asked(endpoint.url))


# -- our own gateway, over HTTP -------------------------------------------------------------------


def test_the_gateway_is_understood_over_http(gateway: RunningGateway) -> None:
    gateway.engine.play(
        [
            Reply(when="Fail", then=(Say("So far"), Fail("Unwell."))),
            Reply(when="On", then=(Say("on ", times=100_000),)),
            Reply(then=(Say("Hello."),)),
        ]
    )

    async def asked() -> None:
        connection = Connection(wire := HttpWire(Endpoint(gateway.url, gateway.url, None)))
        assert await text_of(connection, input="Hello") == "Hello."
        with pytest.raises(ClientError, match="Unwell"):
            await text_of(connection, input="Fail")
        with pytest.raises(ClientError) as refused:
            await text_of(connection, input="Hello", model="none")
        assert refused.value.code == "model_not_found"
        async for _ in connection.turn(input="On and on"):
            await connection.interrupt()
        await wire.close()

    asyncio.run(asked())
    eventually(lambda: gateway.engine.running() == 0)


# -- endpoints that mean ill ----------------------------------------------------------------------


@asynccontextmanager
async def pretender(head: str, pieces: Iterable[bytes]) -> AsyncIterator[str]:
    """An endpoint that answers every request in this way."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked = await reader.readuntil(b"\r\n\r\n")
        if b"Upgrade: websocket" in asked:
            writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
        else:
            writer.write(f"HTTP/1.1 {head}\r\nConnection: close\r\n\r\n".encode())
            with contextlib.suppress(ConnectionError):
                for piece in pieces:
                    writer.write(piece)
                    await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"


def refusal(head: str, pieces: Iterable[bytes]) -> str:
    async def asked() -> None:
        async with pretender(head, pieces) as url, open_connection(url) as connection:
            await text_of(connection, input="Hello")

    with pytest.raises(ClientError) as caught:
        asyncio.run(asyncio.wait_for(asked(), PATIENCE_S))
    return str(caught.value)


def test_a_line_without_an_end_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SseLines.__init__, "__defaults__", (100_000,))
    assert "broke off" in refusal("200 OK", itertools.repeat(b"data: " + b"x" * 10_000))


def test_a_refusal_without_an_end_is_one() -> None:
    assert "refused with status 400" in refusal("400 No", itertools.repeat(b"x" * 10_000))


def test_an_error_that_is_none_is_a_refusal() -> None:
    assert "refused with status 400" in refusal("400 No", [b'{"error": {"message": [1]}}'])


def test_who_reads_slowly_is_not_sent_the_whole_answer() -> None:
    sent = 0
    delta = b'data: {"type": "response.output_text.delta", "delta": "%s"}\n\n' % (b"x" * 10_000)

    def endless() -> Iterator[bytes]:
        nonlocal sent
        while True:
            sent += len(delta)
            yield delta

    async def slowly() -> None:
        async with pretender("200 OK", endless()) as url, open_connection(url) as connection:
            async for _ in connection.turn(input="Hello"):
                for _ in range(5_000):  # in each turn it could read more than six pieces
                    await asyncio.sleep(0)
                break

    asyncio.run(asyncio.wait_for(slowly(), PATIENCE_S))
    assert sent < 50_000_000

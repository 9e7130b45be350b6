"""The models a server says it has."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from tests.support.http import key, keys
from tests.support.plain_endpoint import ResponsesEndpoint
from tests.support.server import MODEL, RunningGateway, configuration
from tests.support.waiting import PATIENCE_S
from vivace.client.models import served_models


def test_the_default_model_comes_first(gateway: RunningGateway) -> None:
    assert asyncio.run(served_models(gateway.url)) == [MODEL]
    assert asyncio.run(served_models(gateway.url.removesuffix("/v1"))) == [MODEL]


def test_a_key_is_shown_where_one_is_wanted() -> None:
    with RunningGateway(config=configuration(keys=keys("alice"))) as gateway:
        assert asyncio.run(served_models(gateway.url, key("alice"))) == [MODEL]
        assert asyncio.run(served_models(gateway.url)) == []


def test_a_server_that_does_not_tell_has_none() -> None:
    with ResponsesEndpoint(lambda _: []) as endpoint:
        assert asyncio.run(served_models(endpoint.url)) == []


@pytest.mark.parametrize("url", ["http://127.0.0.1:9/v1", "nonsense", "ftp://x/v1", "http://x:y/"])
def test_no_server_has_none(url: str) -> None:
    assert asyncio.run(served_models(url)) == []


@pytest.mark.parametrize("pause", [0.0, 0.2], ids=["flood", "drip"])
def test_a_server_that_does_not_come_to_an_end_has_none(
    monkeypatch: pytest.MonkeyPatch, pause: float
) -> None:
    monkeypatch.setattr("vivace.client.get._PATIENCE_S", 0.5)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")
        with contextlib.suppress(ConnectionError):
            while True:
                writer.write(b" " * (1 if pause else 1_000_000))
                await writer.drain()
                await asyncio.sleep(pause)

    async def asked() -> list[str]:
        async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
            return await served_models(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1")

    assert asyncio.run(asyncio.wait_for(asked(), PATIENCE_S)) == []

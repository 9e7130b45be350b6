"""One small answer of a server, within bounds of time and size: it may be anybody's."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx2
import msgspec
from msgspec import Struct

from vivace.addresses import is_loopback

__all__ = ["Answer", "Unanswered", "get", "post"]

_PATIENCE_S = 3.0
_LARGEST = 8 * 1024 * 1024


class Unanswered(Exception):
    """Nobody answers there, or does not come to an end."""


class Answer(Struct, frozen=True):
    status: int
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode(errors="replace")


async def get(url: str | httpx2.URL, key: str | None = None) -> Answer:
    """What stands at ``url``; raises Unanswered."""
    return await _ask("GET", url, key, b"")


async def post(url: str | httpx2.URL, body: Any, key: str | None = None) -> Answer:
    """What is answered to this, as JSON; raises Unanswered."""
    return await _ask("POST", url, key, msgspec.json.encode(body))


async def _ask(method: str, url: str | httpx2.URL, key: str | None, content: bytes) -> Answer:
    try:
        address = httpx2.URL(url)
        async with (
            asyncio.timeout(_PATIENCE_S),
            httpx2.AsyncClient(
                timeout=_PATIENCE_S,
                # A proxy for the world cannot reach this machine's own loopback.
                trust_env=not is_loopback(address.host),
                verify=address.scheme == "https",  # reading the certificates takes its time
            ) as http,
            http.stream(method, address, headers=_headers(key, content), content=content) as answer,
        ):
            return Answer(answer.status_code, await _body(answer))
    except (httpx2.RequestError, httpx2.InvalidURL, TimeoutError, ValueError) as error:
        raise Unanswered from error


def _headers(key: str | None, content: bytes) -> dict[str, str]:
    given = {"authorization": f"Bearer {key}"} if key else {}
    return given | ({"content-type": "application/json"} if content else {})


async def _body(answer: httpx2.Response) -> bytes:
    body = bytearray()
    async for piece in answer.aiter_bytes():
        body += piece
        if len(body) > _LARGEST:
            raise Unanswered
    return bytes(body)

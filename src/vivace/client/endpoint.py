"""A server's API over HTTP: what is posted is answered by a stream of events, or refused."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Mapping
from typing import Any
from urllib.parse import urlsplit

import httpx2
import msgspec
from msgspec import Struct

from vivace.addresses import is_loopback
from vivace.client.errors import ClientError, half_a_character, no_server
from vivace.client.events import Failure
from vivace.protocol.sse import EndlessLine, SseLines

__all__ = ["Endpoint", "refusal"]

_LONGEST_REFUSAL = 100_000


class Endpoint:
    def __init__(self, url: str, base: str, key: str | None) -> None:
        """``base`` is where the API stands; ``url`` is what the person calls it."""
        self._url = url
        self._http = httpx2.AsyncClient(
            base_url=base,
            headers={"content-type": "application/json"}
            | ({"authorization": f"Bearer {key}"} if key else {}),
            timeout=httpx2.Timeout(10, read=None),
            # A proxy for the world cannot reach this machine's own loopback.
            trust_env=not is_loopback(urlsplit(base).hostname or ""),
            verify=base.startswith("https"),  # reading the certificates takes its time
        )

    async def post(self, path: str, body: Mapping[str, Any]) -> AsyncGenerator[bytes, None]:
        """The data of the events that answer it; closing this closes the request."""
        try:
            content = msgspec.json.encode(body)
            async with self._http.stream("POST", path, content=content) as answer:
                status = answer.status_code
                if status >= 400:
                    raise refusal(self._url, status, answer.headers, await _beginning(answer))
                lines = SseLines()
                async for data in answer.aiter_bytes():
                    for line in lines.feed(data):
                        yield line
        except UnicodeEncodeError:
            raise half_a_character() from None
        except (httpx2.ConnectError, httpx2.ConnectTimeout):
            raise no_server(self._url) from None
        except (httpx2.TransportError, EndlessLine) as error:
            raise self.broke_off(type(error).__name__) from None

    def broke_off(self, why: str = "its answer has no end") -> ClientError:
        return ClientError(f"{self._url} broke off in the middle: {why}.")

    async def close(self) -> None:
        await self._http.aclose()


async def _beginning(answer: httpx2.Response) -> bytes:
    """Of an answer that is short, unless somebody means ill, as much as such answers have."""
    body = b""
    async for data in answer.aiter_bytes():
        body += data
        if len(body) > _LONGEST_REFUSAL:
            break
    return body


class _Refused(Struct):
    error: Failure


def refusal(url: str, status: int, headers: Mapping[str, str], said: bytes) -> ClientError:
    """What a person is told when a server answers with this status."""
    failure = Failure()
    with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        failure = msgspec.json.decode(said, type=_Refused).error
    if not failure.message or status == 401:
        failure.message = _words(url, status)
    return failure.told(status, headers)


def _words(url: str, status: int) -> str:
    if status == 401:
        return f"The server at {url} wants a key (401); give it with --key or in VIVACE_KEY."
    if status == 404:
        return f"There is no Responses API at {url}; its address usually ends in /v1."
    return f"The server at {url} refused with status {status}; ask who runs it."

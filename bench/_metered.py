"""Who fills gaps for a benchmark, and what the engine has read for them."""

from __future__ import annotations

import asyncio
import re
import urllib.request
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any, Protocol

from msgspec import Struct
from tokenizers import Tokenizer

from bench._socket import Client, Event
from bench._typist import shared
from vivace.client.errors import ClientError
from vivace.completion import fim
from vivace.desk.completing import Filling
from vivace.models import Fim
from vivace.protocol.requests import Fill

_ENDS = ("response.completed", "response.incomplete", "response.failed")
_ANSWERS_TO_AN_INTERRUPT = ("response.interrupt.accepted", "error")
_TOKENS = re.compile(r'^vivace_tokens_total\{kind="(input|cached)",[^}]*\} (\S+)', re.MULTILINE)


class Asked(Struct, frozen=True):
    window: tuple[str, str]
    warming: bool


class Tokens(Struct, frozen=True):
    """Of all prompts so far."""

    prompts: int = 0
    cached: int = 0
    """Of these, what the engine knew."""

    def since(self, before: Tokens) -> Tokens:
        return Tokens(self.prompts - before.prompts, self.cached - before.cached)

    @property
    def read(self) -> int:
        return max(0, self.prompts - self.cached)


class Metering(Filling, Protocol):
    asked: list[Asked]

    def tokens(self) -> Tokens: ...


def _asked(fill: Mapping[str, Any], *, warming: bool) -> Asked:
    return Asked((fill["prefix"], fill["suffix"]), warming)


class Metered:
    """Over one WebSocket of a gateway, one request after the other. The figures are the engine's
    as the gateway has them; answers that are broken off are in them."""

    def __init__(self, client: Client, port: int, model: str) -> None:
        self.asked: list[Asked] = []
        self._client = client
        self._metrics = f"http://127.0.0.1:{port}/metrics"
        self._model = model
        self._turn = asyncio.Lock()

    def tokens(self) -> Tokens:
        with urllib.request.urlopen(self._metrics) as answer:
            found = {kind: float(count) for kind, count in _TOKENS.findall(answer.read().decode())}
        return Tokens(int(found.get("input", 0)), int(found.get("cached", 0)))

    async def fill(
        self,
        lane: str,
        fill: Mapping[str, Any],
        *,
        model: str = "",
        max_tokens: int = 64,
        stop: Sequence[str] = (),
        background: bool = False,
        cache_key: str = "",
    ) -> AsyncGenerator[str, None]:
        self.asked.append(_asked(fill, warming=False))
        async with self._turn:
            await self._create(fill, cache_key, max_output_tokens=max_tokens)
            response, ended = "", False
            try:
                while not ended:
                    event = await self._event()
                    if event["type"] == "response.created":
                        response = event["response"]["id"]
                    ended = event["type"] in _ENDS
                    if event["type"] == "response.output_text.delta":
                        yield event["delta"]
            except ClientError:
                ended = True
                raise
            finally:
                if not ended:
                    await self._interrupt(response)

    async def warm(
        self, lane: str, fill: Mapping[str, Any], *, model: str = "", cache_key: str = ""
    ) -> None:
        self.asked.append(_asked(fill, warming=True))
        async with self._turn:
            await self._create(fill, cache_key, generate=False)
            while (await self._event())["type"] not in _ENDS:
                pass

    async def _create(self, fill: Mapping[str, Any], cache_key: str, **more: Any) -> None:
        more |= {"temperature": 0, "store": False, "prompt_cache_key": cache_key}
        await self._client.send("create", model=self._model, fill=fill, **more)

    async def _event(self) -> Event:
        event = await self._client.event()
        if event["type"] in ("error", "response.failed"):
            raise ClientError(f"The gateway failed: {event}")
        return event

    async def _interrupt(self, response: str) -> None:
        """Wait for both its end and the word about our interrupt: neither is for the next one."""
        while not response:
            event = await self._event()
            if event["type"] == "response.created":
                response = event["response"]["id"]
        await self._client.send("interrupt", response_id=response)
        ended = answered = False
        while not (ended and answered):
            kind = (await self._client.event())["type"]
            ended = ended or kind in _ENDS
            answered = answered or kind in _ANSWERS_TO_AN_INTERRUPT


class Reckoned:
    """No engine at all: what one with a single slot would read, which keeps the last prompt as far
    as the next is the same. Nothing is ever answered."""

    def __init__(self, tokenizer: Tokenizer, template: Fim) -> None:
        self.asked: list[Asked] = []
        self._tokenizer = tokenizer
        self._template = template
        self._known: list[int] = []
        self._tokens = Tokens()

    def tokens(self) -> Tokens:
        return self._tokens

    async def fill(
        self,
        lane: str,
        fill: Mapping[str, Any],
        *,
        model: str = "",
        max_tokens: int = 64,
        stop: Sequence[str] = (),
        background: bool = False,
        cache_key: str = "",
    ) -> AsyncGenerator[str, None]:
        self._read(fill, warming=False)
        yield ""

    async def warm(
        self, lane: str, fill: Mapping[str, Any], *, model: str = "", cache_key: str = ""
    ) -> None:
        self._read(fill, warming=True)

    def _read(self, fill: Mapping[str, Any], *, warming: bool) -> None:
        self.asked.append(_asked(fill, warming=warming))
        prompt = fim.render(Fill(**fill), self._template)
        ids = self._tokenizer.encode(prompt, add_special_tokens=False).ids
        # The last token is always computed: the answer begins behind it.
        cached = min(shared(ids, self._known), len(ids) - 1)
        so_far = self._tokens
        self._tokens = Tokens(so_far.prompts + len(ids), so_far.cached + cached)
        self._known = ids

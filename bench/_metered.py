"""Who fills gaps for a benchmark, and what the engine has read for them."""

from __future__ import annotations

import asyncio
import re
import urllib.request
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Protocol

from msgspec import Struct
from tokenizers import Tokenizer

from bench._typist import shared
from vivace.client.lanes import Lanes
from vivace.completion import fim
from vivace.desk.completing import Filling
from vivace.models import Fim
from vivace.protocol.requests import Fill

_KINDS = ("input", "cached")
_FIGURE = re.compile(
    r'^(vivace_turns_running|vivace_tokens_total)\{(?:kind="(\w+)",)?[^}]*\} (\S+)', re.MULTILINE
)


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

    async def tokens(self) -> Tokens: ...


def _asked(fill: Mapping[str, Any], *, warming: bool) -> Asked:
    return Asked((fill["prefix"], fill["suffix"]), warming)


class Metered:
    """As an editor asks, over the lanes of one connection. The figures are the engine's as the
    gateway has them; answers that are broken off are in them."""

    def __init__(self, port: int, model: str) -> None:
        self.asked: list[Asked] = []
        self._lanes = Lanes(f"http://127.0.0.1:{port}/v1")
        self._metrics = f"http://127.0.0.1:{port}/metrics"
        self._model = model

    async def tokens(self) -> Tokens:
        """When all that was asked has ended."""
        while (found := self._figures()).get("vivace_turns_running"):
            await asyncio.sleep(0.005)
        prompts, cached = (found.get(f"vivace_tokens_total {kind}", 0) for kind in _KINDS)
        return Tokens(prompts, cached)

    def _figures(self) -> dict[str, int]:
        with urllib.request.urlopen(self._metrics) as answer:
            lines = _FIGURE.findall(answer.read().decode())
        return {f"{name} {kind}".strip(): int(float(value)) for name, kind, value in lines}

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
        answer = self._lanes.fill(
            lane,
            fill,
            model=self._model,
            max_tokens=max_tokens,
            stop=stop,
            background=background,
            cache_key=cache_key,
        )
        async with aclosing(answer):
            async for delta in answer:
                yield delta

    async def warm(
        self, lane: str, fill: Mapping[str, Any], *, model: str = "", cache_key: str = ""
    ) -> None:
        self.asked.append(_asked(fill, warming=True))
        await self._lanes.warm(lane, fill, model=self._model, cache_key=cache_key)

    async def close(self) -> None:
        await self._lanes.close()


class Reckoned:
    """No engine at all: what one with a single slot would read, which keeps the last prompt as far
    as the next is the same. Nothing is ever answered."""

    def __init__(self, tokenizer: Tokenizer, template: Fim) -> None:
        self.asked: list[Asked] = []
        self._tokenizer = tokenizer
        self._template = template
        self._known: list[int] = []
        self._tokens = Tokens()

    async def tokens(self) -> Tokens:
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
        parts = fim.render(Fill(**fill), self._template)
        ids = [token for part in parts for token in self._tokenizer.encode(part).ids]
        # The last token is always computed: the answer begins behind it.
        cached = min(shared(ids, self._known), len(ids) - 1)
        so_far = self._tokens
        self._tokens = Tokens(so_far.prompts + len(ids), so_far.cached + cached)
        self._known = ids

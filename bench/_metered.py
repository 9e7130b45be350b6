"""Who fills gaps for a benchmark, and what the engine has read for them."""

from __future__ import annotations

import asyncio
import re
import urllib.request
from collections import Counter
from collections.abc import AsyncGenerator
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace
from tokenizers import Tokenizer

from bench._typist import shared
from vivace.client.gap import Gap
from vivace.client.lanes import Lanes
from vivace.completion import fim
from vivace.desk.completing import Filling
from vivace.models import Fim
from vivace.protocol.requests import Fill

_KINDS = ("input", "cached")
_FIGURE = re.compile(
    r'^(vivace_turns_(?:running|total)|vivace_tokens_total)\{(?:kind="(\w+)",)?[^}]*\} (\S+)',
    re.MULTILINE,
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


def _asked(gap: Gap) -> Asked:
    return Asked((gap.fill["prefix"], gap.fill["suffix"]), warming=not gap.generate)


class Metered:
    """As an editor asks, over the lanes of one connection. The figures are the engine's as the
    gateway has them; answers that are broken off are in them."""

    has_tiers = False
    """So nothing is asked but for keys and jumps, at the same moments in every way."""

    def __init__(self, port: int, model: str) -> None:
        self.asked: list[Asked] = []
        self.url = f"http://127.0.0.1:{port}/v1"
        self._lanes = Lanes(self.url)
        self._metrics = f"http://127.0.0.1:{port}/metrics"
        self._model = model

    async def tokens(self) -> Tokens:
        """When all that was asked has ended."""
        found = await self._settled()
        prompts, cached = (found[f"vivace_tokens_total {kind}"] for kind in _KINDS)
        return Tokens(prompts, cached)

    async def turns(self) -> int:
        """All that were asked for, be it only to read; when they have ended."""
        return (await self._settled())["vivace_turns_total"]

    async def _settled(self) -> Counter[str]:
        while (found := self._figures())["vivace_turns_running"]:
            await asyncio.sleep(0.005)
        return found

    def _figures(self) -> Counter[str]:
        with urllib.request.urlopen(self._metrics) as answer:
            lines = _FIGURE.findall(answer.read().decode())
        figures = Counter[str]()
        for name, kind, value in lines:
            figures[f"{name} {kind}".strip()] += int(float(value))
        return figures

    def fill(self, lane: str, gap: Gap) -> AsyncGenerator[str, None]:
        self.asked.append(_asked(gap))
        return self._lanes.fill(lane, replace(gap, model=self._model))

    async def close(self) -> None:
        await self._lanes.close()


class Reckoned:
    """No engine at all: what one with a single slot would read, which keeps the last prompt as far
    as the next is the same. Nothing is ever answered."""

    has_tiers = False

    def __init__(self, tokenizer: Tokenizer, template: Fim) -> None:
        self.asked: list[Asked] = []
        self._tokenizer = tokenizer
        self._template = template
        self._known: list[int] = []
        self._tokens = Tokens()

    async def tokens(self) -> Tokens:
        return self._tokens

    async def fill(self, lane: str, gap: Gap) -> AsyncGenerator[str, None]:
        self.asked.append(_asked(gap))
        parts = fim.render(Fill(**gap.fill), self._template)
        ids = [token for part in parts for token in self._tokenizer.encode(part).ids]
        # The last token is always computed: the answer begins behind it.
        cached = min(shared(ids, self._known), len(ids) - 1)
        so_far = self._tokens
        self._tokens = Tokens(so_far.prompts + len(ids), so_far.cached + cached)
        self._known = ids
        yield ""

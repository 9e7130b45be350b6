"""How long conversations are, asked of a node: what a gateway cannot tell that has no tokenizer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from vivace.errors import LinkError
from vivace.link.frames import Measure, Measured
from vivace.protocol.items import Item

__all__ = ["Questions"]

_IN_TIME = 5.0
"""Seconds in which the longest conversation is counted."""


class Questions:
    """Those of one link; with it they are lost."""

    def __init__(self) -> None:
        self._last = 0
        self._asked: dict[int, asyncio.Future[Sequence[int] | None]] = {}

    async def ask(
        self,
        say: Callable[[Measure], None],
        engine: str,
        model: str,
        parts: Sequence[Sequence[Item]],
    ) -> Sequence[int] | None:
        """None if there was no answer."""
        self._last += 1
        number = self._last
        told = self._asked[number] = asyncio.get_running_loop().create_future()
        try:
            say(Measure(number, engine, model, tuple(map(tuple, parts))))
            tokens = await asyncio.wait_for(told, _IN_TIME)
        except (TimeoutError, LinkError, OverflowError):  # a number in a schema has over 64 bits
            return None
        finally:
            del self._asked[number]
        return tokens if tokens is not None and len(tokens) == len(parts) else None

    def told(self, measured: Measured) -> None:
        self._answer(measured.number, measured.tokens)

    def lost(self) -> None:
        """No answer will come."""
        for number in self._asked:
            self._answer(number, None)

    def _answer(self, number: int, tokens: Sequence[int] | None) -> None:
        asked = self._asked.get(number)
        if asked is not None and not asked.done():
            asked.set_result(tokens)

"""How a server does its work: how fast it reads and writes, and whether it stops when told to."""

from __future__ import annotations

import asyncio
import secrets
from contextlib import AsyncExitStack

from msgspec import Struct

from vivace.client.connection import Connection, open_connection
from vivace.client.errors import ClientError
from vivace.client.gap import Gap
from vivace.client.lanes import Lanes

__all__ = ["Cancel", "Speed", "fill_gap", "measure_cancel", "measure_speed"]

_PATIENCE_S = 120.0
_AT_ONCE = 2
"""Answers that are cancelled together: as many as ``vivace up`` writes at once, so that the next
must wait if they go on."""

_READ = "    total = total + price * amount  # of one line of the order\n" * 30
_SHORT = {"input": "Say yes.", "max_output_tokens": 4}
_LONG = {"input": "Write the numbers from 1 to 1000, one in a line.", "max_output_tokens": 1000}


class Speed(Struct, frozen=True):
    """In tokens per second; None where it cannot be told."""

    reading: float | None
    writing: float | None


class Cancel(Struct, frozen=True):
    """Seconds to the first word of an answer."""

    usual: float
    after_cancel: float


async def measure_speed(url: str, key: str | None, model: str) -> Speed:
    """One short answer about a text that the engine has not read before."""
    question = f"{secrets.token_hex(8)}\n{_READ}\nExplain this code in two sentences."
    async with asyncio.timeout(_PATIENCE_S), open_connection(url, key) as connection:
        async for _ in connection.turn(
            model=model, input=question, max_output_tokens=32, store=False
        ):
            pass
    figures, response = connection.figures, connection.response
    read = response.tokens_read if response is not None else 0
    first = figures.first_token
    return Speed(read / first if first and read > 0 else None, figures.tokens_per_second)


async def fill_gap(url: str, key: str | None, model: str) -> str:
    """What a model writes into a small gap; raises ClientError where the server knows of none."""
    lanes = Lanes(url, key)
    fill = {"prefix": "def add(a, b):\n    return ", "suffix": "\n", "path": "add.py"}
    gap = Gap(fill=fill, model=model, max_tokens=8)
    try:
        async with asyncio.timeout(_PATIENCE_S):
            return "".join([text async for text in lanes.fill("checkup", gap)])
    finally:
        await lanes.close()


async def measure_cancel(url: str, key: str | None, model: str) -> Cancel:
    """How long an answer is waited for in peace, and right after others were broken off."""
    async with AsyncExitStack() as opened, asyncio.timeout(_PATIENCE_S):
        asking = await opened.enter_async_context(open_connection(url, key))
        usual = await _first_word(asking, model)
        others = [
            await opened.enter_async_context(open_connection(url, key)) for _ in range(_AT_ONCE)
        ]
        await asyncio.gather(*(_broken_off(other, model) for other in others))
        return Cancel(usual, await _first_word(asking, model))


async def _first_word(connection: Connection, model: str) -> float:
    async for _ in connection.turn(model=model, store=False, **_SHORT):
        pass
    first = connection.figures.first_token
    if first is None:
        raise ClientError("The model answers without a word.")
    return first


async def _broken_off(connection: Connection, model: str) -> None:
    """Returns when the server says that it is over."""
    interrupted = False
    async for _ in connection.turn(model=model, store=False, **_LONG):
        if not interrupted:
            interrupted = True
            await connection.interrupt()

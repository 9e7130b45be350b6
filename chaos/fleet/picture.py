"""``scripts/chaos picture``: one answer whose node is killed and then its gateway, token by token.

The fleet has the times that it has unless told otherwise, since a picture is for people who run it
so. The client reads on a WebSocket of one gateway; when that breaks, it asks the other for the rest
at once.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import tempfile
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from bench._plot import growth
from msgspec import Struct
from tests.support.http import bearer
from websockets.exceptions import WebSocketException

from chaos.clients import Talker
from chaos.fleet.cell import OWNERS, At, Cell
from chaos.fleet.services import Services, with_services
from chaos.fleet.times import Times
from chaos.history import Entry, Note, Recorder, Saw
from chaos.marks import MARK, broken_off
from chaos.processes import Server
from chaos.sessions import MODEL

__all__ = ["Loss", "add_to", "paused", "received", "wrong"]

_PICTURE = Path(__file__).parents[2] / "docs" / "pictures" / "fleet.svg"
_RATE, _WORDS = 50, 300
_SCRIPT = f'[[replies]]\nthen = [{{ do = "mark", times = {_WORDS} }}]\n'
_NODE_AT, _GATEWAY_AT = 2.0, 4.0
_LONGEST = 60.0
_TIMES = Times.shipped(_RATE)
_OWNER = OWNERS[0]
_QUESTION = {"model": MODEL, "input": "Go on.", "on_disconnect": "wait"}
_WORD = "response.output_text.delta"


class Loss(Struct, frozen=True):
    """What was killed, and when."""

    at: float
    what: str


def add_to(commands: Any) -> None:
    parser: argparse.ArgumentParser = commands.add_parser(
        "picture", help="one answer that loses its node and its gateway, drawn"
    )
    parser.add_argument("--plot", type=Path, default=_PICTURE, help="write it there (%(default)s)")
    parser.set_defaults(do=_picture)


def _picture(given: argparse.Namespace) -> int:
    return with_services(lambda services: _drawn(given.plot, services))


def _drawn(plot: Path, services: Services) -> int:
    folder = Path(tempfile.mkdtemp(prefix="vivace-chaos-picture-"))
    begun, history, losses = asyncio.run(_answer(folder, services))
    if (why := wrong(history)) is not None:
        print(f"nothing is drawn: {why}; logs are in {folder}")
        return 1
    points = received(history, begun)
    told = [_told(points, each.at - begun, each.what) for each in losses]
    title = f"One answer of {_WORDS} tokens at {_RATE} a second, by a scripted engine"
    growth(plot, title, points, told)
    print(f"{plot}: {'; '.join(words.replace(chr(10), ' ') for _, words in told)}")
    return 0


def _told(points: Sequence[tuple[float, int]], at: float, what: str) -> tuple[float, str]:
    return at, f"kill -9 of its {what}:\n{paused(points, at):.2f} s without a token"


# -- what is seen ---------------------------------------------------------------------------------


def received(history: Sequence[Entry], begun: float) -> list[tuple[float, int]]:
    """How many tokens the client had, and after how many seconds."""
    points, count = [(0.0, 0)], 0
    for entry in history:
        if isinstance(entry, Saw) and entry.event["type"] == _WORD:
            count += len(MARK.findall(entry.event["delta"]))
            points.append((entry.at - begun, count))
    return points


def paused(points: Sequence[tuple[float, int]], at: float) -> float:
    """The longest time without a token that began in the second after this, or just before it."""
    spans = [(first, second) for (first, _), (second, _) in pairwise(points)]
    return max(
        (second - first for first, second in spans if second > at and first < at + 1), default=0.0
    )


def wrong(history: Sequence[Entry]) -> str | None:
    """Why this is not the whole answer, in a sentence; None if it is."""
    seen = [entry.event for entry in history if isinstance(entry, Saw)]
    text = "".join(event["delta"] for event in seen if event["type"] == _WORD)
    if (broken := broken_off(text)) is not None:
        return broken
    if (count := len(MARK.findall(text))) != _WORDS:
        return f"{count} tokens of {_WORDS} arrived"
    if seen[-1]["type"] != "response.completed":
        return f"the last event is {seen[-1]['type']}"
    return None


# -- what is done ---------------------------------------------------------------------------------


async def _answer(folder: Path, services: Services) -> tuple[float, list[Entry], list[Loss]]:
    with contextlib.closing(Recorder(folder / "history.jsonl")) as note:
        async with Cell(folder, note, services, _TIMES, script=_SCRIPT) as cell:
            urls = list(cell.gateway_urls.values())
            begun = time.monotonic()
            reading = asyncio.create_task(_read(note, urls))
            try:
                losses = [
                    await _kill_node(cell, begun + _NODE_AT),
                    await _kill_gateway(cell, begun + _GATEWAY_AT),
                ]
                async with asyncio.timeout(_LONGEST):
                    await reading
            finally:
                reading.cancel()
    return begun, note.history, losses


async def _read(note: Note, urls: Sequence[str]) -> None:
    """Ask at the first, and whenever the connection breaks, at the next at once."""
    response, after = "", -1
    for number in itertools.count():
        name, url = f"reader.{number}", urls[number % len(urls)]
        with contextlib.suppress(OSError, WebSocketException):
            async with Talker.join(note, url, name, _OWNER, bearer(_OWNER)) as talker:
                if response:
                    await talker.resume(response, after)
                else:
                    await talker.say({"type": "response.create", **_QUESTION})
                await _until(lambda: talker.closed or bool(talker.running))
                await _until(lambda: talker.closed or not talker.running)
                response = response or talker.ids[0]
                after = talker.numbers[response]
                if not talker.closed:
                    return
        await asyncio.sleep(0.005)


async def _until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.002)


async def _kill_node(cell: Cell, at: float) -> Loss:
    turn = await _open_at(cell, at)
    node = next(each for each in cell.nodes if each.name == turn.node)
    return await _killed(node, "engine node")


async def _kill_gateway(cell: Cell, at: float) -> Loss:
    turn = await _open_at(cell, at)
    gateway = next(each for each in cell.gateways if each.name == turn.gateway)
    return await _killed(gateway, "gateway")


async def _open_at(cell: Cell, at: float) -> At:
    """The turn, looked at right before it loses something."""
    await asyncio.sleep(max(0.0, at - time.monotonic() - 0.2))
    [turn] = await cell.open_turns()
    await asyncio.sleep(max(0.0, at - time.monotonic()))
    return turn


async def _killed(server: Server, what: str) -> Loss:
    at = time.monotonic()
    await server.kill()
    return Loss(at, what)

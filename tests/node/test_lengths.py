"""Conversations that gateways have counted: how many wait, and how many bytes they are."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import pytest

from tests.support.waiting import PATIENCE_S, eventually_async
from vivace.engines.base import Card
from vivace.engines.scripted import Capacity, Script, ScriptedEngine
from vivace.link.frames import Measure, Measured
from vivace.node.lengths import Lengths
from vivace.protocol.items import Item, Message


class Slow(ScriptedEngine):
    """Counts when it is let."""

    def __init__(self) -> None:
        super().__init__("e", [Card("m", 1000)], Script(()), Capacity())
        self.lets = threading.Event()
        self.counted = 0

    def count(self, items: Sequence[Item], model: str) -> int:
        assert self.lets.wait(PATIENCE_S)
        self.counted += 1
        return 1


def run(check: Callable[[Slow, Lengths], Coroutine[Any, Any, None]]) -> None:
    async def whole() -> None:
        slow = Slow()
        lengths = Lengths({"e": slow})
        try:
            await check(slow, lengths)
        finally:
            slow.lets.set()
            lengths.stop()

    asyncio.run(whole())


def question(number: int, size: int = 10) -> Measure:
    return Measure(number, "e", "m", ((Message(role="user", content="x" * size),),))


@pytest.mark.parametrize(("links", "most"), [(1, 64), (3, 192), (9, 256)])
def test_questions_that_wait_are_bounded_for_a_link_and_for_all(links: int, most: int) -> None:
    async def check(slow: Slow, lengths: Lengths) -> None:
        told: list[Measured] = []
        for number in range(100):
            for link in range(links):
                lengths.measure(f"p{link}", question(number), told.append)
        assert len(told) == 100 * links - most
        assert {each.tokens for each in told} == {()}
        slow.lets.set()
        await eventually_async(lambda: len(told) == 100 * links)
        assert sum(each.tokens == (1,) for each in told) == most

    run(check)


def test_questions_that_wait_are_bounded_in_bytes() -> None:
    async def check(slow: Slow, lengths: Lengths) -> None:
        told: list[Measured] = []
        for number in range(10):
            lengths.measure("p", question(number, 10_000_000), told.append)
        assert len(told) == 4

    run(check)


def test_questions_of_a_link_that_is_gone_are_not_counted() -> None:
    async def check(slow: Slow, lengths: Lengths) -> None:
        told: list[Measured] = []
        for number in range(10):
            lengths.measure("gone", question(number), told.append)
        lengths.lost("gone")
        lengths.measure("p", question(10), told.append)
        for _ in range(3):  # turns of the loop, in which the counter learns of it
            await asyncio.sleep(0)
        slow.lets.set()
        await eventually_async(lambda: Measured(10, (1,)) in told)
        assert slow.counted <= 2  # the first was being counted

    run(check)


def test_engine_that_is_not_there_counts_nothing() -> None:
    async def check(slow: Slow, lengths: Lengths) -> None:
        told: list[Measured] = []
        lengths.measure("p", Measure(1, "another", "m", ((),)), told.append)
        assert told == [Measured(1, ())]

    run(check)

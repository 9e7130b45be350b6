"""Who waits for the engine of a node, and who is refused."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.engines.linked import KEY, node_config, on_virtual_time
from tests.engines.suite import answer, until
from tests.engines.test_scripted import MODEL, ask, engine
from tests.support.virtual_time import elapse
from tests.support.waiting import PATIENCE_S
from vivace.conversation.deltas import MAX_TOKENS, Delta, Finished, TextDelta, Tokens
from vivace.engines.base import Bounds, Card, Work
from vivace.engines.remote import Address, Node
from vivace.engines.scripted import Capacity, Say, Script, ScriptedEngine, Stall
from vivace.errors import EngineError, EngineFull
from vivace.node.app import EngineNode


class Asking:
    """A gateway with much to do for an engine that has one slot."""

    def __init__(self, link: Node, works: EngineNode) -> None:
        self._engine = link.engines[0]
        self._works = works._works
        self.tasks: list[asyncio.Task[None]] = []
        self.heard: dict[int, list[int]] = {}
        """By task: every place that it was told."""

    @property
    def waiting(self) -> int:
        return self._works.waiting("e")

    async def place(self, bounds: Bounds | None, tier: str = "fast") -> int:
        """Where one more stands in the queue; 0 if it runs. Raises why it is refused."""
        told: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        heard = self.heard.setdefault(len(self.tasks), [])

        async def tell(position: int, seconds: float) -> None:
            heard.append(position)
            if not told.done():
                told.set_result(position)

        async def stay() -> None:
            work = replace(ask("x"), id=f"turn {len(self.tasks)}", tier=tier, bounds=bounds)
            async with self._engine.slot(work, tell, lambda: False):
                await tell(0, 0.0)
                await asyncio.Event().wait()

        task = asyncio.create_task(stay())
        self.tasks.append(task)
        both: set[asyncio.Future[Any]] = {task, told}
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        if not told.done():
            await task
        return await told


@asynccontextmanager
async def asking() -> AsyncIterator[Asking]:
    inner = engine(Stall(60))
    node = EngineNode(
        node_config(slots=1), Path(), {"VIVACE_FLEET_KEY": KEY}, build=lambda *_: inner
    )
    async with node.listening() as (host, port):
        link = Node(Address(f"ws://{host}:{port}", KEY), "gateway_tests")
        running = asyncio.create_task(link.run())
        await asyncio.wait_for(link.linked.wait(), PATIENCE_S)
        asker = Asking(link, node)
        try:
            yield asker
        finally:
            for task in (*asker.tasks, running):
                task.cancel()
            await asyncio.gather(*asker.tasks, running, return_exceptions=True)
            link.close()


def test_more_than_may_wait_are_refused_by_the_bounds_that_came_with_them() -> None:
    async def check() -> None:
        async with asking() as asker:
            assert [await asker.place(Bounds(1)) for _ in range(2)] == [0, 1]
            with pytest.raises(EngineFull) as refused:
                await asker.place(Bounds(1))
            assert refused.value.code == "queue_full"
            assert asker.waiting == 1
            assert await asker.place(Bounds(2)) == 2

    on_virtual_time(check())


def test_one_that_was_heard_of_is_not_refused_for_coming_late() -> None:
    async def check() -> None:
        async with asking() as asker:
            assert [await asker.place(Bounds(1)) for _ in range(2)] == [0, 1]
            assert await asker.place(None) == 2

    on_virtual_time(check())


def test_tiers_that_share_an_engine_do_not_share_a_queue() -> None:
    async def check() -> None:
        async with asking() as asker:
            assert [await asker.place(Bounds(1)) for _ in range(2)] == [0, 1]
            assert await asker.place(Bounds(1), "deep") == 1
            assert asker.waiting == 2

    on_virtual_time(check())


def test_who_waits_while_much_happens_is_told_now_and_then_and_in_the_end_rightly() -> None:
    async def check() -> None:
        async with asking() as asker:
            places = [await asker.place(Bounds(20)) for _ in range(12)]
            assert places == list(range(12))
            for task in asker.tasks[1:-1]:
                task.cancel()
                await elapse(0.1)
            await elapse(1)
            assert asker.heard[11][-1] == 1
            assert len(asker.heard[11]) <= 2 + (10 * 0.1 + 1) / 0.5

    on_virtual_time(check())


def test_engine_does_not_wait_for_ever_for_a_gateway_that_takes_nothing() -> None:
    """The run would hold a slot that others wait for."""

    async def check() -> None:
        inner = engine(Say("word ", times=1000))
        node = EngineNode(
            node_config(slots=1), Path(), {"VIVACE_FLEET_KEY": KEY}, build=lambda *_: inner
        )
        async with node.listening() as (host, port):
            link = Node(Address(f"ws://{host}:{port}", KEY), "gateway_tests", window=4)
            running = asyncio.create_task(link.run())
            await asyncio.wait_for(link.linked.wait(), PATIENCE_S)
            reading = link.open("e", ask("x"))
            await until(lambda: node._works.running == 1)
            await elapse(50)
            assert node._works.running == 1, "a client may be slow"
            await elapse(20)
            assert node._works.running == 0
            taken = [await reading.entry() for _ in range(4)]  # what was said before comes first
            assert len(taken) == 4
            with pytest.raises(EngineError, match="took nothing"):
                await reading.entry()
            reading.close()
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    on_virtual_time(check())


@pytest.mark.parametrize("count", [-1, -(2**70), 2**62, 2**70])
def test_counts_that_cannot_be_do_not_end_the_link(count: int) -> None:
    """An endpoint behind a node counts as it likes, and other answers go over the same link."""

    class Liar(ScriptedEngine):
        async def generate(self, work: Work) -> AsyncGenerator[Delta, None]:
            tally = work.tally
            tally.input = tally.cached = tally.output = tally.steps = count
            yield TextDelta("word")
            yield Finished("stop", Tokens(count, count, count, count, count, count))

    async def check() -> None:
        inner = Liar("e", [Card(MODEL, 1000)], Script(()), Capacity())
        node = EngineNode(node_config(), Path(), {"VIVACE_FLEET_KEY": KEY}, build=lambda *_: inner)
        async with node.listening() as (host, port):
            link = Node(Address(f"ws://{host}:{port}", KEY), "gateway_tests")
            running = asyncio.create_task(link.run())
            await asyncio.wait_for(link.linked.wait(), PATIENCE_S)
            *_, last = await answer(link.engines[0], ask("x"))
            assert isinstance(last, Finished)
            assert 0 <= last.tokens.input <= MAX_TOKENS
            assert link.trouble is None
            assert link.linked.is_set()
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    on_virtual_time(check())

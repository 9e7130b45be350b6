"""Engines that are only slow: nothing is refused or ended for that. Time is virtual throughout."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Coroutine
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar

import pytest

from tests.support import virtual_time
from tests.support.server import configuration
from tests.support.virtual_time import elapse
from vivace.config import Config
from vivace.conversation.deltas import Delta, Finished, Tokens
from vivace.engines.base import Work
from vivace.engines.scripted import Act, Mark, Reply, Say, ScriptedEngine
from vivace.errors import EngineError
from vivace.gateway import dispatch, listening, planning
from vivace.gateway.app import Gateway
from vivace.gateway.client_connection import connect
from vivace.gateway.http import Collector
from vivace.protocol.codec import decode_create
from vivace.protocol.events import Response
from vivace.protocol.items import Message, text_of

T = TypeVar("T")
RELEASE = pytest.mark.release
WORDS = 50
ANSWER = " word" * WORDS


def pool(count: int, **more: Any) -> Config:
    engine = {"kind": "scripted", "model": "m", "rate": 10, "context": 10**6, **more}
    names = [f"replica{number}" for number in range(count)]
    return configuration(
        engines=[{"name": name, **engine} for name in names],
        tiers=[{"name": "fast", "engines": names, "queue": 1000}],
    )


class Slow:
    """A gateway with scripted engines, which can be stopped for a while."""

    def __init__(self, config: Config, folder: Path) -> None:
        self.gateway = Gateway(config, folder)
        self.engines = [
            each for each in self.gateway.catalogue.engines if isinstance(each, ScriptedEngine)
        ]

    def says(self, *acts: Act) -> None:
        for each in self.engines:
            each.play([Reply(then=acts)])

    async def ask(self, text: str = "Go", **body: Any) -> Response:
        """Raises why it was refused."""
        collector = Collector()
        connection = connect(self.gateway.runner, collector, "local", "r")
        asked = {"model": "fast", "input": text, "store": False, **body}
        await connection.receive(decode_create(json.dumps(asked).encode()))
        await connection.finished()
        return collector.result()

    def asked(self, *texts: str) -> list[asyncio.Task[Response]]:
        return [asyncio.create_task(self.ask(text)) for text in texts or ("Go",)]

    def busy(self) -> ScriptedEngine:
        return next(each for each in self.engines if each.running())

    @property
    def failovers(self) -> float:
        return self._sum("vivace_failovers_total")

    @property
    def refused(self) -> float:
        return self._sum("vivace_requests_refused_total")

    def _sum(self, name: str) -> float:
        found = self.gateway.metrics.registry.collect()
        samples = (sample for metric in found for sample in metric.samples)
        return sum(sample.value for sample in samples if sample.name == name)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Any]:
    """Has a story happen to a gateway, in no time."""
    clock = SimpleNamespace(monotonic=lambda: asyncio.get_running_loop().time())
    for module in (dispatch, listening, planning):
        monkeypatch.setattr(module, "time", clock)

    def tell(config: Config, story: Callable[[Slow], Coroutine[Any, Any, T]]) -> T:
        async def whole() -> T:
            slow = Slow(config, tmp_path)
            slow.says(Say(" word", times=WORDS))
            async with slow.gateway.running():
                return await asyncio.wait_for(story(slow), 10_000)

        return virtual_time.run(whole())

    return tell


def said(response: Response) -> str:
    [message] = response.output
    assert isinstance(message, Message)
    return text_of(message.content)


def all_is_said(answers: list[Response]) -> bool:
    return all((each.status, said(each)) == ("completed", ANSWER) for each in answers)


# -- the only engine of its tier ------------------------------------------------------------------


@pytest.mark.parametrize("stall", [20, 60, 600])
@pytest.mark.parametrize("after", [0.05, 2.0], ids=["before the first word", "within the answer"])
def test_the_only_engine_may_stand_still_and_nothing_is_refused(
    run: Callable[..., Any], stall: float, after: float
) -> None:
    async def story(slow: Slow) -> None:
        [engine] = slow.engines
        before = slow.asked("one", "two")
        await elapse(after)
        engine.freeze()
        meanwhile = []
        for number in range(8):  # more than it has slots for
            await elapse(stall / 8)
            meanwhile += slow.asked(f"meanwhile {number}")
        assert slow.gateway.listening.silent(engine.name) == (stall > 30)  # some are still read
        assert [*slow.gateway._unready()] == []
        engine.thaw()
        assert all_is_said(await asyncio.gather(*before, *meanwhile))
        assert (slow.failovers, slow.refused) == (0, 0)
        assert not slow.gateway.listening.silent(engine.name)

    run(pool(1, slots=4), story)


def test_one_that_stands_still_again_and_again_is_never_given_up(run: Callable[..., Any]) -> None:
    async def story(slow: Slow) -> None:
        [engine] = slow.engines
        turns = slow.asked(*(f"turn {number}" for number in range(12)))
        silences = 0
        for _ in range(10):
            await elapse(1.1)
            engine.freeze()
            await elapse(20)
            silences += slow.gateway.listening.silent(engine.name)
            engine.thaw()
        assert silences > 3  # more deaths than a turn may see
        assert all_is_said(await asyncio.gather(*turns))
        assert (slow.failovers, slow.refused) == (0, 0)

    run(pool(1, slots=4), story)


def test_when_it_is_really_gone_that_is_an_error(run: Callable[..., Any]) -> None:
    async def story(slow: Slow) -> None:
        [engine] = slow.engines
        [turn] = slow.asked()
        await elapse(2)
        engine.freeze()
        await elapse(20)
        engine.die("killed")
        failed = await turn
        assert failed.error is not None
        assert failed.error.code == "engine_died"
        assert [*slow.gateway._unready()] == [f"{engine.name} has died"]
        await slow.ask()

    with pytest.raises(Exception, match="No engine for 'fast' takes turns now"):
        run(pool(1), story)


# -- one of several -------------------------------------------------------------------------------


def test_where_there_is_another_the_silent_one_is_left(run: Callable[..., Any]) -> None:
    async def story(slow: Slow) -> None:
        turns = slow.asked()
        await elapse(2)
        frozen = slow.busy()
        frozen.freeze()
        await elapse(6)
        assert frozen.running() <= 1  # who asks whether it is back
        assert [*slow.gateway._unready()] == [f"{frozen.name} has work and does none of it"]
        turns += slow.asked(*(f"turn {number}" for number in range(6)))
        assert all_is_said(await asyncio.gather(*turns))
        assert (slow.failovers, slow.refused) == (1, 0)

    run(pool(2), story)


def test_a_silent_engine_is_waited_for_when_the_other_one_is_gone(run: Callable[..., Any]) -> None:
    async def story(slow: Slow) -> None:
        turns = slow.asked()
        await elapse(2)
        frozen = slow.busy()
        [other] = [each for each in slow.engines if each is not frozen]
        other.die("killed")
        frozen.freeze()
        await elapse(20)
        turns += slow.asked("another")
        await elapse(20)
        frozen.thaw()
        assert all_is_said(await asyncio.gather(*turns))
        assert (slow.failovers, slow.refused) == (0, 0)

    run(pool(2), story)


def test_a_turn_that_left_two_silent_engines_stays_with_the_third(run: Callable[..., Any]) -> None:
    async def story(slow: Slow) -> None:
        turns, going = slow.asked(), set(slow.engines)
        for failovers in (0, 1, 2):
            while slow.failovers < failovers:
                await elapse(0.1)
            await elapse(0.5)
            [busy] = [each for each in going if each.running()]
            busy.freeze()
            going.discard(busy)
        await elapse(60)
        assert len(going) == 1
        for each in slow.engines:
            each.thaw()
        assert all_is_said(await asyncio.gather(*turns))
        assert slow.failovers == 2

    run(pool(4), story)


def test_one_that_failed_a_turn_is_no_engine_to_leave_another_for(run: Callable[..., Any]) -> None:
    async def story(slow: Slow) -> None:
        broken, other = slow.engines

        async def fails(work: Work) -> AsyncGenerator[Delta, None]:
            if work.generate:
                raise EngineError("no")
            yield Finished("stop", Tokens())

        broken.generate = fails  # type: ignore[method-assign]
        turns = slow.asked(*(f"turn {number}" for number in range(4)))
        await elapse(2)
        other.freeze()
        await elapse(20)
        other.thaw()
        assert all_is_said(await asyncio.gather(*turns))
        assert slow.refused == 0

    run(pool(2), story)


# -- under full load ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "rate", [pytest.param(60, marks=RELEASE), 500, pytest.param(5000, marks=RELEASE)]
)
def test_a_hundred_thousand_tokens_under_full_load_are_no_death(
    run: Callable[..., Any], rate: float
) -> None:
    """Two engines, so that a turn could leave one that seems to be dead; all their slots are taken,
    and others wait."""

    async def story(slow: Slow) -> None:
        slow.says(Mark(times=WORDS))
        long = [
            asyncio.create_task(slow.ask(f"long {number} " + "word " * 80_000))
            for number in range(2)
        ]
        others = slow.asked(*(f"other {number} " + "word " * 240 for number in range(60)))
        answers = await asyncio.gather(*long, *others)
        assert all(each.status == "completed" for each in answers)
        assert all(said(each).count(" m") == said(each).count(".a1") == WORDS for each in answers)
        for each in answers[:2]:
            assert each.usage is not None
            assert each.usage.input_tokens > 100_000
        assert (slow.failovers, slow.refused) == (0, 0)

    load = {"growth": 0.1, "prefill_rate": rate, "prefill_chunk": 8192, "slots": 16}
    run(pool(2, **load), story)

"""What every engine must do, whatever engine it is.

A test module plugs an engine in by a subclass of ``EngineSuite`` that overrides ``rig``::

    class TestMyEngine(EngineSuite):
        @pytest.fixture
        def rig(self) -> Rig:
            return MyRig()

Where an engine cannot do what the suite asks, its rig says so by a property, with the reason beside
it; a property that says too little or too much fails.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import TypeVar

import pytest
from msgspec.structs import replace

from tests.support.waiting import eventually_async
from vivace.conversation.deltas import Delta, Finished, TextDelta, Tokens
from vivace.conversation.so_far import SoFar
from vivace.engines.base import Chat, Engine, Tally, Work
from vivace.errors import CannotContinue, EngineBusy, EngineDied, EngineError, EngineRefused
from vivace.protocol.items import (
    AdditionalTools,
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCall,
    FunctionCallOutput,
    FunctionTool,
    InputText,
    Item,
    Message,
    Reasoning,
    ReasoningText,
)

T = TypeVar("T")

WORDS = ("apple", "river", "seven", "green")


class Rig(ABC):
    """An engine, and prompts that make it behave as a test needs."""

    engine: Engine

    long_tokens = 1500
    """How many tokens ``long`` is answered with."""
    patience = 120.0
    """How many seconds any one check may take: only a hang reaches it."""
    joins_for_slow_readers = True
    """Else it stops reading and its endpoint waits: nothing is queued, and nothing is joined."""
    isolates_owners = True
    """Else a prompt that one owner sent is cached for the others too, which timing can show."""
    can_fail = True
    """Else there is no prompt that fails in mid-stream, and ``failing`` is never called."""
    can_be_busy = True
    """Else it takes whatever it is given and lets it wait, and ``overloaded`` is never called."""
    knows_its_health = True
    """Else it learns of a death by the next request only, and calls itself healthy until then."""

    repeats_itself = True
    """Else rounding depends on the batch and on what is cached, and with it the greedy text."""

    @abstractmethod
    def short(self) -> Work:
        """Is answered with a few tokens of text."""

    @abstractmethod
    def long(self) -> Work:
        """Is answered with ``long_tokens`` tokens of text, and takes a second or more."""

    @abstractmethod
    def echo(self, word: str) -> Work:
        """Is answered with this word of ``WORDS``, and with none of the others."""

    @abstractmethod
    def counting(self) -> Work:
        """Is answered with the numbers from 1 to 9, with spaces between."""

    @abstractmethod
    def failing(self) -> Work:
        """Fails after some text, and harms nothing else."""

    @abstractmethod
    def refused(self) -> Work:
        """Is refused before a word is said, and would be by any engine with this model."""

    def overloaded(self) -> Work:
        """Is sent away because the engine has too much to do."""
        raise NotImplementedError

    @abstractmethod
    def kill(self) -> None:
        """Make the engine die as in a crash."""

    async def revive(self) -> None:
        """Bring it back after ``kill``; an engine that restarts itself is only waited for."""
        await self.engine.start()

    def run(self, check: Callable[[], Awaitable[T]]) -> T:
        """Start the engine, check, stop it; a rig may share one that is slow to start."""

        async def whole() -> T:
            await self.engine.start()
            try:
                return await asyncio.wait_for(check(), self.patience)
            finally:
                await self.engine.stop()

        return asyncio.run(whole())


def run(rig: Rig, check: Callable[[], Awaitable[T]]) -> T:
    return rig.run(check)


async def answer(engine: Engine, work: Work) -> list[Delta]:
    return [delta async for delta in engine.generate(work)]


def text_in(deltas: Sequence[Delta]) -> str:
    return "".join(delta.text for delta in deltas if isinstance(delta, TextDelta))


def tokens_in(deltas: Sequence[Delta]) -> Tokens:
    last = deltas[-1]
    assert isinstance(last, Finished)
    return last.tokens


def so_far(deltas: Sequence[Delta]) -> SoFar:
    """What was said, with as many tokens as there are ids, or deltas."""
    parts = [each for each in deltas if not isinstance(each, Finished)]
    return SoFar(tuple(parts), sum(len(each.ids) for each in parts) or len(parts))


async def begun(engine: Engine, work: Work) -> asyncio.Task[list[Delta]]:
    """A task that reads an answer; returns once the engine has said something."""
    first = asyncio.Event()

    async def read() -> list[Delta]:
        deltas = []
        async for delta in engine.generate(work):
            deltas.append(delta)
            first.set()
        return deltas

    task = asyncio.create_task(read())
    await first.wait()
    return task


async def until_failure(engine: Engine, work: Work) -> tuple[list[Delta], EngineError]:
    """What was said before it failed, and how it failed."""
    said: list[Delta] = []
    try:
        async for delta in engine.generate(work):
            said.append(delta)  # noqa: PERF401 - what came before the failure counts
    except EngineError as error:
        return said, error
    raise AssertionError("it did not fail")


until = eventually_async
"""An engine may need a moment to notice."""


class _Suite:
    @pytest.fixture
    def rig(self) -> Rig:
        raise NotImplementedError


class EngineBasics(_Suite):
    """Promises that a real engine is held to at each change."""

    def test_an_answer_is_text_in_pieces_and_one_finish_at_the_end(self, rig: Rig) -> None:
        deltas = run(rig, lambda: answer(rig.engine, rig.short()))
        assert [each for each in deltas if isinstance(each, Finished)] == deltas[-1:]
        assert len([each for each in deltas if isinstance(each, TextDelta)]) > 1
        assert text_in(deltas).strip()

    def test_usage_adds_up(self, rig: Rig) -> None:
        deltas = run(rig, lambda: answer(rig.engine, rig.short()))
        tokens = tokens_in(deltas)
        assert 0 <= tokens.cached <= tokens.input
        assert 0 <= tokens.reasoning <= tokens.output
        assert tokens.input > 0
        assert tokens.output > 0

    @pytest.mark.parametrize(("stop", "last"), [("4", "3"), ("3 4", "2")])
    def test_an_answer_ends_before_a_stop_string(self, rig: Rig, stop: str, last: str) -> None:
        counting = rig.counting()
        work = replace(counting, sampling=replace(counting.sampling, stop=("never", stop)))
        deltas = run(rig, lambda: answer(rig.engine, work))
        assert text_in(deltas).rstrip().endswith(last)
        assert "4" not in text_in(deltas)
        assert isinstance(deltas[-1], Finished)
        assert deltas[-1].reason == "stop"

    def test_closing_the_answer_frees_its_slot(self, rig: Rig) -> None:
        async def check() -> None:
            stream = rig.engine.generate(rig.long())
            await anext(stream)
            assert rig.engine.running() == 1
            await stream.aclose()
            await until(lambda: rig.engine.running() == 0)

        run(rig, check)

    def test_cancelling_the_reader_frees_its_slot_and_leaves_the_others(self, rig: Rig) -> None:
        async def check() -> None:
            goes = await begun(rig.engine, rig.long())
            stays = await begun(rig.engine, rig.long())
            goes.cancel()
            await asyncio.wait([goes])
            assert goes.cancelled()
            await until(lambda: rig.engine.running() < 2)
            assert isinstance((await stays)[-1], Finished)
            await until(lambda: rig.engine.running() == 0)

        run(rig, check)

    def test_death_ends_every_answer_and_frees_every_slot(self, rig: Rig) -> None:
        async def check() -> None:
            tasks = [await begun(rig.engine, rig.long()) for _ in range(3)]
            rig.kill()
            for ended in await asyncio.gather(*tasks, return_exceptions=True):
                assert isinstance(ended, EngineDied)
            await until(lambda: rig.engine.healthy() != rig.knows_its_health)
            assert rig.engine.running() == 0

        run(rig, check)


class EngineDetails(_Suite):
    # -- answers ----------------------------------------------------------------------------------

    @pytest.mark.parametrize("limit", [1, 7])
    def test_an_answer_stops_at_its_limit(self, rig: Rig, limit: int) -> None:
        long = rig.long()
        work = replace(long, sampling=replace(long.sampling, max_tokens=limit))
        last = run(rig, lambda: answer(rig.engine, work))[-1]
        assert isinstance(last, Finished)
        assert (last.reason, last.tokens.output) == ("length", limit)

    def test_a_short_answer_stops_by_itself(self, rig: Rig) -> None:
        last = run(rig, lambda: answer(rig.engine, rig.short()))[-1]
        assert isinstance(last, Finished)
        assert last.reason == "stop"

    def test_answers_given_at_the_same_time_are_not_mixed_up(self, rig: Rig) -> None:
        async def check() -> None:
            works = [replace(rig.echo(word), id=f"resp_{word}") for word in WORDS]
            together = await asyncio.gather(*(answer(rig.engine, work) for work in works))
            for word, deltas in zip(WORDS, together, strict=True):
                text = text_in(deltas).lower()
                assert [each for each in WORDS if each in text] == [word]

        run(rig, check)

    def test_a_slow_reader_gets_all_of_it(self, rig: Rig) -> None:
        async def check() -> None:
            prompt = rig.long()
            quick = await answer(rig.engine, prompt)
            deltas = []
            async with aclosing(rig.engine.generate(prompt)) as stream:
                deltas.append(await anext(stream))
                if rig.joins_for_slow_readers:
                    await until(lambda: rig.engine.running() == 0)
                else:
                    await answer(rig.engine, prompt)  # in the time in which it could have ended
                    assert rig.engine.running() == 1
                deltas += [delta async for delta in stream]
            assert tokens_in(deltas).output == tokens_in(quick).output
            assert text_in(deltas) == text_in(quick) or not rig.repeats_itself
            if rig.joins_for_slow_readers:
                assert len(deltas) < tokens_in(quick).output / 2
            else:
                assert len(deltas) >= len(quick) / 2

        run(rig, check)

    # -- warm-up and cache ------------------------------------------------------------------------

    def test_a_warm_up_says_nothing_and_makes_the_next_prompt_cached(self, rig: Rig) -> None:
        async def check() -> None:
            warm = await answer(rig.engine, replace(rig.short(), generate=False))
            assert len(warm) == 1
            assert warm[0] == Finished("stop", tokens_in(warm))  # it is whole, not cut off
            assert tokens_in(warm).output == 0
            assert tokens_in(await answer(rig.engine, rig.short())).cached > 0

        run(rig, check)

    def test_nobody_profits_from_what_another_owner_cached(self, rig: Rig) -> None:
        async def check() -> None:
            await answer(rig.engine, replace(rig.short(), owner="one"))
            other = await answer(rig.engine, replace(rig.short(), owner="other"))
            assert (tokens_in(other).cached == 0) == rig.isolates_owners

        run(rig, check)

    # -- slots ------------------------------------------------------------------------------------

    def test_running_counts_those_that_hold_a_slot(self, rig: Rig) -> None:
        async def check() -> None:
            assert rig.engine.running() == 0
            tasks = [await begun(rig.engine, rig.long()) for _ in range(2)]
            assert rig.engine.running() == 2
            await asyncio.gather(*tasks)
            await until(lambda: rig.engine.running() == 0)

        run(rig, check)

    def test_a_slot_that_was_freed_can_be_used_again(self, rig: Rig) -> None:
        async def check() -> None:
            for _ in range(20):
                async with aclosing(rig.engine.generate(rig.long())) as stream:
                    await anext(stream)
            assert text_in(await answer(rig.engine, rig.short()))

        run(rig, check)

    def test_what_an_aborted_answer_took_is_known(self, rig: Rig) -> None:
        async def check() -> None:
            work = rig.long()
            async with aclosing(rig.engine.generate(work)) as stream:
                for _ in range(5):
                    await anext(stream)
            assert work.tally.output >= 4
            whole = rig.long()
            tokens = tokens_in(await answer(rig.engine, whole))
            assert tokens.output / 2 <= whole.tally.output <= tokens.output * 2
            assert whole.tally.input in (0, tokens.input)
            assert whole.tally.cached in (0, tokens.cached)

        run(rig, check)

    # -- failure and death ------------------------------------------------------------------------

    def test_a_failure_in_mid_stream_ends_that_answer_only(self, rig: Rig) -> None:
        if not rig.can_fail:
            pytest.skip("nothing makes a single answer of this engine fail in mid-stream")

        async def check() -> None:
            other = await begun(rig.engine, rig.long())
            said, error = await until_failure(rig.engine, rig.failing())
            assert text_in(said)
            assert not isinstance(error, EngineDied)
            assert not any(isinstance(delta, Finished) for delta in said)
            assert rig.engine.healthy()
            assert isinstance((await other)[-1], Finished)
            await until(lambda: rig.engine.running() == 0)

        run(rig, check)

    def test_what_is_refused_is_nobodys_fault_but_its_own(self, rig: Rig) -> None:
        async def check() -> None:
            said, error = await until_failure(rig.engine, rig.refused())
            assert said == []
            assert isinstance(error, EngineRefused)
            assert (error.elsewhere, error.blame) == (False, "never")
            assert rig.engine.healthy()
            assert text_in(await answer(rig.engine, rig.short()))

        run(rig, check)

    def test_an_engine_with_too_much_to_do_says_when_to_come_back(self, rig: Rig) -> None:
        if not rig.can_be_busy:
            pytest.skip("this engine lets work wait")

        async def check() -> None:
            said, error = await until_failure(rig.engine, rig.overloaded())
            assert said == []
            assert isinstance(error, EngineBusy)
            assert (error.elsewhere, error.blame) == (True, "never")
            assert error.retry_after is not None
            assert error.retry_after > 0

        run(rig, check)

    def test_a_dead_engine_refuses_work_until_it_is_back(self, rig: Rig) -> None:
        async def check() -> None:
            rig.kill()
            await until(lambda: rig.engine.healthy() != rig.knows_its_health)
            with pytest.raises(EngineDied):
                await answer(rig.engine, rig.short())
            await rig.revive()
            assert rig.engine.healthy()
            assert text_in(await answer(rig.engine, rig.short()))

        run(rig, check)

    def test_stopping_ends_what_still_runs(self, rig: Rig) -> None:
        async def check() -> None:
            task = await begun(rig.engine, rig.long())
            await rig.engine.stop()
            with pytest.raises(EngineError):
                await task
            assert rig.engine.running() == 0

        run(rig, check)

    # -- going on from what another has said ------------------------------------------------------

    @pytest.mark.parametrize("stop", [(), ("7 8",)], ids=["to its end", "to a stop string"])
    def test_an_answer_that_was_cut_anywhere_is_gone_on_with(
        self, rig: Rig, stop: tuple[str, ...]
    ) -> None:
        async def check() -> None:
            counting = rig.counting()
            work = replace(counting, sampling=replace(counting.sampling, stop=stop))
            whole = await answer(rig.engine, work)
            for cut in range(1, len(whole)):
                limit = work.sampling.max_tokens
                said = so_far(whole[:cut])
                left = replace(work.sampling, max_tokens=limit and limit - said.tokens)
                other = replace(work, id=f"cut-{cut}", said=said, sampling=left, tally=Tally())
                if rig.engine.continues == "no":
                    with pytest.raises(CannotContinue):
                        await answer(rig.engine, other)
                    return
                rest = await answer(rig.engine, other)
                assert text_in(whole[:cut]) + text_in(rest) == text_in(whole)
                assert tokens_in(rest).output <= tokens_in(whole).output - said.tokens + 1

        run(rig, check)

    def test_ids_are_those_of_all_tokens_where_an_engine_goes_on_from_them(self, rig: Rig) -> None:
        if rig.engine.continues != "ids":
            pytest.skip("this engine has none")
        deltas = run(rig, lambda: answer(rig.engine, rig.counting()))
        known = sum(len(each.ids) for each in deltas if not isinstance(each, Finished))
        assert known in (tokens_in(deltas).output, tokens_in(deltas).output - 1)  # but for the end

    # -- counting ---------------------------------------------------------------------------------

    def test_nothing_counts_nothing(self, rig: Rig) -> None:
        assert rig.engine.count([], rig.short().model) == 0

    @pytest.mark.parametrize("kind", range(8))
    def test_long_items_of_every_kind_count(self, rig: Rig, kind: int) -> None:
        model, text = rig.short().model, "some words " * 400
        short, long = (_items(each)[kind] for each in ("x", text))
        assert rig.engine.count([long], model) > rig.engine.count([short], model) + 200

    def test_the_count_is_never_far_too_small(self, rig: Rig) -> None:
        work = rig.short()
        assert isinstance(work.prompt, Chat)
        estimate = rig.engine.count(work.prompt.items, work.model)
        tokens = tokens_in(run(rig, lambda: answer(rig.engine, work)))
        assert estimate * 2 >= tokens.input


class EngineSuite(EngineBasics, EngineDetails):
    """All of it."""


def _items(text: str) -> list[Item]:
    return [
        Message(role="user", content=text),
        Message(role="user", content=[InputText(text)]),
        FunctionCall(call_id="c", name="f", arguments=text),
        FunctionCallOutput(call_id="c", output=text),
        CustomToolCall(call_id="c", name="f", input=text),
        CustomToolCallOutput(call_id="c", output=[InputText(text)]),
        Reasoning(content=[ReasoningText(text)]),
        AdditionalTools(tools=[FunctionTool("f", text)]),
    ]

"""What every engine must do that knows thoughts from answers.

A test module plugs an engine in by a subclass of ``ThinkingSuite`` that overrides ``thinker``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import TypeVar

import pytest
from msgspec.structs import replace

from tests.engines.suite import answer, text_in, tokens_in, until
from vivace.conversation.deltas import Delta, Finished, ReasoningDelta
from vivace.engines.base import Chat, Engine, Thoughts, Work

__all__ = ["TEMPLATE", "Thinker", "ThinkingSuite", "thoughts_in"]

T = TypeVar("T")

TEMPLATE = Path(__file__).parents[1] / "support" / "thinking.jinja"
"""A chat template that opens thoughts, for a model that was never taught to think: it takes what it
writes for thoughts, and never closes them."""


class Thinker(ABC):
    engine: Engine
    heeds_effort = True
    """Else what it says is fixed beforehand."""

    @abstractmethod
    def ponders(self) -> Work:
        """Is answered after thoughts of more than ten tokens, within its limit."""

    @abstractmethod
    def run(self, check: Callable[[], Awaitable[T]]) -> T: ...


def thoughts_in(deltas: Sequence[Delta]) -> str:
    return "".join(delta.text for delta in deltas if isinstance(delta, ReasoningDelta))


async def some_thoughts(engine: Engine, work: Work) -> str:
    """The first ten deltas; then it is broken off."""
    said: list[Delta] = []
    async with aclosing(engine.generate(work)) as stream:
        async for delta in stream:
            said.append(delta)
            if len(said) == 10:
                break
    assert len(said) == 10
    assert text_in(said) == ""
    return thoughts_in(said)


class ThinkingSuite:
    @pytest.fixture
    def thinker(self) -> Thinker:
        raise NotImplementedError

    def test_thoughts_come_first_and_are_no_text(self, thinker: Thinker) -> None:
        deltas = thinker.run(lambda: answer(thinker.engine, thinker.ponders()))
        assert isinstance(deltas[0], ReasoningDelta)
        assert isinstance(deltas[-1], Finished)
        assert "think>" not in thoughts_in(deltas) + text_in(deltas)

    def test_without_effort_there_are_no_thoughts(self, thinker: Thinker) -> None:
        if not thinker.heeds_effort:
            pytest.skip("a script does not depend on the effort")
        work = thinker.ponders()
        assert isinstance(work.prompt, Chat)
        work = replace(work, prompt=replace(work.prompt, effort="none"))
        deltas = thinker.run(lambda: answer(thinker.engine, work))
        assert thoughts_in(deltas) == ""
        assert text_in(deltas).strip()

    def test_thinking_that_was_ended_is_followed_by_the_answer(self, thinker: Thinker) -> None:
        async def check() -> None:
            work = thinker.ponders()
            thoughts = await some_thoughts(thinker.engine, work)
            await until(lambda: thinker.engine.running() == 0)
            assert work.tally.output >= 9
            rest = replace(work, thoughts=Thoughts(thoughts, work.tally.trace))
            deltas = await answer(thinker.engine, rest)
            assert thoughts_in(deltas) == ""
            assert text_in(deltas).strip()
            assert "think>" not in text_in(deltas)
            tokens = tokens_in(deltas)
            assert tokens.cached > 0
            await until(lambda: thinker.engine.running() == 0)

        thinker.run(check)

    def test_thoughts_of_another_engine_are_gone_on_from_too(self, thinker: Thinker) -> None:
        async def check() -> None:
            work = replace(thinker.ponders(), thoughts=Thoughts("The user asks.\nI know it."))
            deltas = await answer(thinker.engine, work)
            assert thoughts_in(deltas) == ""
            assert text_in(deltas).strip()

        thinker.run(check)

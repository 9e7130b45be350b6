"""Try a real vLLM at each change: an answer, an abort and a draft, on one engine.

Run with ``scripts/test-vllm``; ``test_vllm`` and others have the rest, for a release.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import aclosing

import pytest

from tests.engines.suite import answer, text_in, tokens_in, until
from tests.engines.test_vllm_edits import ASK, Edits
from tests.support.vllm import CARD, needs_vllm
from vivace.conversation.deltas import Finished
from vivace.engines.base import Chat, Sampling, Work
from vivace.protocol.items import Message

pytestmark = [needs_vllm, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def edits() -> Iterator[Edits]:
    running = Edits("edits")
    yield running
    running.close()


def work(text: str, tokens: int) -> Work:
    prompt = Chat(items=[Message(id=f"m-{text}", role="user", content=text)])
    sampling = Sampling(temperature=0, max_tokens=tokens)
    return Work(id=f"resp_{text}", model=CARD.name, prompt=prompt, sampling=sampling)


def test_an_answer_that_is_broken_off_frees_its_slot_and_another_is_answered(edits: Edits) -> None:
    engine = edits.engine

    async def check() -> None:
        broken = work("Count from one to two hundred.", 400)
        async with aclosing(engine.generate(broken)) as stream:
            await anext(stream)
            assert engine.running() == 1
        await until(lambda: engine.running() == 0)
        core = engine._engine.output_processor
        assert core.get_num_unfinished_requests() == 0
        assert broken.tally.output < 100
        deltas = await answer(engine, work("What is 2+2?", 12))
        assert "4" in text_in(deltas)
        assert isinstance(deltas[-1], Finished)
        tokens = tokens_in(deltas)
        assert tokens.input > 0
        assert 0 < tokens.output <= 12

    edits.run(asyncio.wait_for(check(), 600))


def test_code_in_the_conversation_is_copied_many_tokens_at_a_time(edits: Edits) -> None:
    copied = edits.ask(ASK, tokens=60)
    assert "def function_1(value):" in copied.text
    assert copied.deltas * 3 < copied.tokens.output
    assert 0 < copied.tokens.accepted < copied.tokens.output

"""Thoughts and answers on the scripted engine and the real llama.cpp; test_vllm.py has vLLM's."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from typing import TypeVar
from unittest import mock

import pytest

from tests.engines.suite import answer, text_in
from tests.engines.thinking_suite import TEMPLATE, Thinker, ThinkingSuite, thoughts_in
from tests.support.files import model_file
from tests.support.waiting import PATIENCE_S
from vivace.engines.base import Card, Chat, Sampling, Work
from vivace.engines.llamacpp import LlamaCppEngine
from vivace.engines.scripted import Reply, Say, Script, ScriptedEngine, Think
from vivace.protocol.items import Item, Message, Reasoning, ReasoningText
from vivace.protocol.requests import JsonSchemaFormat

T = TypeVar("T")
MODEL = "qwen2.5-coder-0.5b"


def ask(text: str, tokens: int = 24) -> Work:
    sampling = Sampling(temperature=0, max_tokens=tokens, seed=1)
    chat = Chat(items=[Message(role="user", content=text)])
    return Work(id="r", model=MODEL, prompt=chat, sampling=sampling)


class ScriptedThinker(Thinker):
    heeds_effort = False

    def __init__(self) -> None:
        reply = Reply(then=(Think("one two three " * 10), Say("Yes.")))
        self.engine = ScriptedEngine("e", [Card(MODEL, 1000)], Script((reply,)))

    def ponders(self) -> Work:
        return ask("Well?", tokens=400)

    def run(self, check: Callable[[], Awaitable[T]]) -> T:
        async def whole() -> T:
            return await asyncio.wait_for(check(), PATIENCE_S)

        return asyncio.run(whole())


class TestScripted(ThinkingSuite):
    @pytest.fixture
    def thinker(self) -> Thinker:
        return ScriptedThinker()


class LlamaThinker(Thinker):
    def __init__(self) -> None:
        pytest.importorskip("xllamacpp", reason="run: pip install 'vivace[llamacpp]'")
        with mock.patch("vivace.engines.llamacpp.usable_cpus", return_value=1):
            self.engine: LlamaCppEngine = LlamaCppEngine(
                "llama", Card(MODEL, 1024), model_file(MODEL), slots=2, template=TEMPLATE
            )
        self._runner = asyncio.Runner()
        self._runner.run(self.engine.start())

    def ponders(self) -> Work:
        return ask("What is 17 times 3? Explain each step.")

    def run(self, check: Callable[[], Awaitable[T]]) -> T:
        async def whole() -> T:
            return await asyncio.wait_for(check(), 4 * PATIENCE_S)

        return self._runner.run(whole())

    def close(self) -> None:
        self._runner.run(self.engine.stop())
        self._runner.close()


@pytest.fixture(scope="module")
def llama() -> Iterator[LlamaThinker]:
    thinker = LlamaThinker()
    yield thinker
    thinker.close()


@pytest.mark.release
@pytest.mark.alone
class TestLlamaCpp(ThinkingSuite):
    @pytest.fixture
    def thinker(self, llama: LlamaThinker) -> Thinker:
        return llama


@pytest.mark.release
@pytest.mark.alone
def test_llamacpp_is_shown_earlier_thoughts(llama: LlamaThinker) -> None:
    def asked(*thoughts: Reasoning) -> Work:
        items: list[Item] = [
            Message(role="user", content="What is 17 times 3?"),
            *thoughts,
            Message(role="assistant", content="51."),
            Message(role="user", content="And times 4?"),
        ]
        sampling = Sampling(temperature=0, max_tokens=1)
        return Work(id="r", model=MODEL, prompt=Chat(items=items), sampling=sampling)

    async def check() -> tuple[int, int]:
        long = Reasoning(content=[ReasoningText("three times seventeen " * 8)])
        read = []
        for work in (asked(), asked(long)):
            await answer(llama.engine, work)
            read.append(work.tally.input)
        return read[0], read[1]

    without, with_thoughts = llama.run(check)
    assert with_thoughts > without + 20


@pytest.mark.release
@pytest.mark.alone
def test_llamacpp_holds_an_answer_to_its_form_when_it_does_not_think(llama: LlamaThinker) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    chat = Chat(
        items=[Message(role="user", content="What is 2 + 2? Answer in JSON.")],
        format=JsonSchemaFormat(name="sum", schema=schema),
        effort="none",
    )
    sampling = Sampling(temperature=0, max_tokens=40)
    work = Work(id="r", model=MODEL, prompt=chat, sampling=sampling)
    deltas = llama.run(lambda: answer(llama.engine, work))
    assert thoughts_in(deltas) == ""
    assert isinstance(json.loads(text_in(deltas))["a"], int)

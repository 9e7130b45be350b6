"""Words by which one can tell who said them, and whether all of them were said."""

from __future__ import annotations

import asyncio

from chaos.marks import MARK, broken_off

from vivace.conversation.deltas import Delta, TextDelta
from vivace.engines.base import Card, Chat, Work
from vivace.engines.scripted import Capacity, Mark, Reply, Script, ScriptedEngine
from vivace.protocol.items import Message

MODEL = "m"


def engine(words: int) -> ScriptedEngine:
    script = Script((Reply(then=(Mark(words),)),))
    return ScriptedEngine("e", [Card(MODEL, 1000)], script, Capacity(rate=1e5))


def answer(one: ScriptedEngine, text: str = "hello", attempt: int = 1) -> list[str]:
    async def play() -> list[Delta]:
        await one.start()
        prompt = Chat(items=[Message(role="user", content=text)])
        work = Work(id="r", model=MODEL, prompt=prompt, attempt=attempt)
        return [delta async for delta in one.generate(work)]

    return [delta.text for delta in asyncio.run(play()) if isinstance(delta, TextDelta)]


def test_each_word_is_a_delta_that_says_where_it_stands() -> None:
    said = answer(engine(3), attempt=2)
    marks = [MARK.search(text) for text in said]
    assert [mark and mark["index"] for mark in marks] == ["0", "1", "2"]
    assert {mark and mark["attempt"] for mark in marks} == {"2"}
    assert broken_off("".join(said)) is None


def test_another_start_and_another_question_are_told_apart() -> None:
    one = engine(1)
    [first], [again], [other] = answer(one), answer(one), answer(one, "goodbye")
    was, now, else_ = (MARK.search(text) for text in (first, again, other))
    assert was
    assert now
    assert else_
    assert was["marker"] == now["marker"] != else_["marker"]
    assert was["engine"] != now["engine"]


def test_an_engine_that_goes_on_for_another_is_seen_to() -> None:
    first, second = answer(engine(4)), answer(engine(4), attempt=2)
    assert broken_off("".join(first[:2] + second[2:])) is None
    assert broken_off("".join(first[:2] + second[1:])) is not None
    assert broken_off("".join(first[:2] + second[3:])) is not None

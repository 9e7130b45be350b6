"""Answers gone on with as raw text."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.engines.endpoint import Endpoint, stream, usage
from tests.engines.test_continuing import joined
from vivace.conversation.deltas import Delta, Finished, ReasoningDelta, TextDelta, Tokens
from vivace.conversation.so_far import SoFar
from vivace.engines.base import Card, Chat, Sampling, Work
from vivace.engines.openai import OpenAIEngine
from vivace.engines.raw_text import RawReading, raw
from vivace.engines.thinking import MARKS, ThoughtSplitter
from vivace.errors import CannotContinue
from vivace.models import Fim
from vivace.protocol.items import Message
from vivace.protocol.requests import Fill

END = Finished("stop", Tokens())


@pytest.mark.parametrize(
    ("prompt", "deltas", "text"),
    [
        ("p:", [TextDelta("a"), TextDelta("b")], "p:ab"),
        ("p:", [ReasoningDelta("hm")], "p:<think>\nhm"),
        ("p:<think>\n", [ReasoningDelta("hm")], "p:<think>\nhm"),
        ("p:", [ReasoningDelta("hm"), TextDelta("a")], "p:<think>\nhm\n</think>\n\na"),
        ("p:<think>\n\n</think>\n\n", [TextDelta("a")], "p:<think>\n\n</think>\n\na"),
    ],
)
def test_what_was_said_stands_behind_the_prompt_as_the_model_wrote_it(
    prompt: str, deltas: list[Delta], text: str
) -> None:
    assert raw(prompt, SoFar(tuple(deltas), 1), MARKS) == text


def read(said: SoFar, *pieces: str) -> list[Delta]:
    return [*RawReading(said, MARKS).read([*map(TextDelta, pieces), END])]


def test_thoughts_that_had_not_ended_go_on_as_thoughts() -> None:
    said = SoFar((ReasoningDelta("hm"),), 1)
    rest = read(said, ", well", ".\n</thi", "nk>\n\nSo", " be it")
    assert joined(rest) == [(ReasoningDelta, ", well."), (TextDelta, "So be it")]
    assert rest[-1] == END


def test_a_mark_within_the_answer_is_text() -> None:
    said = SoFar((ReasoningDelta("hm"), TextDelta("So")), 2)
    assert joined(read(said, " <think> is a mark")) == [(TextDelta, " <think> is a mark")]


line = st.text("ab\n ", min_size=1, max_size=8)


@given(line, line, st.data())
def test_thoughts_that_are_cut_anywhere_are_told_once(
    thought: str, text: str, data: st.DataObject
) -> None:
    written = f"<think>\n{thought}\n</think>\n\n{text}"
    splitter = ThoughtSplitter()
    whole = [*splitter.feed(written), *splitter.rest()]
    thoughts = [each for each in whole if isinstance(each, ReasoningDelta)]
    if not thoughts:
        return
    at = data.draw(st.integers(1, len(thoughts[0].text)))
    said = SoFar((ReasoningDelta(thoughts[0].text[:at]),), 1)
    opened = raw("", said, MARKS)
    behind = f"<think>\n{thought.lstrip(chr(10))}\n</think>\n\n{text}"
    assert behind.startswith(opened)
    rest = read(said, behind[len(opened) :])
    assert joined([*said.deltas, *rest]) == joined(whole)


# -- as llama.cpp's server is asked ---------------------------------------------------------------

FIM = Fim(prefix="<P>", suffix="<S>", middle="<M>")
SAID = SoFar((TextDelta("The ans"), TextDelta("wer")), 3)


def piece(text: str, reason: str | None = None) -> dict[str, Any]:
    return {"choices": [{"text": text, "finish_reason": reason}]}


def gone_on(endpoint: Endpoint, work: Work, **options: Any) -> list[Delta]:
    async def body() -> AsyncIterator[bytes]:
        if endpoint.paths[-1] == "/apply-template":
            yield b'{"prompt": "<user>Go<assistant>"}'
        else:
            yield stream(piece(" is"), piece(" 42.", "stop"), usage(9, 2))

    async def read() -> list[Delta]:
        engine = OpenAIEngine("e", Card("m", 999), endpoint.url, **options)
        try:
            return [delta async for delta in engine.generate(work)]
        finally:
            await engine.stop()

    endpoint.streams(body)
    return asyncio.run(read())


def test_a_conversation_is_written_by_its_template_and_gone_on_with_as_text() -> None:
    chat = Chat(items=(Message(role="user", content="Go"),))
    work = Work(id="w", model="m", prompt=chat, said=SAID, sampling=Sampling(max_tokens=7))
    with Endpoint() as endpoint:
        deltas = gone_on(endpoint, work, llamacpp=True)
        assert endpoint.paths == ["/apply-template", "/v1/completions"]
        template, completion = endpoint.asked
    assert template["messages"] == [{"role": "user", "content": "Go"}]
    assert completion["prompt"] == "<user>Go<assistant>The answer"
    assert (completion["max_tokens"], "messages" in completion) == (7, False)
    assert deltas == [
        TextDelta(" is"),
        TextDelta(" 42."),
        Finished("stop", Tokens(input=9, output=2)),
    ]


@pytest.mark.parametrize("suffix", [None, "after"])
def test_a_gap_is_gone_on_with_behind_what_was_filled_in(suffix: str | None) -> None:
    fill = Fill(prefix="before", suffix=suffix)
    work = Work(id="w", model="m", prompt=fill, said=SAID)
    with Endpoint() as endpoint:
        gone_on(endpoint, work, llamacpp=True, fim=FIM)
        assert endpoint.paths == ["/v1/completions"]
        assert endpoint.asked[0]["prompt"].endswith("The answer")


def test_an_endpoint_of_another_kind_is_not_asked() -> None:
    work = Work(id="w", model="m", prompt=Chat(items=()), said=SAID)
    with Endpoint() as endpoint:
        with pytest.raises(CannotContinue):
            gone_on(endpoint, work)
        assert endpoint.paths == []

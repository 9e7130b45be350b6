"""Answers gone on with as raw text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.engines.test_continuing import joined
from vivace.conversation.deltas import Delta, Finished, ReasoningDelta, TextDelta, Tokens
from vivace.conversation.so_far import SoFar
from vivace.engines.raw_text import RawReading, raw
from vivace.engines.thinking import MARKS, ThoughtSplitter

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

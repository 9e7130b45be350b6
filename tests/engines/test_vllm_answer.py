"""Answers of vLLM's that are gone on with elsewhere: what is read, without vLLM itself.

Tokens are bytes here, so that a character may be many of them.
"""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.engines.suite import so_far
from tests.engines.test_continuing import joined
from vivace.conversation.deltas import CallOpened, CallText, Delta, ReasoningDelta, TextDelta
from vivace.conversation.so_far import SoFar, Strayed
from vivace.engines.base import Chat, Work
from vivace.engines.stop_strings import StopStrings
from vivace.engines.thinking import ThoughtSplitter
from vivace.engines.token_chain import Prompt
from vivace.engines.vllm_answer import Answer, Trace
from vivace.engines.vllm_reading import PlainReading, Reading

END = 0
"""The token that ends an answer."""


class Bytes:
    """Whole characters of the bytes that came."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")()

    def read(self, tokens: Sequence[int]) -> str:
        return self._decoder.decode(bytes(tokens))


class Template:
    def words_after(self, prompt: Sequence[int], *, special: bool) -> Bytes:
        return Bytes()


def reading(stop: Sequence[str], said: SoFar | None) -> Reading:
    plain = PlainReading.__new__(PlainReading)  # the rest of it imports vLLM
    plain.sampling = SimpleNamespace(
        stop=list(stop),
        structured_outputs=None,
        skip_special_tokens=True,
        spaces_between_special_tokens=True,
        detokenize=True,
    )
    plain._splitter = ThoughtSplitter()
    if said is not None:
        assert plain.go_on()
    plain.decode(Template(), [])  # type: ignore[arg-type]
    return plain


class Vllm:
    """Brings tokens in pieces; text itself only where it has to look for stop strings, and then it
    holds back as much as may begin one."""

    def __init__(self, text: str, stop: Sequence[str], after: Sequence[int] = ()) -> None:
        self._tokens = [*text.encode()[len(after) :], END]
        self._stop = stop
        self._decoder = Bytes()
        self._held = ""
        self._stops = StopStrings(stop)

    def outputs(self, sizes: Sequence[int]) -> list[Any]:
        left = list(self._tokens)
        found = []
        for size in [*sizes, len(left)]:
            piece, left = left[:size], left[size:]
            if not piece:
                continue
            ended = piece[-1] == END
            text = self._text(piece[:-1] if ended else piece, ended) if self._stop else ""
            stopped = bool(self._stop) and self._stops.reached
            reason = "stop" if ended or stopped else None
            one = SimpleNamespace(
                token_ids=piece,
                text=text,
                finish_reason=reason,
                stop_reason=self._stop[0] if stopped else None,
            )
            found.append(SimpleNamespace(outputs=[one], finished=reason is not None))
            if reason:
                break
        return found

    def _text(self, tokens: Sequence[int], ended: bool) -> str:
        whole = self._held + self._stops.feed(self._decoder.read(tokens))
        if ended:
            whole += self._stops.rest()
        keeps = 0 if ended or self._stops.reached else max(map(len, self._stop)) - 1
        self._held = whole[len(whole) - keeps :] if keeps else ""
        return whole[: len(whole) - keeps] if keeps else whole


def answer(text: str, stop: Sequence[str], sizes: Sequence[int], said: SoFar | None) -> list[Delta]:
    known = (said.ids or []) if said is not None else []
    work = Work(id="w", model="m", prompt=Chat(items=()), said=said)
    read = reading(stop, said)
    one = Answer(Trace(Prompt([], "", 0, None), {}), read, work)
    found = [delta for deltas in one.repeat() for delta in deltas]
    engine = Vllm(text, read.sampling.stop, known)
    for output in engine.outputs(sizes):
        found += one.read(output)
        if read.reached:
            break
    one.end()
    return found


texts = st.text("ab\n \u00e9\U0001f600", max_size=30)
answers = st.builds(
    lambda thought, text: f"<think>\n{thought}\n</think>\n\n{text}" if thought else text,
    st.one_of(st.none(), texts),
    texts,
)
sizes = st.lists(st.integers(1, 7), max_size=40)


@given(answers, st.sampled_from([(), ("ab",), ("b \n", "\u00e9a")]), sizes, sizes, st.data())
def test_what_is_cut_anywhere_goes_on_as_if_it_had_not_been(
    text: str, stop: tuple[str, ...], some: list[int], others: list[int], data: st.DataObject
) -> None:
    whole = answer(text, stop, some, None)
    said = so_far(whole[: data.draw(st.integers(0, len(whole)))])
    if not said.deltas:
        return
    rest = answer(text, stop, others, said)
    assert joined([*said.deltas, *rest]) == joined(whole)
    again = so_far([*said.deltas, *rest[: data.draw(st.integers(0, len(rest)))]])
    last = answer(text, stop, some, again)
    assert joined([*again.deltas, *last]) == joined(whole)


def test_what_was_said_in_other_tokens_is_found_out() -> None:
    said = SoFar((TextDelta("ab", ids=tuple(b"xy")),), 2)
    with pytest.raises(Strayed):
        answer("xyz", (), [], said)


def test_an_answer_that_ends_before_what_was_said_is_found_out() -> None:
    said = SoFar((TextDelta("abc", ids=tuple(b"a")),), 1)
    with pytest.raises(Strayed):
        answer("ab", (), [], said)


def test_tokens_that_say_nothing_yet_come_with_what_they_become() -> None:
    smile = "\U0001f600".encode()
    deltas = answer("a\U0001f600", (), [1, 1, 1, 1, 1], None)
    assert deltas == [TextDelta("a", ids=(97,)), TextDelta("\U0001f600", ids=tuple(smile))]


def test_what_is_remembered_of_it_is_as_if_one_had_said_it_all() -> None:
    text = "<think>\nhm\n</think>\n\nso"
    whole = answer(text, (), [1] * 40, None)
    said = so_far(whole[:2])
    one = Answer(
        Trace(Prompt([], "", 0, None), {}),
        reading((), said),
        Work(id="w", model="m", prompt=Chat(items=()), said=said),
    )
    assert [each for deltas in one.repeat() for each in deltas] == []
    for output in Vllm(text, (), said.ids or []).outputs([1] * 40):
        one.read(output)
    assert one.trace.generated == [*text.encode(), END]
    assert (one.items, one.kind) == (2, TextDelta)
    assert one.new == len(text) + 1 - said.tokens


class Parsed(Reading):
    """Makes a call of what stands between brackets, with an id that is new each time."""

    count = 0

    def __init__(self) -> None:
        self.sampling = SimpleNamespace(stop=[], structured_outputs=None)
        self._words = Bytes()  # type: ignore[assignment]
        self._open = False

    def read(self, output: Any) -> Any:
        for letter in self.text(output.outputs[0]):
            if letter in "[]":
                self._open = letter == "["
                if self._open:
                    Parsed.count += 1
                    yield CallOpened("f", call_id=f"call_{Parsed.count}")
            else:
                yield CallText(letter) if self._open else TextDelta(letter)


def test_the_id_of_a_call_is_the_one_that_was_said() -> None:
    text = "so[{}]and[{1}]"
    whole: list[Delta] = []
    for cut in range(9):
        said = so_far(whole[:cut]) if whole else None
        one = Answer(
            Trace(Prompt([], "", 0, None), {}),
            Parsed(),
            Work(id="w", model="m", prompt=Chat(items=()), said=said),
        )
        rest = [each for deltas in one.repeat() for each in deltas]
        for output in Vllm(text, (), (said.ids or []) if said else []).outputs([1] * 20):
            rest += one.read(output)
        if said is not None:
            assert not any(isinstance(each, ReasoningDelta) for each in rest)
            assert joined([*said.deltas, *rest]) == joined(whole)
            ids = [each.call_id for each in said.deltas if isinstance(each, CallOpened)]
            assert len(ids) + sum(isinstance(each, CallOpened) for each in rest) == 2
        else:
            whole = rest


def test_of_deltas_that_come_together_the_first_has_the_tokens() -> None:
    """So that whoever has only that one knows what the others are made from."""
    text = "<think>\nhm\n</think>\n\nso"
    first, second = answer(text, (), [len(text)], None)
    assert first == ReasoningDelta("hm", ids=tuple(text.encode()))
    assert second == TextDelta("so")
    assert answer(text, (), [], so_far([first])) == [second]

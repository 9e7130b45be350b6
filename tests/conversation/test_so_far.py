"""What was said of a turn, and is said again by who goes on with it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vivace.conversation.deltas import (
    CallOpened,
    CallText,
    Delta,
    Finished,
    ReasoningDelta,
    TextDelta,
    Tokens,
)
from vivace.conversation.so_far import Repetition, SoFar, Strayed

letters = st.text("ab", max_size=6)
items = st.lists(
    st.one_of(
        st.builds(TextDelta, letters.filter(bool)),
        st.builds(ReasoningDelta, letters.filter(bool)),
        st.builds(
            lambda name, text: (CallOpened(name, call_id="x"), CallText(text)), letters, letters
        ),
    ),
    max_size=5,
)


def flat(drawn: Iterable[object]) -> list[Delta]:
    return [one for each in drawn for one in (each if isinstance(each, tuple) else (each,))]


@st.composite
def cut(draw: st.DrawFn, deltas: Sequence[Delta]) -> list[Delta]:
    """The same in other pieces, and with other ids of calls."""
    pieces: list[Delta] = []
    for delta in deltas:
        if isinstance(delta, CallOpened):
            pieces.append(CallOpened(delta.name, call_id=draw(st.sampled_from("yz"))))
        elif not isinstance(delta, Finished):
            at = draw(st.integers(0, len(delta.text)))
            pieces += [type(delta)(text) for text in (delta.text[:at], delta.text[at:]) if text]
    return pieces


def told(deltas: Iterable[Delta]) -> list[tuple[type, str]]:
    whole: list[tuple[type, str]] = []
    for kind, group in groupby(deltas, type):
        if kind is CallOpened:
            whole += [(kind, one.name) for one in group if isinstance(one, CallOpened)]
        else:
            texts = "".join(getattr(one, "text", "") for one in group)
            whole += [(kind, texts)] if texts else []
    return whole


@given(items.map(flat), st.data())
def test_what_was_said_is_not_said_again_and_nothing_else_is_lost(
    whole: list[Delta], data: st.DataObject
) -> None:
    pieces = data.draw(cut(whole))
    said = pieces[: data.draw(st.integers(0, len(pieces)))]
    repetition = Repetition(said)
    rest = [new for one in data.draw(cut(whole)) if (new := repetition.feed(one)) is not None]
    assert repetition.over
    assert told([*said, *rest]) == told(whole)


@pytest.mark.parametrize(
    "again",
    [
        TextDelta("abX"),
        TextDelta("X"),
        ReasoningDelta("abc"),
        CallOpened("abc"),
        Finished("stop", Tokens()),
    ],
)
def test_another_text_is_told_from_the_same(again: Delta) -> None:
    with pytest.raises(Strayed):
        Repetition([TextDelta("abc")]).feed(again)


def test_a_call_of_another_tool_is_another_call_and_another_id_of_it_is_not() -> None:
    said: list[Delta] = [CallOpened("f", call_id="one"), CallText("{}")]
    same = Repetition(said)
    assert same.feed(CallOpened("f", call_id="other")) is None
    assert same.feed(CallText("{} ")) == CallText(" ")
    with pytest.raises(Strayed):
        Repetition(said).feed(CallOpened("f", custom=True))


def test_it_may_not_go_on_where_something_else_was_said() -> None:
    repetition = Repetition([ReasoningDelta("hm"), TextDelta("so")])
    with pytest.raises(Strayed):
        repetition.feed(ReasoningDelta("hmm"))


def test_ids_are_known_when_all_of_them_are() -> None:
    known = (TextDelta("a", ids=(1, 2)), TextDelta("b"), TextDelta("c", ids=(3,)))
    assert SoFar(known, 3).ids == [1, 2, 3]
    assert SoFar(known, 4).ids is None
    assert SoFar((TextDelta("a"),), 1).ids is None


def test_thoughts_are_counted_up_to_the_last() -> None:
    thought = (ReasoningDelta("a", ids=(1, 2)), ReasoningDelta("b", ids=(3,)))
    assert SoFar(thought, 3).reasoning == 3
    assert SoFar((*thought, TextDelta("c", ids=(4, 5))), 5).reasoning == 3
    assert SoFar((TextDelta("c", ids=(4, 5)),), 2).reasoning == 0
    assert SoFar((ReasoningDelta("a"),), 7).reasoning == 7  # by a count alone

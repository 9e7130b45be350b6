"""Engines that go on from what another has said."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import groupby
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.engines.suite import so_far
from tests.support.examples import examples
from vivace.conversation.deltas import (
    CallOpened,
    CallText,
    Delta,
    Finished,
    ReasoningDelta,
    TextDelta,
)
from vivace.conversation.so_far import SoFar
from vivace.engines.base import Card, Chat, Sampling, Work
from vivace.engines.continuing import can_continue
from vivace.engines.scripted import (
    Act,
    Call,
    Capacity,
    Reply,
    Say,
    Script,
    ScriptedEngine,
    Stall,
    Think,
)
from vivace.protocol.items import FunctionTool, Message
from vivace.protocol.requests import (
    Fill,
    JsonObjectFormat,
    NamedTool,
    Toolbox,
)

MODEL = "m"

acts: st.SearchStrategy[list[Act]] = st.lists(
    st.one_of(
        st.builds(Say, st.text("ab \nE", max_size=12), st.integers(1, 3)),
        st.builds(Think, st.text("hm. ", max_size=8)),
        st.builds(Call, st.sampled_from("fg"), st.text('{"a": 1}', max_size=8), st.booleans()),
        st.just(Stall(0)),
    ),
    max_size=5,
)


def engine(played: Sequence[Act], burst: int = 1) -> ScriptedEngine:
    script = Script((Reply(then=tuple(played)),))
    return ScriptedEngine("e", [Card(MODEL, 9999)], script, Capacity(rate=1e6, burst=burst))


def ask(said: SoFar | None = None, **sampling: Any) -> Work:
    chat = Chat(items=(Message(role="user", content="Go"),))
    return Work(id="w", model=MODEL, prompt=chat, said=said, sampling=Sampling(**sampling))


def answer(one: ScriptedEngine, work: Work) -> list[Delta]:
    async def read() -> list[Delta]:
        return [delta async for delta in one.generate(work)]

    return asyncio.run(read())


def joined(deltas: Sequence[Delta]) -> list[tuple[Any, ...]]:
    """What a client makes of it, however it was cut."""
    whole: list[tuple[Any, ...]] = []
    for kind, group in groupby(deltas, type):
        if kind in (TextDelta, ReasoningDelta, CallText):
            whole.append((kind, "".join(each.text for each in group)))  # type: ignore[union-attr]
        elif kind is CallOpened:
            whole += [(kind, each.name, each.custom) for each in group]  # type: ignore[union-attr]
    return whole


@settings(deadline=None, max_examples=examples(150))
@given(acts, st.data(), st.booleans(), st.integers(1, 3))
def test_an_answer_that_is_cut_anywhere_goes_on_as_if_it_had_not_been(
    played: list[Act], data: st.DataObject, stops: bool, burst: int
) -> None:
    sampling: dict[str, Any] = {"stop": ("E b",)} if stops else {}
    whole = answer(engine(played, burst), ask(**sampling))
    cut = data.draw(st.integers(0, len(whole) - 1))
    said = so_far(whole[:cut])
    rest = answer(engine(played), ask(said, **sampling))
    assert joined([*whole[:cut], *rest]) == joined(whole)
    first, last = whole[-1], rest[-1]
    assert isinstance(first, Finished)
    assert isinstance(last, Finished)
    assert said.tokens + last.tokens.output == first.tokens.output
    assert said.reasoning + last.tokens.reasoning >= first.tokens.reasoning


def test_it_may_be_cut_again_and_again() -> None:
    played: list[Act] = [Think("a b c"), Say("d e f"), Call("g", "{1 2 3}")]
    whole = answer(engine(played), ask())
    said: list[Delta] = []
    while not said or not isinstance(said[-1], Finished):
        said += answer(engine(played), ask(so_far(said)))[:1]
    assert said[:-1] == whole[:-1]


def test_a_limit_that_is_left_ends_it_where_the_whole_one_would_have() -> None:
    played = [Say("a b c d e f")]
    said = so_far(answer(engine(played), ask(max_tokens=4))[:2])
    rest = answer(engine(played), ask(said, max_tokens=2))
    assert joined([*said.deltas, *rest]) == [(TextDelta, "a b c d")]
    assert isinstance(rest[-1], Finished)
    assert rest[-1].reason == "length"


# -- who can --------------------------------------------------------------------------------------

TOOLS = Toolbox(tools=(FunctionTool(name="f"),))
WORDS = SoFar((TextDelta("so", ids=(1,)),), 1)
UNNUMBERED = SoFar((TextDelta("so"),), 1)
MIXED = SoFar((TextDelta("so", ids=(1,)), TextDelta(" far")), 2)
CALLED = SoFar((CallOpened("f", ids=(1,)),), 1)


@pytest.mark.parametrize(
    ("prompt", "said", "by_ids", "by_text"),
    [
        (Chat(items=()), WORDS, True, True),
        (Chat(items=()), UNNUMBERED, False, True),
        (Chat(items=()), MIXED, False, True),
        (Chat(items=(), toolbox=TOOLS), WORDS, True, False),
        (Chat(items=(), toolbox=TOOLS, tool_choice="none"), WORDS, True, True),
        (Chat(items=(), toolbox=TOOLS, tool_choice="required"), WORDS, False, False),
        (
            Chat(items=(), toolbox=TOOLS, tool_choice=NamedTool("function", "f")),
            WORDS,
            False,
            False,
        ),
        (Chat(items=()), CALLED, True, False),
        (Chat(items=(), format=JsonObjectFormat()), WORDS, False, False),
        (Fill(prefix="a"), WORDS, True, True),
        (Fill(prefix="a", starts_with="b"), WORDS, False, False),
    ],
)
def test_who_can_go_on_depends_on_what_is_known_and_what_is_asked(
    prompt: Chat | Fill, said: SoFar, by_ids: bool, by_text: bool
) -> None:
    work = replace(ask(said), prompt=prompt)
    assert can_continue("ids", work) == by_ids
    assert can_continue("text", work) == by_text
    assert not can_continue("no", work)


@pytest.mark.parametrize("how", ["ids", "text", "no"])
def test_who_has_said_nothing_can_be_replaced_by_any(how: Any) -> None:
    work = replace(ask(), prompt=Chat(items=(), format=JsonObjectFormat()))
    assert can_continue(how, work)
    assert can_continue(how, replace(work, said=SoFar((), 0)))

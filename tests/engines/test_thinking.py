"""What templates are told of thinking, and thoughts told from answers, however they are cut."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vivace import models
from vivace.conversation.deltas import ReasoningDelta, TextDelta
from vivace.engines.thinking import Marks, ThoughtSplitter, template_arguments
from vivace.models import EFFORTS, MODELS, Thinking

# -- how much -------------------------------------------------------------------------------------


def told(model: str, effort: str | None) -> dict[str, object]:
    known = models.find(model)
    return {**template_arguments(known.thinking if known else None, effort)}


@pytest.mark.parametrize(
    ("model", "effort", "arguments"),
    [
        ("qwen3.8-27b", "high", {"enable_thinking": True}),
        ("qwen3.8-27b", "none", {"enable_thinking": False}),
        ("glm-4.7-flash", "minimal", {"enable_thinking": True}),
        ("deepseek-v3.1", "low", {"thinking": True}),
        ("deepseek-v3.1", "none", {"thinking": False}),
        ("deepseek-v4-flash", "xhigh", {"thinking": True, "reasoning_effort": "max"}),
        ("deepseek-v4-flash", "max", {"thinking": True, "reasoning_effort": "max"}),
        ("deepseek-v4-flash", "none", {"thinking": False}),
        ("kimi-k3", "medium", {"thinking": True, "thinking_effort": "low"}),
        ("gpt-oss-20b", "high", {"reasoning_effort": "high"}),
        ("gpt-oss-20b", "xhigh", {"reasoning_effort": "high"}),
        ("gpt-oss-20b", "none", {"reasoning_effort": "low"}),
        ("mistral-small-4", "none", {"reasoning_effort": "none"}),
        ("mistral-small-4", "minimal", {"reasoning_effort": "high"}),
        ("kimi-k2.7-code", "none", {}),
        ("unheard-of", "high", {"reasoning_effort": "high", "enable_thinking": True}),
        ("unheard-of", "none", {"reasoning_effort": "none", "enable_thinking": False}),
    ],
)
def test_each_family_is_told_in_its_own_words(
    model: str, effort: str, arguments: dict[str, object]
) -> None:
    assert told(model, effort) == arguments


@pytest.mark.parametrize("effort", [None, "", "a lot", "HIGH"])
@pytest.mark.parametrize("model", ["qwen3.8-27b", "gpt-oss-20b", "unheard-of"])
def test_without_an_effort_that_means_something_nothing_is_told(
    model: str, effort: str | None
) -> None:
    assert told(model, effort) == {}


THINKERS = [model for model in MODELS if model.thinking is not None]


@pytest.mark.parametrize("model", THINKERS, ids=lambda model: model.name)
def test_every_level_that_a_model_offers_makes_a_difference(model: models.Model) -> None:
    thinking = model.thinking
    assert thinking is not None
    assert thinking.default in thinking.efforts
    each = [told(model.name, effort) for effort in thinking.efforts]
    assert all(one != other for place, one in enumerate(each) for other in each[:place])


def test_levels_stand_in_their_order() -> None:
    assert Thinking(switch="s", levels={"high": "h", "low": "l"}).efforts == ("none", "low", "high")
    assert set(EFFORTS) >= {"none", "low", "medium", "high"}


# -- thoughts and answer --------------------------------------------------------------------------


def split(pieces: Iterable[str], *, opened: bool = False, marks: Marks | None = None) -> list[str]:
    """Thoughts and answer, each as a whole."""
    splitter = ThoughtSplitter(marks or Marks(), thinking=opened)
    deltas = [delta for piece in pieces for delta in splitter.feed(piece)]
    deltas += splitter.rest()
    kinds = [type(delta) for delta in deltas]
    assert kinds == sorted(kinds, key=[ReasoningDelta, TextDelta].index), "thoughts come first"
    assert all(delta.text for delta in deltas)
    return [
        "".join(delta.text for delta in deltas if isinstance(delta, kind))
        for kind in (ReasoningDelta, TextDelta)
    ]


WRITTEN = [
    ("<think>\nWell.\n</think>\n\nYes.", False, "Well.", "Yes."),
    ("<think>Well.</think>Yes.", False, "Well.", "Yes."),
    ("\n\n<think>\nWell.\n</think>\n\nYes.", False, "Well.", "Yes."),
    ("Well.\n</think>\n\nYes.", True, "Well.", "Yes."),
    ("a\n\nb < c </ d\n</think>\n\n    return x\n", True, "a\n\nb < c </ d", "    return x\n"),
    ("<think>\n\n</think>\n\nYes.", False, "", "Yes."),
    ("Yes.", False, "", "Yes."),
    ("  Yes. <think>no</think>", False, "", "  Yes. <think>no</think>"),
    ("<thin air>", False, "", "<thin air>"),
    ("<think>\nWell. </thin", False, "Well. </thin", ""),
    ("Well.\n", True, "Well.", ""),
    ("Well.</think>", True, "Well.", ""),
    ("one</think>two</think>three", True, "one", "two</think>three"),
    ("<thi", False, "", "<thi"),
    ("", False, "", ""),
]


@pytest.mark.parametrize(("text", "opened", "thought", "said"), WRITTEN)
@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_thoughts_are_told_from_the_answer(
    text: str, opened: bool, thought: str, said: str, size: int
) -> None:
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    assert split(pieces, opened=opened) == [thought, said]


@given(st.text("<>/think \n", max_size=60), st.lists(st.integers(0, 60)), st.booleans())
def test_where_it_is_cut_makes_no_difference(text: str, cuts: Sequence[int], opened: bool) -> None:
    places = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    pieces = [text[at:to] for at, to in pairwise(places)]
    assert split(pieces, opened=opened) == split([text], opened=opened)


def test_thoughts_are_told_as_they_come() -> None:
    splitter = ThoughtSplitter(thinking=True)
    assert [*splitter.feed("Hm, ")] == [ReasoningDelta("Hm, ")]
    assert [*splitter.feed("so\n")] == [ReasoningDelta("so")]
    assert splitter.holds
    assert [*splitter.feed("be it")] == [ReasoningDelta("\nbe it")]
    assert [*splitter.feed("</think>\n\nYes")] == [TextDelta("Yes")]
    assert splitter.answering


def test_other_marks_may_be_given() -> None:
    marks = Marks("[THINK]", "[/THINK]")
    assert split(["[THI", "NK]a<think>[/TH", "INK]b"], marks=marks) == ["a<think>", "b"]


@pytest.mark.parametrize(
    ("prompt", "opened"),
    [
        ("<|im_start|>assistant\n<think>\n", True),
        ("<|Assistant|><think>", True),
        ("<|im_start|>assistant\n<think>\n\n</think>\n\n", False),
        ("<|im_start|>assistant\n", False),
        ("", False),
    ],
)
def test_a_template_may_open_the_thoughts_itself(prompt: str, opened: bool) -> None:
    assert Marks().are_open_in(prompt) == opened

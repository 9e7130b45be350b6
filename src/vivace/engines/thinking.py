"""Thinking before an answer: how a model is told how much, and its thoughts told from its answer.

No I/O. What a chat template takes differs by family, so the table of models says it. One that the
table does not know is told what ``vllm serve`` would tell it; templates pass over what they do not
know.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

from msgspec import Struct

from vivace.conversation.deltas import ReasoningDelta, TextDelta
from vivace.models import EFFORTS, Effort, Thinking

__all__ = ["MARKS", "Marks", "ThoughtSplitter", "template_arguments"]


# -- how much -------------------------------------------------------------------------------------

_WORDS = (*EFFORTS, "max")
"""What OpenAI's API and vLLM's server take; another word says nothing."""


def template_arguments(thinking: Thinking | None, effort: str | None) -> Mapping[str, Any]:
    """What the chat template is given for an effort; nothing leaves it to the model."""
    if effort not in _WORDS:
        return {}
    if thinking is None:
        return {"reasoning_effort": effort, "enable_thinking": effort != "none"}
    told: dict[str, Any] = {}
    if thinking.switch is not None:
        told[thinking.switch] = effort != "none"
    level = _nearest(thinking, effort)
    if thinking.variable is not None and level is not None:
        told[thinking.variable] = thinking.levels[level]
    return told


def _nearest(thinking: Thinking, effort: str) -> Effort | None:
    """A model that has fewer levels gets the one that comes closest, of two the lesser. Where it
    has a switch, that alone turns it off; without one, it thinks as little as it can."""
    asked = {"max": "xhigh"}.get(effort, effort)
    if asked == "none" and thinking.switch is not None:
        return None
    levels: list[Effort] = [level for level in EFFORTS if level in thinking.levels]
    if asked != "none":
        levels = [level for level in levels if level != "none"]
    places = {level: abs(EFFORTS.index(level) - EFFORTS.index(asked)) for level in levels}
    return min(levels, key=places.__getitem__, default=None)


# -- thoughts and answer --------------------------------------------------------------------------


class Marks(Struct, frozen=True):
    """What stands before and behind thoughts, as text."""

    opens: str = "<think>"
    closes: str = "</think>"

    def are_open_in(self, end_of_prompt: str) -> bool:
        """Whether the template has begun the thoughts itself, so that only their end will come."""
        return end_of_prompt.rstrip().endswith(self.opens)


MARKS = Marks()

_Stage = Literal["beginning", "thinking", "between", "answering"]


class ThoughtSplitter:
    """Takes an answer's text as it comes and tells thoughts from what is said.

    Thoughts stand only at the beginning: a mark further back is text that somebody writes about.
    Line breaks around them belong to the template, and are left out.
    """

    def __init__(self, marks: Marks = MARKS, *, thinking: bool = False) -> None:
        """``thinking``: the prompt has opened the thoughts."""
        self._marks = marks
        self._stage: _Stage = "thinking" if thinking else "beginning"
        self._held = ""
        """Text that may be a part of a mark, or line breaks that may be the template's."""
        self._thought = False

    @property
    def holds(self) -> bool:
        """Whether some of what came has not been told yet."""
        return bool(self._held)

    @property
    def answering(self) -> bool:
        """Whether all that still comes is the answer, so that nobody needs to ask."""
        return self._stage == "answering"

    def feed(self, text: str) -> Iterator[ReasoningDelta | TextDelta]:
        if self._stage == "beginning":
            text = self._begin(text)
        if self._stage == "thinking":
            thought, text = self._think(text)
            if thought:
                yield ReasoningDelta(thought)
        if self._stage == "between":
            text = text.lstrip("\n")
            if text:
                self._stage = "answering"
        if self._stage == "answering" and text:
            yield TextDelta(text)

    def rest(self) -> Iterator[ReasoningDelta | TextDelta]:
        """What was held back when the answer ended."""
        held, self._held = self._held, ""
        if self._stage == "thinking":
            held = held.rstrip("\n")
            if held:
                yield ReasoningDelta(held)
        elif held:
            yield TextDelta(held)

    def _begin(self, text: str) -> str:
        """Look for the mark that opens thoughts; returns what stands behind it, or the answer."""
        self._held += text
        seen = self._held.lstrip()
        opens = self._marks.opens
        if seen.startswith(opens):
            self._held, self._stage = "", "thinking"
            return seen[len(opens) :]
        if opens.startswith(seen):
            return ""
        held, self._held, self._stage = self._held, "", "answering"
        return held

    def _think(self, text: str) -> tuple[str, str]:
        """More of the thoughts, and what stands behind them."""
        self._held += text
        if not self._thought:
            self._held = self._held.lstrip("\n")
        thought, mark, behind = self._held.partition(self._marks.closes)
        if mark:
            self._held, self._stage = "", "between"
            return thought.rstrip("\n"), behind
        sure = len(self._held) - _overlap(self._held, self._marks.closes)
        sure = len(self._held[:sure].rstrip("\n"))
        thought, self._held = self._held[:sure], self._held[sure:]
        self._thought = self._thought or bool(thought)
        return thought, ""


def _overlap(text: str, mark: str) -> int:
    """How much of a mark the text ends with."""
    longest = min(len(text), len(mark) - 1)
    return next((size for size in range(longest, 0, -1) if text.endswith(mark[:size])), 0)

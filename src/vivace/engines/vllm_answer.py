"""One answer of vLLM's in the making: its deltas with their tokens, and what is kept of it.

An answer that another engine has begun is read from its beginning, so that parsers stand where that
engine's stood. What they make of it must be what was said.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from vivace.conversation.deltas import Delta, Finished, ReasoningDelta, Tokens
from vivace.conversation.so_far import Repetition
from vivace.conversation.states import OPENS
from vivace.engines.base import Work
from vivace.engines.token_chain import Prompt
from vivace.engines.vllm_reading import Reading

__all__ = ["Answer", "Trace"]

_AT_ONCE = 64
"""Tokens that are read again in one go: a few milliseconds."""
_TEXT = frozenset(kind for kind, name in OPENS.items() if name != "call")


class Trace:
    """What an answer was written after, and its tokens so far."""

    def __init__(self, prompt: Prompt, old: dict[str, Any]) -> None:
        """``old``: what goes with the prompt of the text that the answer may repeat."""
        self.prompt = prompt
        self.old = old
        self.generated: list[int] = []
        self.told = 0
        """How many of them are thoughts that were told, none of them a part of a mark."""


class _Piece(Struct, frozen=True):
    """Tokens as vLLM would bring them, when nobody but us has them."""

    token_ids: Sequence[int]
    finish_reason: str | None = None
    stop_reason: str | None = None


class _Output(Struct, frozen=True):
    outputs: tuple[_Piece]
    finished: bool = False


class Answer:
    def __init__(self, trace: Trace, reading: Reading, work: Work) -> None:
        said = work.said
        self.trace = trace
        self.last: Any = None
        """The engine's newest step."""
        self.items = int(work.thoughts is not None)
        """How many items of a conversation it is."""
        self.kind: type | None = None
        """Of the newest of them."""
        self.thoughts = 0
        """How many of its tokens are thoughts."""
        self._reading = reading
        self._generate = work.generate
        self._untold: list[int] = []
        self._said = said.ids or [] if said is not None else []
        self._repetition = Repetition(said.deltas if said is not None else ())

    @property
    def said(self) -> int:
        """How many tokens another has said."""
        return len(self._said)

    @property
    def new(self) -> int:
        """How many tokens were added to what was said."""
        return max(0, len(self.trace.generated) - len(self._said))

    def end(self) -> None:
        """Raises ``Strayed`` if less came of it than was said."""
        self._repetition.feed(_END)

    def repeat(self) -> Iterator[list[Delta]]:
        """Read what was said, a part at a time; what was known and not told yet comes of it."""
        left = iter(self._said)
        while part := list(islice(left, _AT_ONCE)):
            pieces = [part] if self._reading.takes_many else [[token] for token in part]
            for piece in pieces:
                found = self._take(_Output((_Piece(piece),)), piece)
                self._untold.clear()  # who continues from here has them already
                yield [replace(each, ids=()) for each in found]

    def read(self, output: Any) -> list[Delta]:
        """What a step of the engine adds."""
        self.last = output
        if not self._generate:
            return []
        deltas = self._take(output, output.outputs[0].token_ids)
        if self._reading.reached and not output.finished:
            deltas += self._take(_Output((_Piece((), "stop"),), finished=True), ())
        return deltas

    def _take(self, output: Any, tokens: Sequence[int]) -> list[Delta]:
        self.trace.generated += tokens
        ended = output.outputs[0].finish_reason == "stop"  # by a token that says nothing
        self._untold += tokens[:-1] if ended else tokens
        deltas = [*self._reading.read(output)]
        self._note(deltas)
        new = [fresh for each in deltas if (fresh := self._repetition.feed(each)) is not None]
        if new:
            # With the first: whoever has it knows all that the others are made from.
            new[0] = replace(new[0], ids=tuple(self._untold))
            self._untold.clear()
        return new

    def _note(self, deltas: Sequence[Delta]) -> None:
        if deltas and type(deltas[-1]) is ReasoningDelta:
            self.thoughts = len(self.trace.generated)
            self.trace.told = self.trace.told if self._reading.holds else self.thoughts
        for delta in deltas:
            if type(delta) in OPENS:
                self.items += type(delta) is not self.kind or self.kind not in _TEXT
                self.kind = type(delta)


_END = Finished("stop", Tokens())

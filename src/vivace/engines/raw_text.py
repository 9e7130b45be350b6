"""An answer gone on with as raw text, behind the prompt as its template writes it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from vivace.conversation.deltas import Delta, Finished, TextDelta
from vivace.conversation.so_far import Repetition, SoFar
from vivace.engines.thinking import Marks, ThoughtSplitter

__all__ = ["RawReading", "raw"]


def raw(prompt: str, said: SoFar, marks: Marks) -> str:
    """The prompt, and what was said behind it, as the model has written it."""
    thought = said.thought
    if thought:
        opening = "" if marks.are_open_in(prompt) else f"{marks.opens}\n"
        prompt = f"{prompt}{opening}{thought}"
    if thought and said.text:
        prompt = f"{prompt}\n{marks.closes}\n\n"
    return prompt + said.text


class RawReading:
    """What follows: thoughts told from the answer, where they had not ended."""

    def __init__(self, said: SoFar, marks: Marks) -> None:
        self._repetition = Repetition(said.deltas)
        self._splitter: ThoughtSplitter | None = None
        if said.thought and not said.text:
            self._splitter = ThoughtSplitter(marks, thinking=True)
            begun: Iterable[Delta] = self._splitter.feed(said.thought)
        else:
            begun = said.deltas
        for delta in begun:
            self._repetition.feed(delta)

    def read(self, deltas: Iterable[Delta]) -> Iterator[Delta]:
        for delta in deltas:
            for part in self._split(delta):
                new = self._repetition.feed(part)
                if new is not None:
                    yield new

    def _split(self, delta: Delta) -> Iterator[Delta]:
        if self._splitter is None:
            yield delta
        elif isinstance(delta, TextDelta):
            yield from self._splitter.feed(delta.text)
        else:
            if isinstance(delta, Finished):
                yield from self._splitter.rest()
            yield delta

"""Answers that may still fit: what is typed through, or taken back, is not asked for again."""

from __future__ import annotations

from collections import deque

from msgspec import Struct

__all__ = ["Answer", "Memory"]

_MOST = 32


class Answer(Struct, frozen=True):
    """What a model wrote between two parts of a document."""

    before: str
    after: str
    text: str


class Memory:
    """The newest answers of one document; both of its parts must be the same for one to fit."""

    def __init__(self) -> None:
        self._answers: deque[Answer] = deque(maxlen=_MOST)

    def remember(self, answer: Answer) -> None:
        if answer.text:
            self._answers.appendleft(answer)

    def has(self, answer: Answer) -> bool:
        """Whether a model wrote just this."""
        return answer in self._answers

    def fitting(self, before: str, after: str) -> str | None:
        """The rest of an answer that goes on from here, of which something is left."""
        for answer in self._answers:
            begun = len(before) - len(answer.before)
            if not 0 <= begun < len(answer.text) or answer.after != after:
                continue
            if before.startswith(answer.before) and before.endswith(answer.text[:begun]):
                return answer.text[begun:]
        return None

    def clear(self) -> None:
        self._answers.clear()

"""The text of an answer's tokens, as they come.

vLLM would do it itself, but it decodes the whole prompt before the first of them: 56 ms of one core
for 100,000 tokens, in which no other answer moves. The end of the prompt is enough.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = ["TokenText"]

_BEFORE = 8
"""Tokens of the prompt that the first word may depend on: whether it begins with a space."""


class TokenText:
    def __init__(self, tokenizer: Any, prompt: Sequence[int], *, special: bool) -> None:
        """``tokenizer`` is one of the ``tokenizers`` library; ``special``: its marks are text."""
        self._tokenizer = tokenizer
        self._special = special
        self._stream = self._begun(prompt[-_BEFORE:])

    def read(self, tokens: Sequence[int]) -> str:
        """What these add. A character is whole or not yet there."""
        return "".join(filter(None, map(self._step, tokens)))

    def _step(self, token: int) -> str | None:
        text: str | None
        try:
            text = self._stream.step(self._tokenizer, token)
        except Exception:  # noqa: BLE001 - the library has no name for it
            # What came was no text, and what it was taken for has changed: it begins anew.
            self._stream = self._begun([])
            text = self._stream.step(self._tokenizer, token)
        return text

    def _begun(self, tokens: Sequence[int]) -> Any:
        from tokenizers.decoders import DecodeStream

        return DecodeStream(ids=list(tokens), skip_special_tokens=not self._special)

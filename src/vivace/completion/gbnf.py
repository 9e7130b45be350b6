"""llama.cpp's grammars, as far as an answer has to begin with a given text."""

from __future__ import annotations

__all__ = ["beginning_with"]

_ESCAPED = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n", "\r": r"\r", "\t": r"\t"})


def beginning_with(text: str) -> str:
    """The grammar of all texts that do."""
    return f'root ::= "{text.translate(_ESCAPED)}" .*'

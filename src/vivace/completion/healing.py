"""Not to end a prompt in the middle of a token.

A model learned to go on from whole tokens, not from one that was cut: asked behind ``x = so`` it
writes a second space or a wrong piece. So the last piece is held back with the sign before it, the
model writes it itself, and only answers that begin with it are taken. A gain besides: inside a word
the prompt does not change, so there is nothing to ask.

Pieces are divided as the tokenizers of today's models do it before they look into their vocabulary:
letters with one sign before them, runs of signs with a space before them, white space.
"""

from __future__ import annotations

import re

__all__ = ["held_back"]

_PIECE = re.compile(r"(?:[^\r\n\w]|_)?[^\W\d_]+\Z| ?[^\s\w]+\Z|_+\Z|[^\S\r\n]+\Z")


def held_back(line: str) -> str:
    """The end of a line that is not told; all of it where only white space would be: asked in the
    middle of an indentation, a model answers nothing."""
    found = _PIECE.search(line)
    held = found[0] if found else ""
    return held if line.removesuffix(held).strip() else line

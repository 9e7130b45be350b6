"""Where typing began, and what has been typed since.

The prompt for a gap is prefix, suffix, middle. Were each typed character put at the end of the
prefix, the whole suffix behind it would be read again at every key. So the gap is remembered as it
was when typing began there, and what was typed since goes behind the middle mark: the prompt only
grows at its end.
"""

from __future__ import annotations

import re

from msgspec import Struct

from vivace.completion.healing import held_back

__all__ = ["Anchor", "Typed", "anchored", "typed_since"]

_CLOSERS = re.compile(r"[)\]}'\"`]{0,8}")
"""What editors put behind the cursor by themselves."""


class Anchor(Struct, frozen=True):
    """A document in two parts, with the gap between them."""

    before: str
    after: str


class Typed(Struct, frozen=True):
    text: str
    closers: str = ""
    """Brackets and quotes that the editor has put behind the cursor since. The model is not told of
    them, and what it suggests takes their place."""


def anchored(text: str, offset: int) -> Anchor:
    """The gap at the cursor, before the piece of a word that stands there."""
    start = offset - len(held_back(line_before(text, offset)))
    return Anchor(text[:start], text[offset:])


def typed_since(anchor: Anchor, text: str, offset: int) -> Typed | None:
    """What stands in the gap up to the cursor; None if the text around it is another one."""
    start = len(anchor.before)
    extra = len(text) - offset - len(anchor.after)
    if offset < start or extra < 0:
        return None
    closers = text[offset : offset + extra]
    if not _CLOSERS.fullmatch(closers):
        return None
    if not (text.startswith(anchor.before) and text.endswith(anchor.after)):
        return None
    return Typed(text[start:offset], closers)


def line_before(text: str, offset: int) -> str:
    """The line of the cursor, up to it."""
    return text[text.rfind("\n", 0, offset) + 1 : offset]

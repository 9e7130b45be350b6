"""Characters as they may reach a terminal, which they must not steer, or a log.

Whether a character passes is decided for it alone, so it does not matter how a stream is cut.
"""

from __future__ import annotations

import re
import unicodedata

__all__ = ["readable", "visible"]

_SHOWN = "\ufffd"
_STEERING = re.compile(
    "[\\x00-\\x08\\x0b\\x0c\\x0e-\\x1f\\x7f-\\x9f"  # control characters but for \t, \n and \r
    "\\u202a-\\u202e\\u2066-\\u2069"  # other reading directions: code that is not what it seems
    "\\ud800-\\udfff]"  # halves of characters, which cannot be written
)
_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})


def readable(text: str) -> str:
    """Running text: lines and tabs stay, and what other scripts and emoji need to be joined."""
    return _STEERING.sub(_SHOWN, text.replace("\r", ""))


def visible(text: str) -> str:
    """A line of code, or a name: every character can be seen, those that only join others too."""
    if text.isprintable():
        return text
    return "".join(
        _SHOWN if unicodedata.category(each) in _UNSEEN else each for each in text.expandtabs(4)
    )

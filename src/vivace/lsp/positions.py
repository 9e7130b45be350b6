"""Columns as editors count them, and characters as Python does: the only place that knows both.

The protocol counts the units of an encoding that client and server agree on: bytes of UTF-8, halves
of UTF-16 or characters. Half of a UTF-16 pair that stands alone counts as what it is, one unit.
"""

from __future__ import annotations

import re
from typing import Literal

__all__ = ["Encoding", "column_at", "offset_at"]

Encoding = Literal["utf-8", "utf-16", "utf-32"]

_ASTRAL = re.compile("[\U00010000-\U0010ffff]")
"""What takes two units of UTF-16."""


def offset_at(line: str, column: int, encoding: Encoding) -> int:
    """How many characters stand before a column. Behind the end is the end, and within a character
    is before it."""
    if encoding == "utf-32" or line.isascii():
        return min(column, len(line))
    if encoding == "utf-8":
        raw = _bytes(line)
        while column < len(raw) and raw[column] & 0xC0 == 0x80:
            column -= 1
        return len(raw[:column].decode("utf-8", "surrogatepass"))
    twice = 0
    for found in _ASTRAL.finditer(line):
        first = found.start() + twice
        if column <= first + 1:
            return min(column, first) - twice
        twice += 1
    return min(column - twice, len(line))


def column_at(line: str, offset: int, encoding: Encoding) -> int:
    """The column behind so many characters."""
    before = line[:offset]
    if encoding == "utf-32" or before.isascii():
        return len(before)
    if encoding == "utf-8":
        return len(_bytes(before))
    return len(before) + len(_ASTRAL.findall(before))


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")

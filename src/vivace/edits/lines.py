"""Lines as they are written: their margin, their ends."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["dedented", "line_end", "margin_of"]


def margin_of(lines: Sequence[str]) -> str:
    """The space that all lines begin with."""
    filled = [line for line in lines if line.strip()]
    if not filled:
        return ""
    first, last = min(filled), max(filled)
    length = 0
    while length < len(first) and first[length] == last[length] and first[length] in " \t":
        length += 1
    return first[:length]


def dedented(line: str, margin: str) -> str:
    """A line without its margin; an empty one may have less."""
    return line.removeprefix(margin) if line.strip() else line.lstrip(" \t")


def line_end(lines: Sequence[str]) -> str:
    """How most lines end."""
    crlf = sum(line.endswith("\r\n") for line in lines)
    return "\r\n" if crlf * 2 > len(lines) else "\n"

"""Lines as they are written: their margin, their ends.

A line ends at ``\\n`` and keeps it; nothing else ends a line, so that a form feed or a Unicode
separator in a string never splits one.
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["dedented", "line_end", "lines_of", "margin_of"]


def lines_of(text: str) -> list[str]:
    """The lines of a text with their ends; an unfinished last line is a line."""
    lines = text.split("\n")
    last = lines.pop()
    return [line + "\n" for line in lines] + ([last] if last else [])


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

"""How far an answer is shown: the rest of the line, with the block it opens, or the next few lines.

A model goes on until it is stopped. What a person takes with one key is a thought: a line, the body
of what that line opens, or the lines up to the next blank one.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

__all__ = ["MOST_LINES", "Cut", "cut", "so_far"]

MOST_LINES = 12
_CLOSING = tuple(")]}")


class Cut(Struct, frozen=True):
    text: str
    whole: bool
    """Whether nothing that may still come would be shown."""


def cut(answer: str, line_before: str, *, one_line: bool) -> Cut:
    """What of an answer is shown that goes on behind ``line_before``, with what is known so far."""
    if one_line:
        first, ended, _ = answer.partition("\n")
        return Cut(first, bool(ended))
    begun = bool(line_before.strip())
    lines = answer.split("\n")
    if not begun and not lines[0].strip() and len(lines) > 1:
        # A line is skipped before the block: the block is what counts.
        skipped = next((at for at, line in enumerate(lines) if line.strip()), None)
        if skipped is None:
            return Cut("", False)
        rest = cut("\n".join(lines[skipped:]), "", one_line=False)
        return Cut("\n".join([*lines[:skipped], rest.text]), rest.whole)
    base = _indentation(line_before if begun else line_before + lines[0])
    shown = [lines[0]]
    for line, is_last in _numbered(lines[1:]):
        if is_last and not line.strip():
            return Cut("\n".join(shown), False)
        if len(shown) == MOST_LINES or not line.strip():
            return Cut("\n".join(shown), True)
        deep = _indentation(line)
        closes = line.lstrip().startswith(_CLOSING)
        if begun and deep == base and closes and shown[-1] is not lines[0]:
            return Cut("\n".join([*shown, line]), not is_last)
        if deep < base or (begun and deep == base):
            return Cut("\n".join(shown), True)
        shown.append(line)
    return Cut("\n".join(shown), False)


def so_far(answer: str, line_before: str, *, one_line: bool) -> str:
    """What could be shown of an answer in the making: the lines that nothing will be added to."""
    lines, ended, _ = answer.rpartition("\n")
    return cut(lines, line_before, one_line=one_line).text if ended else ""


def _numbered(lines: list[str]) -> Iterator[tuple[str, bool]]:
    return ((line, at == len(lines) - 1) for at, line in enumerate(lines))


def _indentation(line: str) -> int:
    return len(line) - len(line.lstrip())

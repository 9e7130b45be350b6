"""What a command printed, as lines that can be read: no colours, and never more than so many.

A command may print without end, and what it prints may be anything. So much of the beginning and of
the end is kept: compilers tell what matters first, test runners last.
"""

from __future__ import annotations

import re

__all__ = ["Kept", "clean_lines"]

_HEAD = 128 * 1024
_TAIL = 512 * 1024
"""Bytes that are kept."""
_LONGEST = 1000
"""Characters of a line; no error needs more to be told."""
_MOST_LINES = 12_000
_MOST = 1_000_000
"""Characters that are looked at."""
_ESCAPES = re.compile(
    "\x1b(?:"
    r"\[[0-?]{0,100}[ -/]{0,8}[@-~]"  # colours, and the cursor
    "|[\\]PX^_][^\x07\x1b]{0,4096}(?:\x07|\x1b\\\\)?"  # titles, links and the like
    "|[ -/]{0,4}[0-~]"
    ")?"
)
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\x80-\x9f]")


class Kept:
    """The beginning and the end of what comes in pieces."""

    def __init__(self, head: int = _HEAD, tail: int = _TAIL) -> None:
        self._most_head, self._most_tail = head, tail
        self._head = bytearray()
        self._tail = bytearray()
        self._left_out = False

    def add(self, piece: bytes) -> None:
        room = self._most_head - len(self._head)
        self._head += piece[:room]
        self._tail += piece[room:] if room > 0 else piece
        if len(self._tail) > 2 * self._most_tail:  # not at every piece, which would copy it all
            self._shorten()

    def _shorten(self) -> None:
        if len(self._tail) > self._most_tail:
            del self._tail[: -self._most_tail]
            self._left_out = True

    @property
    def text(self) -> str:
        """What was kept; where something is left out, it stands on a line of its own."""
        self._shorten()
        between = b"\n...\n" if self._left_out else b""
        return (bytes(self._head) + between + bytes(self._tail)).decode(errors="replace")


def clean_lines(text: str) -> list[str]:
    """Lines without their ends, without what steers a terminal, and none of them endless. A line
    that is written over again and again, as progress is, is as it was last."""
    if len(text) > _MOST:
        text = f"{text[: _MOST // 5]}\n...\n{text[-4 * (_MOST // 5) :]}"
    lines = text.split("\n")
    if len(lines) > _MOST_LINES:
        head = _MOST_LINES // 4
        lines = [*lines[:head], "...", *lines[head - _MOST_LINES + 1 :]]
    return [_clean(line) for line in lines]


def _clean(line: str) -> str:
    # Before the escapes are taken out, so that no line costs more than a long one may.
    line = line[: 8 * _LONGEST].rstrip("\r")
    line = _ESCAPES.sub("", line.rpartition("\r")[2])
    return _CONTROL.sub("", line)[:_LONGEST].rstrip()

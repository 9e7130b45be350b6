"""A diff as a person reads it in a terminal, growing hunk by hunk."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from vivace.cli.output import Control, styled
from vivace.syntax.hunk import Hunk
from vivace.syntax.lines import lines_of

__all__ = ["GrowingDiff", "coloured", "grouped"]

_CONTEXT = 3
_COLOURS = {"+": "green", "-": "red", "@": "cyan"}


class GrowingDiff:
    """Hunks in, lines of a diff out. What follows a hunk waits for the next one, or the end."""

    def __init__(self, text: str) -> None:
        self._lines = lines_of(text)
        self._at: int | None = None
        """The line after the last hunk; None before the first."""

    def add(self, hunk: Hunk) -> Iterator[str]:
        if self._at is not None and 0 <= hunk.start - self._at <= 2 * _CONTEXT:
            yield from self._marked(" ", self._lines[self._at : hunk.start])
        else:
            yield from self.end()
            yield f"@@ line {hunk.start + 1} @@"
            yield from self._marked(" ", self._lines[max(0, hunk.start - _CONTEXT) : hunk.start])
        yield from self._marked("-", hunk.old)
        yield from self._marked("+", hunk.new)
        self._at = hunk.end

    def end(self) -> Iterator[str]:
        if self._at is not None:
            yield from self._marked(" ", self._lines[self._at : self._at + _CONTEXT])
        self._at = None

    @staticmethod
    def _marked(mark: str, lines: Sequence[str]) -> Iterator[str]:
        return (mark + line.rstrip("\r\n") for line in lines)


def grouped(hunks: Sequence[Hunk]) -> list[list[Hunk]]:
    """Hunks that stand so close together that they are shown, and decided on, as one."""
    groups: list[list[Hunk]] = []
    for hunk in hunks:
        if groups and hunk.start - groups[-1][-1].end <= 2 * _CONTEXT:
            groups[-1].append(hunk)
        else:
            groups.append([hunk])
    return groups


def coloured(line: str) -> Control:
    """A line of a diff for a terminal."""
    return styled(line, fg=_COLOURS.get(line[:1]))

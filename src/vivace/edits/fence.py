"""The code in a model's answer, line by line as it comes.

Models are asked for one fenced block. Small ones put a sentence before it, explain themselves after
it, or forget the fence. What they write may have fences of its own (Markdown, a docstring): one
that names a language opens a block inside of it, and in Markdown, or where there were fences, two
that name none may belong to each other.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal

from vivace.syntax.lines import lines_of

__all__ = ["Unfenced", "fence_for", "longest_block"]

_FENCE = re.compile(r"\s*(`{3,}|~{3,})\s*([^`\s]*)[^`]*$")
_PROSE = re.compile(r"[A-Z][\w']*[,!]? .*[:.!]\s*$")
_MARK = re.compile(r"(?://[/!]?|/?\*{1,2}|#+|--|;+)?")
"""What may stand before a fence in a comment."""
_WITH_FENCES = frozenset({"markdown", "md", "mdx"})
_TELLING = 3
"""A line must have so many letters and digits to show by itself where we are."""


def fence_for(text: str) -> str:
    """A fence that no line of the text could close."""
    longest = max((len(run) for run in re.findall(r"`{3,}", text)), default=2)
    return "`" * (longest + 1)


def longest_block(text: str, least: int) -> str | None:
    """Of the blocks that are closed, the longest, with its fences; none has fewer than ``least``
    lines. Who explains themselves may quote a line in a block of its own."""
    longest: list[str] = []
    opened: list[str] = []
    fence = ""
    depth = 0
    for line in lines_of(text):
        mark = _FENCE.match(line)
        if not opened:
            if mark is not None:
                opened, fence, depth = [line], mark[1], 1
            continue
        opened.append(line)
        if mark is not None and mark[1].startswith(fence):
            depth += 1 if mark[2] else -1
        if not depth:
            longest = max(longest, opened, key=len)
            opened = []
    return "".join(longest) if len(longest) - 2 >= least else None


class Unfenced:
    """Text in, complete lines of code out; what is no code is left out."""

    def __init__(self, old: Iterable[str]) -> None:
        """``old`` are the lines that are being rewritten: by them an answer without a fence is
        told from a sentence before it."""
        lines = [line.strip() for line in old]
        self._known = {line for line in lines if sum(map(str.isalnum, line)) >= _TELLING}
        self._has_fences = any(_FENCE.match(line) for line in lines)
        self._has_marks = any("```" in line or "~~~" in line for line in lines)
        self._where: Literal["before", "fenced", "bare", "after"] = "before"
        self._fence = ""
        self._depth = 0
        self._partial: list[str] = []
        """What there is of the line that is not complete yet, which may be a megabyte."""
        self._held: list[str] = []

    @property
    def whole(self) -> bool:
        """Whether the block was closed; an answer without a fence never is."""
        return self._where == "after" or bool(self._held and self._where == "fenced")

    @property
    def complete(self) -> bool:
        """Whether the block is closed for good, whatever follows."""
        return self._where == "after"

    def feed(self, text: str) -> list[str]:
        if "\n" not in text:
            self._partial.append(text)
            return []
        lines = lines_of("".join([*self._partial, text]))
        self._partial = [] if lines[-1].endswith("\n") else [lines.pop()]
        return [line for each in lines for line in self._line(each)]

    def finish(self) -> list[str]:
        rest = "".join(self._partial)
        found = self._line(rest + "\n") if rest else []
        self._partial = []
        if self._where == "before":
            return found + self._without_prose()
        return found

    def _line(self, line: str) -> list[str]:
        match self._where:
            case "before":
                return self._before(line)
            case "fenced":
                return self._fenced(line)
            case "bare":
                return self._unopened(line)
            case "after":
                return []

    def _before(self, line: str) -> list[str]:
        if (mark := _FENCE.match(line)) is not None:
            self._where, self._fence, self._held = "fenced", mark[1], []
            self._has_fences |= mark[2].lower() in _WITH_FENCES
            return []
        if not any(held.strip() for held in self._held) and line.strip() in self._known:
            self._where, self._held = "bare", []
            return [line]
        self._held.append(line)
        return []

    def _unopened(self, line: str) -> list[str]:
        if (mark := _FENCE.match(line)) and not self._has_fences:
            if not mark[2] and not self._depth:
                return self._end()
            self._depth += 1 if mark[2] else -1
        return [line]

    def _fenced(self, line: str) -> list[str]:
        mark = _FENCE.match(line)
        if mark is None or not mark[1].startswith(self._fence):
            return self._content(line)
        if mark[2] and self._held:  # inside of a block that names nothing there is none that does
            return self._end()
        if mark[2]:
            self._depth += 1
        elif self._depth:
            self._depth -= 1
        elif not self._has_fences:
            return self._end()
        elif self._held:
            released, self._held = self._held, []
            return [*released, line]
        else:  # the end, unless another one follows that belongs to it
            self._held = [line]
            return []
        return self._content(line)

    def _end(self) -> list[str]:
        self._where, self._held = "after", []
        return []

    def _content(self, line: str) -> list[str]:
        if self._held:
            self._held.append(line)
            return []
        code = line.rstrip().removesuffix(self._fence)
        if code != line.rstrip() and not self._has_marks and not _MARK.fullmatch(code.strip()):
            self._where = "after"
            return [code + "\n"]
        return [line]

    def _without_prose(self) -> list[str]:
        """An answer that never had a fence, from its first line that is known on."""
        for at, line in enumerate(self._held):
            if line.strip() in self._known:
                talks = all(_PROSE.match(each) or not each.strip() for each in self._held[:at])
                return self._held[at:] if talks else self._held
        return self._held

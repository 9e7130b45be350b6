"""The indentation of a file, for an answer that is written in another: tabs for spaces, or steps of
another width."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from vivace.syntax.lines import dedented, margin_of

__all__ = ["in_unit_of", "indent_of", "unit_of"]


def in_unit_of(file: Sequence[str], shown: Sequence[str], answer: Sequence[str]) -> list[str]:
    """An answer in the steps of the file. It stays where it has those of what was shown.
    ``answer``: lines without margin and ends."""
    ours, theirs = unit_of(file), unit_of(answer)
    if not ours or theirs in ("", ours, unit_of(shown)):
        return list(answer)
    margin = margin_of(shown)
    old = Counter(dedented(line, margin).rstrip() for line in shown)
    if set(ours) != set(theirs):  # what the file has all the same is in a text of several lines
        return [line if line in old else _with_unit(line, theirs, ours) for line in answer]
    new = [_with_unit(line, theirs, ours) for line in answer]
    more = (old & Counter(new)).total() >= (old & Counter(answer)).total()
    fits = not _aligned(answer, theirs) and (more or _aligned(answer, ours))
    return new if fits else list(answer)


def unit_of(lines: Sequence[str]) -> str:
    """By what most lines are indented that are indented further than those before: a tab or some
    spaces; empty where none is. One space is none: comments have it before their stars."""
    steps: Counter[str] = Counter()
    last = ""
    for line in filter(str.strip, lines):
        indent = indent_of(line)
        if step := indent.removeprefix(last) if indent.startswith(last) else "":
            steps["\t" if step[0] == "\t" else step] += 1
        last = indent
    found = [step for step in steps if step == "\t" or (len(step) > 1 and not step.strip(" "))]
    return min(found, key=lambda step: (-steps[step], len(step)), default="")


def indent_of(line: str) -> str:
    """The space that it begins with."""
    return line[: len(line) - len(line.lstrip(" \t"))]


def _aligned(lines: Sequence[str], unit: str) -> bool:
    """Whether lines stand where no number of these steps leads."""
    return any(len(indent_of(line)) % len(unit) > 1 for line in lines)


def _with_unit(line: str, theirs: str, ours: str) -> str:
    bare, deep = line, 0
    while bare.startswith(theirs):
        bare, deep = bare.removeprefix(theirs), deep + 1
    return ours * deep + bare

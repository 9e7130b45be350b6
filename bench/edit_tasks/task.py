"""What a task is, and the verdict over an edited file.

Right is an edit that does what was asked (the task's checks) and nothing else. Damage is a file
that no longer parses, or that changed outside the lines that may change; what was asked may have
been done or not.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

from bench.edit_tasks.running import compiles
from bench.edit_tasks.source import Language, Source

__all__ = [
    "Additions",
    "Between",
    "Check",
    "Everywhere",
    "Replace",
    "Task",
    "Verdict",
    "Word",
    "broken",
]

FILES = Path(__file__).with_name("files")
_LANGUAGES: dict[str, Language] = {
    ".py": "python",
    ".ts": "typescript",
    ".c": "c",
    ".cpp": "c++",
}

Check = Callable[[Source], str | None]
"""Looks at the edited file; returns what is wrong with it, or None."""

Additions = Literal["nothing", "imports", "anything"]
"""What may be added between the definitions of the file."""

_IMPORT = re.compile(r"\s*(import\b|from\b.+\bimport\b|#\s*include\b|$)")


@dataclass(frozen=True)
class Word:
    """Every line that holds this word."""

    word: str


@dataclass(frozen=True)
class Between:
    """The lines from the one that holds ``first`` to the one that holds ``last``."""

    first: str
    last: str


@dataclass(frozen=True)
class Replace:
    """``old``, which stands in the file once, becomes ``new``."""

    old: str
    new: str

    def apply(self, text: str) -> str:
        if text.count(self.old) != 1:
            raise LookupError(f"stands {text.count(self.old)} times in the file: {self.old!r}")
        return text.replace(self.old, self.new)


@dataclass(frozen=True)
class Everywhere:
    """The word ``old`` becomes ``new`` wherever it stands."""

    old: str
    new: str

    def apply(self, text: str) -> str:
        return re.sub(rf"(?<!\w){re.escape(self.old)}(?!\w)", self.new, text)


Edit = Sequence[Replace | Everywhere]


@dataclass(frozen=True)
class Verdict:
    right: bool
    damage: bool
    done: bool
    """What was asked was done, whatever else changed."""
    why: str = ""


@dataclass(frozen=True, kw_only=True)
class Task:
    """One instruction for one file, with an edit that is right and some that are not."""

    id: str
    kind: str
    path: str
    instruction: str
    may_change: Sequence[str | Word | Between]
    """Definitions by their names (``Class.method``), or other lines."""
    reference: Edit
    wrong: Sequence[Edit]
    """Plausible wrong answers, to show that the checks can fail."""
    checks: Sequence[Check]
    additions: Additions = "nothing"
    selected: Between | None = None

    @property
    def language(self) -> Language:
        return _LANGUAGES[Path(self.path).suffix]

    @cached_property
    def source(self) -> Source:
        return Source(self.language, (FILES / self.path).read_text("utf-8"))

    @property
    def text(self) -> str:
        return self.source.text

    @property
    def selection(self) -> tuple[int, int] | None:
        """The first and the last selected line, counted from 1."""
        if self.selected is None:
            return None
        lines = self.source.lines_between(self.selected.first, self.selected.last)
        return lines[0] + 1, lines[-1] + 1

    def edited(self, edit: Edit) -> str:
        text = self.text
        for step in edit:
            text = step.apply(text)
        return text

    def judge(self, text: str) -> Verdict:
        """Whether this text of the file is what was asked for."""
        if text == self.text:
            return Verdict(right=False, damage=False, done=False, why="nothing was changed")
        after = Source(self.language, text)
        if fault := broken(after):
            return Verdict(right=False, damage=True, done=False, why=fault)
        outside, missing = self._outside(after), self._missing(after)
        return Verdict(
            right=outside is None and missing is None,
            damage=outside is not None,
            done=missing is None,
            why=outside or missing or "",
        )

    def _missing(self, after: Source) -> str | None:
        """What was asked and not done, or None."""
        if wrong := compiles(after):
            return wrong
        return next((wrong for check in self.checks if (wrong := check(after))), None)

    def _may_change(self) -> set[int]:
        lines: set[int] = set()
        for part in self.may_change:
            match part:
                case str():
                    lines.update(self.source.lines_of(part))
                case Word(word):
                    lines.update(self.source.lines_with(word))
                case Between(first, last):
                    lines.update(self.source.lines_between(first, last))
        return lines

    def _outside(self, after: Source) -> str | None:
        """What changed that may not, or None.

        A walk through both files at once: a line that may change may go, lines may come beside it,
        additions where the task allows them, and all else must stand there again as it was.
        ``reached`` holds, for a place in the old file, the places in the new one that explain it.
        """
        old, new, may = self.source.lines, after.lines, self._may_change()
        gaps = self.source.top_level() if self.additions != "nothing" else set()
        reached = {0}
        for number in range(len(old) + 1):
            if number in may or number - 1 in may:
                reached = set(range(min(reached), len(new) + 1))
            elif number in gaps:
                reached = self._added(new, reached)
            if number == len(old):
                return None if len(new) in reached else "lines were added at the end"
            onwards = {
                place + 1 for place in reached if place < len(new) and new[place] == old[number]
            }
            if number in may:
                onwards |= reached
            if not onwards:
                return f"line {number + 1} may not change: {old[number].strip()!r}"
            reached = onwards
        return None

    def _added(self, new: list[str], reached: set[int]) -> set[int]:
        if self.additions == "anything":
            return set(range(min(reached), len(new) + 1))
        onwards = set(reached)
        for place in sorted(reached):
            while place < len(new) and _IMPORT.match(new[place]):
                place += 1
                onwards.add(place)
        return onwards


def broken(source: Source) -> str | None:
    """Why the file does not parse, or None."""
    if source.language == "python":
        try:
            ast.parse(source.text)
        except (SyntaxError, ValueError) as error:
            return f"does not parse: {error}"
        return None
    return "does not parse" if source.errors() else None

"""What an edit may touch: the definitions that the reference touches, and nothing else.

Between definitions something new may stand, and imports may grow. What else was there must stand
there again as it was, line by line.
"""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Iterable

from tree_sitter import Node

from bench.edit_sets.errors import BadSet
from bench.edit_sets.syntax import Source, name_of, text_of, walk

__all__ = ["line_range", "neighbours", "outside", "touchable"]

_LINES = re.compile(r"(\d+)-(\d+)")
_INTERPRETED = {"python", "javascript", "typescript"}
# What does something when the file is loaded.
_ACTIONS = {
    "expression_statement",
    "if_statement",
    "for_statement",
    "while_statement",
    "with_statement",
    "try_statement",
}
_PLAIN = {"assignment", "assignment_expression", "augmented_assignment", "string"}


def touchable(before: Source, reference: Source, named: Iterable[str]) -> set[int]:
    """The lines of the old file that may change."""
    lines = _touched(before, reference)
    for name in named:
        if name == "*":
            return set(range(len(before.lines)))
        if (numbered := line_range(name)) is not None:
            lines |= set(numbered)
            continue
        found = before.named(name)
        if not found:
            raise BadSet(f"check.may_touch: the file has no definition called {name}")
        for each in found:
            lines |= set(range(each.start, each.end))
    return lines


def line_range(text: str) -> range | None:
    """The lines that ``"120-140"`` means, counted from 0; None for the name of a definition."""
    span = _LINES.fullmatch(text)
    return None if span is None else range(int(span[1]) - 1, int(span[2]))


def outside(before: Source, after: Source, may: set[int], reference: Source) -> str | None:
    """What changed that may not, or None."""
    if changed := _lines_outside(before, after, may | before.import_lines):
        return changed
    if lost := before.import_words - after.import_words - _gone(before, reference):
        return f"imports lost {', '.join(sorted(lost))}"
    if grown := _functions_changed(before, after, may):
        return grown
    if before.language not in _INTERPRETED:
        return None
    return _defined_twice(before, after) or _acts(before, after, reference)


def _touched(before: Source, reference: Source) -> set[int]:
    old, new = before.lines, reference.lines
    lines: set[int] = set()
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    for tag, start, end, first, last in matcher.get_opcodes():
        if tag == "equal":
            continue
        touched = set(range(start, end)) or neighbours(reference, start, first, last)
        for line in touched:
            unit = before.unit(line)
            lines |= set(range(unit.start, unit.end)) if unit else {line}
    return lines


def neighbours(reference: Source, at: int, first: int, last: int) -> set[int]:
    """The old lines beside an insertion that are in one definition with what is inserted."""
    lines: set[int] = set()
    for line in range(first, last):
        unit = reference.unit(line)
        if unit and unit.start < first:
            lines.add(at - 1)
        if unit and unit.end > last:
            lines.add(at)
    return lines


def _lines_outside(before: Source, after: Source, may: set[int]) -> str | None:
    """A walk through both files at once.

    A line that may change may go, lines may come beside it and between definitions, and all else
    must stand there again. ``reached`` holds, for a place in the old file, the places in the new
    one that explain it.
    """
    old, new = before.lines, after.lines
    reached = {0}
    for number in range(len(old) + 1):
        if number in may or number - 1 in may or number in before.gaps:
            reached = set(range(min(reached), len(new) + 1))
        if number == len(old):
            return None if len(new) in reached else "lines were added at the end"
        onwards = {at + 1 for at in reached if at < len(new) and new[at] == old[number]}
        if number in may or (not old[number].strip() and number in before.gaps):
            onwards |= reached
        if not onwards:
            return f"line {number + 1} may not change: {old[number].strip()!r}"
        reached = onwards
    return None


def _gone(before: Source, reference: Source) -> set[str]:
    return before.import_words - reference.import_words


def _functions_changed(before: Source, after: Source, may: set[int]) -> str | None:
    """Lines between two functions can become the end of the first."""
    there = Counter(text for _, text in after.functions)
    for span, text in before.functions:
        if may.isdisjoint(range(span.start, span.end)):
            there[text] -= 1
            if there[text] < 0:
                return f"the function at line {span.start + 1} may not change"
    return None


def _defined_twice(before: Source, after: Source) -> str | None:
    def names(source: Source) -> Counter[str]:
        return Counter(filter(None, map(_defines, source.top())))

    had, has = names(before), names(after)
    twice = [name for name in has if has[name] > max(1, had[name])]
    return f"{twice[0]} is defined twice" if twice else None


def _defines(node: Node) -> str | None:
    """The function or class that a statement of the file defines."""
    for inner in (node, *node.named_children):
        if inner.type.startswith(("function_", "class_", "generator_function_")):
            return name_of(inner)
    return None


def _acts(before: Source, after: Source, reference: Source) -> str | None:
    """Example calls and the like behind a file run whenever it is loaded."""
    had, has = _actions(before), _actions(after)
    if len(has) <= max(len(had), len(_actions(reference))):
        return None
    new = next((text for text in has if text not in had), has[-1])
    return f"something new runs when the file is loaded: {new.splitlines()[0]!r}"


def _actions(source: Source) -> list[str]:
    return [text_of(node) for node in source.top() if node.type in _ACTIONS and _does(node)]


def _does(node: Node) -> bool:
    if node.type != "expression_statement":
        return not any("import" in inner.type for inner in walk(node))
    return bool(node.named_children) and node.named_children[0].type not in _PLAIN

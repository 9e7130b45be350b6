"""The part of a file that an edit is about: what the model is shown, and may change.

A small model keeps its hands off what it never sees. So the region is as small as the instruction
allows: the selection, the definition that is named, and only then the whole file.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Literal

from msgspec import Struct
from tree_sitter import Node

from vivace.edits.renames import asked
from vivace.syntax.languages import Language, errors_in, parse, walk
from vivace.syntax.lines import dedented, margin_of
from vivace.syntax.source import Source

__all__ = ["Kind", "Region", "Selection", "choose", "regions", "whole_file"]

Kind = Literal["function", "class", "selection", "file"]
Selection = tuple[int, int]
"""The first selected line, from 0, and the line after the last."""

_SMALL = 60
"""A file of so many lines is shown whole when nothing in it is named."""
_AHEAD = 1.5
"""A guess must share so many times more words with the instruction than the next best."""

_WORD = re.compile(r"[A-Za-z_]\w*")
_HUMPED = re.compile(r"[a-z][A-Z]")
_QUOTED = re.compile(r"`([^`\n]+)`")
_NAME = re.compile(r"[A-Za-z_$][\w$]*(?:(?:\.|::|#)[A-Za-z_$][\w$]*)*")
_EVERYWHERE = re.compile(
    r"\b(everywhere|whole (?:file|module)|(?:this|entire|each|every|all the|all) "
    r"(?:file|module|functions?|methods?|class(?:es)?)|all (?:uses|usages|callers|occurrences)|"
    r"throughout)\b",
    re.IGNORECASE,
)
_RENAME = re.compile(r"\brenam(?:e|ed|ing)\b", re.IGNORECASE)
_POINTS_BEFORE = frozenset(
    [
        "in",
        "of",
        "to",
        "for",
        "from",
        "into",
        "function",
        "method",
        "class",
        "def",
        "struct",
        "inside",
        "within",
        "fn",
        "func",
    ]
)
_POINTS_AFTER = frozenset(["function", "method", "class", "struct", "constructor"])
_SUBJECT = frozenset(
    ["should", "must", "needs", "has", "may", "can", "does", "returns", "fails", "crashes", "shows"]
)
"""What follows on the first word of an instruction if that is a name, not a verb."""
_NEW_MEMBER = re.compile(
    r"\b(?:add|needs?|gets?|give \w+|write|implement) (?:an?|another|the) (?:[\w-]+ )?"
    r"(?:method|field|property|attribute|member|getter|setter|constructor)\b",
    re.IGNORECASE,
)


_CONTAINERS = frozenset(
    {
        "module",
        "program",
        "translation_unit",
        "source_file",
        "block",
        "statement_list",
        "declaration_list",
        "field_declaration_list",
        "class_body",
    }
)
"""What begins with its first statement and does not belong to it."""
_BODIES = frozenset({"class_body", "field_declaration_list", "interface_body", "enum_body"})


class Region(Struct, frozen=True):
    """Lines ``start`` up to, not including, ``end``; ``name`` is dotted, as ``Class.method``."""

    start: int
    end: int
    kind: Kind = "selection"
    name: str = ""

    def __len__(self) -> int:
        return self.end - self.start

    def contains(self, other: Region) -> bool:
        return self.start <= other.start and other.end <= self.end


def whole_file(source: Source) -> Region:
    return Region(0, len(source.lines), "file")


def regions(source: Source) -> list[Region]:
    """Every definition, outer before inner."""
    return [Region(each.start, each.end, each.kind, each.name) for each in source.definitions]


# -- the choice -----------------------------------------------------------------------------------


def choose(source: Source, instruction: str, selection: Selection | None = None) -> Region:
    """What an instruction is about, as narrow as it can safely be."""
    whole = whole_file(source)
    if selection is not None:
        chosen = _selected(source, selection)
        # A name that is selected may be used before and behind the selection.
        return _around(source, chosen) if asked(instruction) else chosen
    if source.language is None or not len(whole):
        return whole
    known = regions(source)
    named = _named(instruction, known)
    if _EVERYWHERE.search(instruction):
        return whole
    if _RENAME.search(instruction):
        return _renamed_in(instruction, known) or whole
    classes = [each for each in named if each.kind == "class"]
    if classes and _NEW_MEMBER.search(instruction):
        return classes[0]
    if named:
        return _together(instruction, named) or _innermost(named)
    if len(whole) <= _SMALL:
        return whole
    return _guessed(source, instruction, known) or whole


def _selected(source: Source, selection: Selection) -> Region:
    lines = source.lines
    start = min(max(0, selection[0]), len(lines))
    end = max(start, min(len(lines), selection[1]))
    while start < end and not lines[start].strip():
        start += 1
    while end > start and not lines[end - 1].strip():
        end -= 1
    chosen = Region(start, end)
    if source.language is None:
        return chosen if len(chosen) else whole_file(source)
    around = [each for each in regions(source) if each.contains(chosen)]
    smallest = min(around, key=len, default=None)
    if len(chosen) > 1 and _whole_statements(source, chosen, source.language):
        same = smallest is not None and (smallest.start, smallest.end) == (start, end)
        return smallest if same and smallest is not None else chosen
    return smallest or _widened(source, chosen)


def _widened(source: Source, chosen: Region) -> Region:
    """The statements of the file that a selection touches; the whole file where it touches none."""
    touched = [
        node
        for node in source.top
        if node.start_point.row < chosen.end and chosen.start <= node.end_point.row
    ]
    if not touched or not len(chosen):
        return whole_file(source)
    last = touched[-1].end_point
    end = last.row + (last.column > 0)
    return Region(min(chosen.start, touched[0].start_point.row), max(chosen.end, end))


def _whole_statements(source: Source, chosen: Region, language: Language) -> bool:
    """Whether they could stand alone: a model asked to rewrite half a statement completes it."""
    lines = source.lines[chosen.start : chosen.end]
    margin = margin_of(lines)
    if lines[0][len(margin)] in " \t":
        return False
    alone = not errors_in(parse("".join(dedented(line, margin) for line in lines), language))
    nodes = list(walk(source.tree.root_node))
    if not alone and not any(_holds_members(node, chosen) for node in nodes):
        return False
    return not any(
        chosen.start
        <= node.start_point.row
        < chosen.end
        <= node.end_point.row - (not node.end_point.column)
        for node in nodes
        if node.type not in _CONTAINERS
    )


def _holds_members(node: Node, chosen: Region) -> bool:
    """Whether the lines are whole members of this class; a field is no statement by itself."""
    if node.type not in _BODIES:
        return False
    rows = [(child.start_point.row, child.end_point.row + 1) for child in node.named_children]
    touched = [(first, end) for first, end in rows if first < chosen.end and chosen.start < end]
    return bool(touched) and chosen.start <= touched[0][0] and touched[-1][1] <= chosen.end


def _named(instruction: str, known: Sequence[Region]) -> list[Region]:
    """The definitions an instruction names, in its order."""
    found: list[Region] = []
    for name in _mentioned(instruction):
        named = _by_name(name, known)
        if named is not None and named not in found:
            found.append(named)
    return found


def _by_name(name: str, known: Sequence[Region]) -> Region | None:
    name = name.replace("::", ".").replace("#", ".")
    fitting = [each for each in known if each.name == name]
    fitting = fitting or [each for each in known if each.name.endswith("." + name)]
    return fitting[0] if len(fitting) == 1 else None


def _mentioned(instruction: str) -> Iterator[str]:
    """Names that are surely names first: in backticks, dotted, or called; then plain words that
    the sentence points at, because ``add`` and ``load`` are verbs as well."""
    for quoted in _QUOTED.finditer(instruction):
        if name := _NAME.match(quoted[1].strip()):
            yield name[0]
    plain = _QUOTED.sub(" ", instruction)
    words = list(_NAME.finditer(plain))
    for at, word in enumerate(words):
        before = words[at - 1][0].lower() if at else ""
        after = words[at + 1][0].lower() if at + 1 < len(words) else ""
        sure = (
            not word[0].islower()
            or not word[0].isalpha()
            or plain[word.end() :].startswith("(")
            or before in _POINTS_BEFORE
            or after in _POINTS_AFTER
        )
        first = at == 0 and word[0].isalpha() and not _HUMPED.search(word[0])
        if after in _SUBJECT if first else sure:
            yield word[0]


def _together(instruction: str, named: Sequence[Region]) -> Region | None:
    """From the first to the last of those that are listed side by side (``f and g``)."""
    last = [each.name.rpartition(".")[2] for each in named]
    listed = r"\W+(?:and|or)?\W*".join(r"(?:[\w.]+\.)?" + re.escape(name) for name in last)
    if len(named) < 2 or not re.search(rf"\b{listed}\b", instruction):
        return None
    return Region(min(each.start for each in named), max(each.end for each in named))


def _innermost(named: Sequence[Region]) -> Region:
    """The first that is named; of a class and one of its methods, the method."""
    first = named[0]
    inner = [each for each in named[1:] if first.contains(each)]
    return inner[0] if len(inner) == 1 and first.kind == "class" else first


def _around(source: Source, chosen: Region) -> Region:
    """The function around it, if there is one."""
    known = regions(source)
    around = [each for each in known if each.kind == "function" and each.contains(chosen)]
    return min(around, key=len, default=chosen)


def _renamed_in(instruction: str, known: Sequence[Region]) -> Region | None:
    """``rename x to y in f``: in f alone, where x is nothing that others could know."""
    if rename := asked(instruction):
        within = _by_name(rename.scope, known) if rename.scope else None
        return within if within is not None and within.kind == "function" else None
    named = _named(instruction, known)
    parts = re.split(r"\b(?:in|inside|within|of)\b", instruction, maxsplit=1)
    if len(named) != 1 or len(parts) < 2 or _named(parts[0], known):
        return None
    return named[0] if named[0].kind == "function" else None


def _guessed(source: Source, instruction: str, known: Sequence[Region]) -> Region | None:
    """The function that shares by far the most words with the instruction; rare words count."""
    functions = [each for each in known if each.kind == "function"]
    words = [_words(source.part(each.start, each.end)) for each in functions]
    spread = Counter(word for each in words for word in each)
    asked = _words(instruction)
    scores = [sum(1 / spread[word] for word in asked & each) for each in words]
    order = sorted(range(len(functions)), key=lambda at: -scores[at])
    if not order or scores[order[0]] < 1:
        return None
    if len(order) > 1 and scores[order[0]] < _AHEAD * scores[order[1]]:
        return None
    return functions[order[0]]


def _words(text: str) -> set[str]:
    """Its words, and the parts of names in them."""
    words: set[str] = set()
    for name in _WORD.findall(text):
        parts = re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+", name)
        words |= {part.lower() for part in parts if len(part) > 2}
    return words

"""Findings while one types: after each edit those of the whole text, for the price of what changed.

What a piece of code was found to have is remembered by its text, so an edit costs the pieces around
it. Reading the text is dearer: while a line is half typed, the grammar's parser may have to go
through all of the file, and so for every key of the line. So a text that looks broken where it was
edited is not read at once. Until then the findings are those from before, moved to where they are
now, without those that were touched, and ``is_settled`` is false; ``settle`` reads the text, in a
pause.

A text that is right gets its findings at once, the same that a fresh scan has, and so does any text
once it is settled.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence

from msgspec import Struct, structs
from tree_sitter import Node

from vivace.findings.rule_set import RuleSet
from vivace.findings.scan import Memory, Pieces, findings_of
from vivace.syntax.finding import Finding
from vivace.syntax.hunk import Hunk, shifted
from vivace.syntax.languages import Language, parse, row_after
from vivace.syntax.source import Source

__all__ = ["Scanner"]

_SMALL = 16_000
"""Characters; a text of so many is read at once, broken or not."""
_REGION = 400
"""Lines of a function; a longer one is not read by itself."""
_AROUND: Mapping[str, tuple[tuple[str, str], ...]] = {
    "python": (("if 1:\n", "\n"),),
    "javascript": (("class A {\n", "\n}"), ("(", ")")),
    "typescript": (("class A {\n", "\n}"), ("(", ")")),
    "tsx": (("class A {\n", "\n}"), ("(", ")")),
    "java": (("class A {\n", "\n}"),),
    "cpp": (("class A {\n", "\n};"),),
    "rust": (("impl A {\n", "\n}"),),
}
"""What may have to stand around a function for it to be right code: then it was part of another."""


class _Region(Struct, frozen=True):
    """Lines that were edited, with the function they are in."""

    start: int
    end: int
    head: int = 0
    """Characters of the first line that are no part of it."""
    tail: int = 0
    """Characters of the last line that are not."""

    def text_in(self, lines: Sequence[str]) -> str:
        text = "".join(lines[self.start : self.end])
        return text[self.head : len(text) - self.tail]


class Scanner:
    """Follows one text."""

    def __init__(self, rules: RuleSet) -> None:
        self._rules = rules
        self._memory = Memory()
        self._source = Source("", None)
        self._findings: list[Finding] = []
        self._regions: list[_Region] = []
        self.is_settled = True
        """Whether the findings are those of a fresh scan."""

    def open(self, source: Source) -> list[Finding]:
        self._memory = Memory()
        self._source = source
        return self.settle()

    def edited(self, source: Source, hunks: Sequence[Hunk]) -> list[Finding]:
        """``source`` is what the hunks make of the text before."""
        if source.language is None or source.language != self._source.language:
            return self.open(source)
        before = self._source
        self._findings = _carried(self._findings, hunks)
        self._regions = _regions(before, self._regions, hunks, self.is_settled)
        self._source = source
        if source.is_read or len(source.text) <= _SMALL or not self._looks_broken(before):
            return self.settle()
        self.is_settled = False
        return self._findings

    def settle(self) -> list[Finding]:
        """The findings of a fresh scan, at whatever price."""
        language = self._source.language
        self._regions, self.is_settled = [], True
        if language is None:
            self._findings = []
            return self._findings
        plan = self._rules.plan(language)
        self._memory = Memory(self._memory)
        whole = Pieces(plan, self._memory).of(self._source.tree)
        self._findings = findings_of(self._source, plan, whole, self._memory)
        return self._findings

    def _looks_broken(self, before: Source) -> bool:
        """Whether reading it would be dear: it is wrong where it was edited, or always was."""
        if self.is_settled and before.is_read and before.tree.root_node.has_error:
            return True
        assert self._source.language is not None
        lines, language = self._source.lines, self._source.language
        return any(_is_broken(each.text_in(lines), language) for each in self._regions)


def _is_broken(text: str, language: Language) -> bool:
    if len(text) > _SMALL:  # then to ask is as dear as to read all of it
        return False
    for before, after in (("", ""), *_AROUND.get(language.name, ())):
        if not parse(before + text + after, language).root_node.has_error:
            return False
    return True


def _carried(findings: Sequence[Finding], hunks: Sequence[Hunk]) -> list[Finding]:
    """Findings where they are now; those that were touched are not known to be true."""
    kept: list[Finding] = []
    for finding in findings:
        if finding.lines is None:
            kept.append(finding)
            continue
        start, end = finding.lines
        if any(hunk.start < end and start < max(hunk.end, hunk.start + 1) for hunk in hunks):
            continue
        by = sum(len(hunk.new) - len(hunk.old) for hunk in hunks if hunk.end <= start)
        kept.append(_moved(finding, by) if by else finding)
    return kept


def _moved(finding: Finding, by: int) -> Finding:
    assert finding.lines is not None
    lines = finding.lines[0] + by, finding.lines[1] + by
    return structs.replace(finding, lines=lines, fix=tuple(shifted(finding.fix, by)))


def _regions(
    before: Source, known: Sequence[_Region], hunks: Sequence[Hunk], is_settled: bool
) -> list[_Region]:
    """What was edited since the text was last read, where it is now."""
    regions = list(known)
    for hunk in reversed(hunks):  # so that what stands before it is where it was
        grown = len(hunk.new) - len(hunk.old)
        touched = [each for each in regions if _touches(each, hunk)]
        if not touched:
            touched = [_around(before, hunk) if is_settled and before.is_read else _lines_of(hunk)]
        regions = [
            structs.replace(each, start=each.start + grown, end=each.end + grown)
            if each.start >= hunk.end
            else each
            for each in regions
            if not _touches(each, hunk)
        ]
        first = min(touched, key=lambda each: each.start)
        last = max(touched, key=lambda each: each.end)
        start, end = min(first.start, hunk.start), max(last.end, hunk.end) + grown
        head = first.head if first.start < hunk.start else 0
        tail = last.tail if last.end > hunk.end else 0
        regions.append(_Region(start, max(start, end), head, tail))
    return regions


def _touches(region: _Region, hunk: Hunk) -> bool:
    return hunk.start <= region.end and region.start <= hunk.end


def _lines_of(hunk: Hunk) -> _Region:
    return _Region(hunk.start, hunk.end)


def _around(before: Source, hunk: Hunk) -> _Region:
    """The function that a hunk changes, or the statement of the file."""
    assert before.language is not None
    last = max(hunk.start, hunk.end - 1)
    node = _holding(before, hunk.start, last)
    if node is None:
        above = hunk.start - 1
        while above >= 0 and not before.lines[above].strip():
            above -= 1
        node = _holding(before, above, above) if above >= 0 else None
        if node is not None and not _belongs(hunk, before.lines[node.start_point.row]):
            node = None
    if node is None or row_after(node) - node.start_point.row > _REGION:
        return _lines_of(hunk)
    start, end = node.start_point, node.end_point
    head = len(_bytes(before.lines[start.row])[: start.column].decode("utf-8", "replace"))
    tail = 0
    if end.column:
        tail = len(_bytes(before.lines[end.row])[end.column :].decode("utf-8", "replace"))
    return _Region(start.row, row_after(node), head, tail)


def _holding(before: Source, first: int, last: int) -> Node | None:
    """The innermost function with these lines, or else the statement of the file."""
    assert before.language is not None
    functions = {kind for kind, of in before.language.definitions.items() if of == "function"}
    found: Node | None = None
    node: Node | None = before.tree.root_node
    while node is not None:
        inner, children = None, node.children
        begun = bisect_right(children, first, key=lambda child: child.start_point.row)
        for child in reversed(children[:begun]):
            if child.end_point.row < first:
                break
            if last < row_after(child):
                inner = child
        if inner is not None and (found is None or inner.type in functions):
            found = inner
        node = inner
    return found


def _belongs(hunk: Hunk, header: str) -> bool:
    """Whether what is typed below a function is part of it, by how far it is moved in."""
    filled = [line for line in hunk.new if line.strip()]
    return bool(filled) and _margin(filled[0]) > _margin(header)


def _margin(line: str) -> int:
    return len(line) - len(line.lstrip(" \t"))


def _bytes(line: str) -> bytes:
    return line.encode("utf-8", "surrogatepass")

"""Imports that came with a rewritten region go to the file's own imports, not into the region."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tree_sitter import Node

from vivace.syntax.hunk import Hunk
from vivace.syntax.languages import Language, parse, row_after, walk
from vivace.syntax.lines import line_end, lines_of
from vivace.syntax.source import Source

__all__ = ["Preamble", "added", "only_imports", "sources", "together"]

_LONGEST = 20
"""Lines of one import statement that we wait for to end."""
_HEADS = ("import ", "from ", "use ", "using ", "#include")
_IN_BLOCK = re.compile(r'\s*(?:[\w.]+ )?"[^"]+"\s*')
"""One of the imports that Go has in brackets."""
_FUTURE = "future_import_statement"
_FIRST = frozenset({"package_clause", "package_declaration", "hash_bang_line"})


def only_imports(lines: Sequence[str], language: Language) -> bool:
    """Whether there are imports in these lines, and nothing else but comments."""
    if language.name == "go" and lines and all(map(_IN_BLOCK.fullmatch, lines)):
        return True
    top = parse("".join(lines), language).root_node.named_children
    others = [node for node in top if not _is_import(node, language)]
    return len(others) < len(top) and {node.type for node in others} <= language.leading


def _is_import(node: Node, language: Language) -> bool:
    """Whether a statement imports; ``require`` is a call like any other to the grammar."""
    if node.type in language.imports:
        return True
    if node.type not in ("lexical_declaration", "variable_declaration"):
        return False
    values = [each.child_by_field_name("value") for each in node.named_children]
    return all(each is not None and (each.text or b"").startswith(b"require(") for each in values)


def _kinds(lines: Sequence[str], language: Language) -> set[str]:
    """Of the statements, also of those that stand among what cannot be read."""
    root = parse("".join(lines), language).root_node
    found, unread = set[str](), [root]
    while unread:
        for node in unread.pop().named_children:
            found.add(node.type)
            if node.type == "ERROR":
                unread.append(node)
    return found


class Preamble:
    """Takes the imports off the beginning of an answer, line by line, and the line that says which
    package it is.

    The answer to a region that has such itself is let through as it is.
    """

    def __init__(self, language: Language | None, region: str) -> None:
        self._language = language
        self._open = language is not None and not (
            _kinds(lines_of(region), language) & (language.imports | _FIRST)
        )
        self._begun = False
        """Whether something was taken off."""
        self._waiting: list[str] = []
        self.imports: list[str] = []

    def take(self, line: str) -> list[str]:
        """What of the answer goes on to the region."""
        if not self._open or self._language is None:
            return [line]
        if not line.strip() and not self._waiting:
            return [] if self._begun else [line]
        if not self._waiting and _kinds([line], self._language) & _FIRST:
            self._begun = True
            return []
        self._waiting.append(line)
        kinds = _kinds(self._waiting, self._language)
        if kinds & self._language.imports and only_imports(self._waiting, self._language):
            self.imports += self._waiting
            self._waiting = []
            self._begun = True
            return []
        code = [
            each
            for each in self._waiting
            if _kinds([each], self._language) - self._language.leading
        ]
        unfinished = not code or code[0].startswith(_HEADS)
        if unfinished and len(self._waiting) < _LONGEST:
            return []
        self._open = False
        return self.finish()

    def finish(self) -> list[str]:
        """What was held back because an import could still have followed."""
        released, self._waiting = self._waiting, []
        return released


def added(source: Source, imports: Sequence[str]) -> list[Hunk]:
    """The hunks that put imports which the file does not have yet with those it has."""
    language = source.language
    if not imports or language is None:
        return []
    lines, top = source.lines, source.top
    there = {_plain(node) for node in top if _is_import(node, language)}
    defined = {each.name for each in source.definitions}
    end = line_end(lines)
    future: list[str] = []
    others: list[str] = []
    for node in parse("".join(imports), language).root_node.named_children:
        bound = _bound_by_script(node)
        if bound and bound <= defined:
            continue  # the file has these itself
        if _is_import(node, language) and _plain(node) not in there:
            there.add(_plain(node))
            found = future if node.type == _FUTURE else others
            found += [line + end for line in _plain(node).split("\n")]
    if block := _block_of(top):
        return _into_block(block, others, end)
    first, last = _run(top, language)
    if first == last:
        new = future + others
        return [_apart(lines, first, new, end)] if new else []
    hunks = [Hunk(first, (), tuple(future)), Hunk(last, (), tuple(others))]
    return [hunk for hunk in hunks if hunk.new]


def together(imported: Sequence[Hunk], hunks: Sequence[Hunk]) -> list[Hunk]:
    """Both as one edit, but for imports that belong into lines which the edit changes itself."""
    apart = [
        each for each in imported if not any(hunk.start < each.start < hunk.end for hunk in hunks)
    ]
    return sorted([*apart, *hunks], key=lambda hunk: hunk.start)


def _block_of(top: Sequence[Node]) -> list[Node]:
    """The imports that stand in Go's first brackets, one to a line."""
    for node in top:
        lists = [each for each in node.named_children if each.type == "import_spec_list"]
        if node.type == "import_declaration" and lists:
            specs = [each for each in lists[0].named_children if each.type == "import_spec"]
            return specs if len({each.start_point.row for each in specs}) == len(specs) else []
    return []


def _into_block(block: Sequence[Node], imports: Sequence[str], end: str) -> list[Hunk]:
    """Each goes to its like, by the alphabet: the standard library, or what has a host."""
    there = [(_go_path(node.text), node.start_point.row) for node in block]
    rows: dict[int, list[str]] = {}
    for line in imports:
        path = _go_path(line.encode())
        if path in (each for each, _ in there):
            continue
        like = [each for each in there if ("." in each[0]) == ("." in path)]
        later = [row for each, row in like if each > path]
        after = [row + 1 for _, row in like or there]
        row = later[0] if later else after[-1] if like or "." in path else there[0][1]
        rows.setdefault(row, []).append(f'\t"{path}"{end}')
    return [Hunk(row, (), tuple(sorted(new))) for row, new in sorted(rows.items())]


def _go_path(text: bytes | None) -> str:
    return (text or b"").decode("utf-8", "replace").partition('"')[2].partition('"')[0]


def _bound_by_script(node: Node) -> set[str]:
    """The names in the clause of a JavaScript import."""
    clauses = [child for child in node.named_children if child.type == "import_clause"]
    return {
        (inner.text or b"").decode("utf-8", "replace")
        for clause in clauses
        for inner in walk(clause)
        if inner.type == "identifier"
    }


def sources(source: Source, rows: tuple[int, int] | None = None) -> set[str]:
    """What a file, or what touches some lines of it, imports from, as it is written there; angle
    brackets belong to it in C."""
    found: set[str] = set()
    for node in source.nodes(source.language.imports, rows) if source.language else ():
        for field in ("module_name", "name", "source", "path"):
            named = node.children_by_field_name(field)
            texts = [(each.text or b"").decode("utf-8", "replace") for each in named]
            found.update(each.partition(" as ")[0].strip("\"'") for each in texts)
            if named:
                break
    return found


def _apart(lines: Sequence[str], place: int, new: list[str], end: str) -> Hunk:
    """The file's first imports, with an empty line before and after."""
    if place:
        new = [end, *new]
    if place < len(lines) and lines[place].strip():
        new = [*new, end]
    return Hunk(place, (), tuple(new))


def _plain(node: Node) -> str:
    """An import without the remark behind it."""
    raw = node.text or b""
    remarks = [child for child in node.children if child.type == "comment"]
    if remarks:
        raw = raw[: remarks[0].start_byte - node.start_byte]
    text = raw.decode("utf-8", "replace")
    return "\n".join(line.rstrip() for line in text.strip().split("\n"))


def _run(top: Sequence[Node], language: Language) -> tuple[int, int]:
    """The lines of the first run of imports; where there is none, the place for it, twice."""
    place = 0
    run: list[Node] = []
    for node in top:
        docstring = node.type == "expression_statement" and node.children[0].type == "string"
        if _is_import(node, language):
            run.append(node)
        elif run and node.type not in language.leading:
            break
        elif not run and (node.type in language.leading | _FIRST or docstring):
            place = row_after(node)
        elif not run:
            break
    if not run:
        return place, place
    return run[0].start_point.row, row_after(run[-1])

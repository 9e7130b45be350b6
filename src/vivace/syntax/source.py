"""The text of a file and what follows from it, each worked out once, when it is first asked for.

A source never changes. ``edited`` gives the next one, whose tree is the old one parsed anew only
where it was touched, when it is asked for: a key typed into a file of thousands of lines costs
about what was typed, and nothing if nobody wants to see its tree.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from functools import cached_property

from tree_sitter import Node, Point, Tree

from vivace.syntax.definitions import Definition, definitions_among
from vivace.syntax.hunk import Hunk, applied
from vivace.syntax.languages import (
    Language,
    errors_in,
    language_of,
    nests_too_deep,
    nodes_of,
    parse,
    row_after,
)
from vivace.syntax.lines import lines_of

__all__ = ["Source"]


class Source:
    def __init__(self, text: str, language: Language | None) -> None:
        self.text = text
        self.language = language
        self._touched: Tree | None = None
        """The last tree that was read, told of all that was touched since."""

    @classmethod
    def of(cls, path: str, text: str) -> Source:
        """A text that nests too deep is taken as one in no language we know."""
        return cls(text, None if nests_too_deep(text) else language_of(path))

    @cached_property
    def lines(self) -> list[str]:
        """With their ends."""
        return lines_of(self.text)

    @cached_property
    def tree(self) -> Tree:
        if self._touched is not None:
            tree = parse(self.text, self._known, self._touched)
            # How a wrong text is mended depends on what was there before; what is found in it must
            # not. So a wrong text is read anew.
            if not tree.root_node.has_error:
                return tree
        return parse(self.text, self._known)

    @property
    def is_read(self) -> bool:
        """Whether its tree is there, so that asking for it costs nothing."""
        return "tree" in self.__dict__

    @cached_property
    def definitions(self) -> list[Definition]:
        """Outer before inner; none where the language is not known."""
        if self.language is None:
            return []
        found = self.nodes(self.language.definitions)
        return list(definitions_among(found, self.language))

    @cached_property
    def errors(self) -> list[int]:
        """The lines on which the text breaks the grammar; none where that is not known."""
        return errors_in(self.tree) if self.language is not None else []

    @property
    def top(self) -> list[Node]:
        """The statements of the file itself; none where the language is not known."""
        return self.tree.root_node.named_children if self.language is not None else []

    @cached_property
    def statements(self) -> list[tuple[int, str]]:
        """The statements of the file with the lines they stand on, whole, each with the first of
        these; two on one line are one."""
        rows: list[tuple[int, int]] = []
        for node in self.top:
            start, end = node.start_point.row, row_after(node)
            if rows and start < rows[-1][1]:
                rows[-1] = (rows[-1][0], max(end, rows[-1][1]))
            else:
                rows.append((start, end))
        return [(start, self.part(start, end)) for start, end in rows]

    def nodes(self, types: Collection[str], rows: tuple[int, int] | None = None) -> list[Node]:
        """All named nodes of these types, in the order of the text; with ``rows``, those that touch
        the lines from the first up to the second. None where the language is not known."""
        if self.language is None:
            return []
        return nodes_of(self.tree, self.language, frozenset(types), rows)

    def part(self, start: int, end: int) -> str:
        return "".join(self.lines[start:end])

    def edited(self, hunks: Sequence[Hunk]) -> Source:
        """The source after these hunks; refuses them where they were made for another text."""
        lines = applied(self.lines, hunks)
        after = Source("".join(lines), self.language)
        if all(_are_lines(hunk.new, hunk.end == len(self.lines)) for hunk in hunks):
            after.lines = lines
        last = self.tree if self.is_read else self._touched
        if last is not None:
            after._touched = last.copy()
            for hunk in reversed(hunks):  # so that what stands before it is where it was
                _touch(after._touched, self.lines, hunk)
        return after

    def is_in(self, *languages: str) -> bool:
        return self.language is not None and self.language.name in languages

    @property
    def _known(self) -> Language:
        assert self.language is not None, "a text in no language we know has no tree"
        return self.language


def _are_lines(texts: Sequence[str], last: bool) -> bool:
    """Whether each is a line as the file has it; only its last may not be ended."""
    ended = texts[:-1] if last and texts and texts[-1] and "\n" not in texts[-1] else texts
    return all(text.find("\n") == len(text) - 1 for text in ended)


def _touch(tree: Tree, lines: Sequence[str], hunk: Hunk) -> None:
    """Tell the tree what moved."""
    before = _encoded(lines[: hunk.start])
    gone, come = _encoded(hunk.old), _encoded(hunk.new)
    tree.edit(
        start_byte=len(before),
        old_end_byte=len(before) + len(gone),
        new_end_byte=len(before) + len(come),
        start_point=_end(before),
        old_end_point=_end(before + gone),
        new_end_point=_end(before + come),
    )


def _encoded(lines: Iterable[str]) -> bytes:
    return "".join(lines).encode("utf-8", "surrogatepass")


def _end(raw: bytes) -> Point:
    return Point(raw.count(b"\n"), len(raw) - raw.rfind(b"\n") - 1)

"""Whether a file has a source of a taint rule at all: mostly there is none.

This is for a file that is read once. While somebody types, the answer could change with each key,
and all that is remembered of functions would depend on it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property

from tree_sitter import Node

from vivace.findings.matching import Inside, Whole
from vivace.findings.pattern import Helpers, OutOfSteps, Steps
from vivace.findings.places import nodes_with
from vivace.findings.remembered import STEPS
from vivace.findings.taint import Taint
from vivace.syntax.languages import nodes_of, walk
from vivace.syntax.source import Source

__all__ = ["FileSources"]


class FileSources:
    """The sources of one file."""

    def __init__(
        self, source: Source, around: frozenset[int], shared: dict[object, bool], helpers: Helpers
    ) -> None:
        """``around``: the kinds of nodes that sources of any rule may have to be within."""
        assert source.language is not None
        self._tree, self._language = source.tree, source.language
        self._kinds_around = around
        self._shared = shared
        self._helpers = helpers
        self._answers: dict[Taint, bool] = {}
        self._text = source.tree.root_node.text or b""
        self._known: dict[Hashable, bool] = {}

    def has_one_of(self, taint: Taint) -> bool:
        """Return whether a node of the file is a source of this rule."""
        if taint not in self._answers:
            self._answers[taint] = any(self._has(each) for each in taint.sources)
        return self._answers[taint]

    def _has(self, source: Whole) -> bool:
        known = self._known.get(source.alike)
        if known is None and not self._has_words(source):
            known = self._known[source.alike] = False
        if known is None:
            steps = Steps(STEPS, self._tree.root_node, shared=self._shared, helpers=self._helpers)
            try:
                known = any(
                    source.match(node, {}, steps) is not None
                    for node in self._possible(source, steps)
                )
            except OutOfSteps:
                known = True
            self._known[source.alike] = known
        return known

    def _has_words(self, source: Whole) -> bool:
        return all(any(word in self._text for word in some) for some in source.file_words)

    def _possible(self, source: Whole, steps: Steps) -> Iterator[Node]:
        """Yield the nodes that can be this source, as far as kinds, words and what must be around
        them tell."""
        for node in self._near(source, steps):
            steps.take()
            if source.kinds is None or node.kind_id in source.kinds:
                yield node

    def _near(self, source: Whole, steps: Steps) -> Iterator[Node]:
        if source.within:
            for node in self._around(source, steps):
                yield from walk(node)
        elif source.words:
            words: frozenset[bytes] = min(source.words, key=len)
            yield from nodes_with(words, self._tree.root_node)
        elif source.kinds is None:
            yield from walk(self._tree.root_node)
        else:
            yield from self._of_kinds(source.kinds)

    def _around(self, source: Whole, steps: Steps) -> Iterable[Node]:
        """Return nodes of which one is around each source of this kind: as few as are known."""
        if len(source.within) == 1:
            return self._met(source.within[0], steps)
        fewest: list[Node] | None = None
        for some in reversed(source.within):
            met = list(self._met(some, steps))
            if fewest is None or len(met) < len(fewest):
                fewest = met
            if not fewest:
                break
        return fewest or []

    def _met(self, some: Sequence[Inside], steps: Steps) -> Iterator[Node]:
        """Yield the nodes that meet one of these conditions about what is around others."""
        for each in some:
            for kind in each.around:
                for node in self._nodes_around.get(kind, ()):
                    if each.can_be(node, steps):
                        yield node

    @cached_property
    def _nodes_around(self) -> Mapping[int, list[Node]]:
        found: dict[int, list[Node]] = {}
        for node in self._of_kinds(self._kinds_around):
            found.setdefault(node.kind_id, []).append(node)
        return found

    def _of_kinds(self, kinds: frozenset[int]) -> list[Node]:
        grammar = self._tree.language
        if not all(map(grammar.node_kind_is_named, kinds)):
            return [node for node in walk(self._tree.root_node) if node.kind_id in kinds]
        names = frozenset(name for kind in kinds if (name := grammar.node_kind_for_id(kind)))
        return nodes_of(self._tree, self._language, names)

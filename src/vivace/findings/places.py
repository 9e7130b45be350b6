"""Places of words in a text. They tell that a rule cannot match in a part of the text."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cached_property, reduce
from operator import or_

from tree_sitter import Node

__all__ = ["Places", "nodes_with", "places_of"]

_MANY = 60
"""Places of words in a node; a node with more of them is taken to have all words."""


class Places:
    """Where the words of a plan stand in a text."""

    def __init__(self, found: Sequence[tuple[int, int]]) -> None:
        self._starts = [start for start, _ in found]
        self._bits = [bit for _, bit in found]

    @cached_property
    def words(self) -> int:
        """All words of the text."""
        return reduce(or_, self._bits, 0)

    def has_any(self, start: int, end: int) -> bool:
        """Return whether a word begins between two places."""
        first = bisect_left(self._starts, start)
        return first < len(self._starts) and self._starts[first] < end

    def words_in_node(self, start: int, end: int) -> int:
        """Return at least the words between two places, in a time that does not grow with how many
        these are: nodes are in nodes in nodes."""
        first, last = bisect_left(self._starts, start), bisect_left(self._starts, end)
        if last - first > _MANY:
            return self.words
        words = 0
        for bit in self._bits[first:last]:
            words |= bit
        return words

    def words_between(self, start: int, end: int) -> int:
        """Return at least the words between two places; one may reach beyond the second."""
        words = 0
        for bit in self._bits[bisect_left(self._starts, start) : bisect_left(self._starts, end)]:
            words |= bit
        return words


def places_of(word: bytes, text: bytes) -> list[int]:
    """Return where a word begins in a text."""
    found: list[int] = []
    at = text.find(word)
    while at >= 0:
        found.append(at)
        at = text.find(word, at + 1)
    return found


def nodes_with(words: Iterable[bytes], top: Node, closed: Collection[str] = ()) -> Iterator[Node]:
    """Yield a node and all below it in which one of the words stands, in the order of the text.
    Nodes of the types ``closed`` are not looked into."""
    start, text = top.start_byte, top.text or b""
    places = sorted(start + at for word in words for at in places_of(word, text))
    waiting = [top] if places else []
    while waiting:
        node = waiting.pop()
        first = bisect_left(places, node.start_byte)
        if first == len(places) or places[first] >= node.end_byte:
            continue
        yield node
        if node.type not in closed:
            waiting.extend(reversed(node.children))

"""The matching part of a rule, made ready to be tried on nodes: what ast-grep's rule objects mean.

Each kind of condition says, besides whether a node meets it, what lets one pass over nodes without
asking: the kinds of nodes it can match, and words that must stand in their text. That is what makes
a hundred rules cheap.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from functools import reduce
from typing import Literal, Protocol, TypeAlias, TypeVar

from tree_sitter import Node

from vivace.findings.pattern import Bindings, OutOfSteps, Pattern, Steps
from vivace.findings.places import nodes_with
from vivace.findings.regex import Regex
from vivace.syntax.languages import walk

__all__ = [
    "All",
    "Any",
    "Condition",
    "Follows",
    "Has",
    "Inside",
    "Kind",
    "Matches",
    "Not",
    "OfPattern",
    "OfRegex",
    "Outward",
    "Precedes",
    "StopBy",
    "Whole",
    "Words",
]

_T = TypeVar("_T")

Words: TypeAlias = tuple[frozenset[bytes], ...]
"""Of each of these sets a node's text must have one word."""

Surroundings: TypeAlias = "tuple[tuple[Inside, ...], ...]"

_DEEPEST = 100
"""Conditions within conditions that name each other."""

StopBy: TypeAlias = "Literal['neighbor', 'end'] | Condition"


class Condition(Protocol):
    @property
    def kinds(self) -> frozenset[int] | None:
        """The kinds of nodes that can meet it; ``None``: any."""

    @property
    def words(self) -> Words: ...

    @property
    def file_words(self) -> Words:
        """The same for the text of the whole file, where what is around the node counts, too."""

    @property
    def within(self) -> Surroundings:
        """Groups of conditions about what is around a node: of each group one must be met."""

    @property
    def parents(self) -> frozenset[int] | None:
        """The kinds of which the node right above must have one; ``None``: any."""

    @property
    def inward(self) -> frozenset[str]:
        """Names that are surely bound, to code within the node."""

    @property
    def names(self) -> frozenset[str]:
        """All names it may bind."""

    @property
    def looks_out(self) -> bool:
        """Whether what is around the node counts."""

    def match(self, node: Node, bound: Bindings, steps: Steps) -> Bindings | None:
        """What is bound after it is met; ``None``: it is not."""


class OfPattern:
    looks_out = False
    within: Surroundings = ()
    parents = None

    def __init__(self, pattern: Pattern) -> None:
        self.match = pattern.match
        self.kinds = pattern.kinds
        self.words: Words = tuple(frozenset({word}) for word in sorted(pattern.words))
        self.file_words = self.words
        self.names = self.inward = pattern.names
        self.is_plain = pattern.is_plain


class Kind:
    looks_out = False
    within: Surroundings = ()
    parents = None
    names = inward = frozenset[str]()
    words: Words = ()
    file_words: Words = ()

    def __init__(self, kind: int) -> None:
        self.kinds = frozenset({kind})
        self._kind = kind

    def match(self, node: Node, bound: Bindings, steps: Steps) -> Bindings | None:
        return bound if node.kind_id == self._kind else None


class OfRegex:
    looks_out = False
    within: Surroundings = ()
    parents = None
    names = inward = frozenset[str]()
    kinds = None

    def __init__(self, regex: Regex) -> None:
        self._regex = regex
        self.words: Words = (regex.words,) if regex.words else ()
        self.file_words = self.words

    def match(self, node: Node, bound: Bindings, steps: Steps) -> Bindings | None:
        steps.take()
        return bound if self._regex.found_in(node.text or b"", steps) else None


class All:
    def __init__(self, conditions: Sequence[Condition]) -> None:
        self.parts = tuple(conditions)
        known = [each.kinds for each in conditions if each.kinds is not None]
        self.kinds = reduce(frozenset.intersection, known) if known else None
        self.within: Surroundings = tuple(some for each in conditions for some in each.within)
        self.parents = next((each.parents for each in conditions if each.parents is not None), None)
        self.words: Words = tuple(words for each in conditions for words in each.words)
        self.file_words: Words = tuple(words for each in conditions for words in each.file_words)
        self.inward = _union(each.inward for each in conditions)
        self.names = _union(each.names for each in conditions)
        self.looks_out = any(each.looks_out for each in conditions)

    def match(self, node: Node, bound: Bindings, steps: Steps) -> Bindings | None:
        if self.kinds is not None and node.kind_id not in self.kinds:
            return None
        for condition in self.parts:
            met = condition.match(node, bound, steps)
            if met is None:
                return None
            bound = met
        return bound


class Any:
    def __init__(self, conditions: Sequence[Condition]) -> None:
        self.parts = tuple(conditions)
        self.kinds = _any_of(each.kinds for each in conditions)
        self.within: Surroundings = ()
        if conditions and all(each.within for each in conditions):
            self.within = (tuple(one for each in conditions for one in each.within[-1]),)
        self.parents = _any_of(each.parents for each in conditions)
        self.words: Words = ()
        if conditions and all(each.words for each in conditions):
            self.words = (_union(_rarest(each.words) for each in conditions),)
        self.file_words: Words = ()
        if conditions and all(each.file_words for each in conditions):
            self.file_words = (_union(_rarest(each.file_words) for each in conditions),)
        inward = [each.inward for each in conditions]
        self.inward = reduce(frozenset.intersection, inward) if inward else frozenset()
        self.names = _union(each.names for each in conditions)
        self.looks_out = any(each.looks_out for each in conditions)

    def match(self, node: Node, bound: Bindings, steps: Steps) -> Bindings | None:
        if self.kinds is not None and node.kind_id not in self.kinds:
            return None
        for condition in self.parts:
            now = condition.match(node, bound, steps)
            if now is not None:
                return now
        return None


class Not:
    kinds = parents = None
    within: Surroundings = ()
    words: Words = ()
    file_words: Words = ()
    inward = frozenset[str]()

    def __init__(self, condition: Condition) -> None:
        self._condition = condition
        self.names = condition.names
        self.looks_out = condition.looks_out

    def match(self, node: Node, bound: Bindings, steps: Steps) -> Bindings | None:
        return bound if self._condition.match(node, bound, steps) is None else None


class Matches:
    """A condition of ``utils``, by its name: they may name each other."""

    inward = frozenset[str]()

    def __init__(
        self, name: str, known: Mapping[str, Condition], alike: Hashable | None = None
    ) -> None:
        """``alike`` is equal for all conditions that are read from the same text."""
        self._name, self._known, self.alike = name, known, alike
        self.condition = read = known.get(name)
        # What names itself is not known to the end while it is read: then nothing is presumed.
        self.kinds = None if read is None else read.kinds
        self.within: Surroundings = () if read is None else read.within
        self.parents = None if read is None else read.parents
        self.words: Words = () if read is None else read.words
        self.file_words: Words = () if read is None else read.file_words
        self.names = frozenset({name}) if read is None else read.names
        self.looks_out = True if read is None else read.looks_out

    def match(self, node: Node, bound: Bindings, steps: Steps) -> Bindings | None:
        steps.take()
        if steps.depth == _DEEPEST:
            raise OutOfSteps
        steps.depth += 1
        try:
            return self._known[self._name].match(node, bound, steps)
        finally:
            steps.depth -= 1


class _Related:
    """Another node, somewhere from this one, must meet a condition."""

    kinds: frozenset[int] | None = None
    within: Surroundings = ()
    parents: frozenset[int] | None = None
    words: Words = ()
    inward = frozenset[str]()
    looks_out = True

    def __init__(self, condition: Condition, stop_by: StopBy, field: int | None = None) -> None:
        self._condition = condition
        self._stop_by = stop_by
        self._field = field
        self.file_words: Words = condition.file_words
        self.names = condition.names
        if not isinstance(stop_by, str):
            self.names |= stop_by.names

    def _first(self, nodes: Iterable[Node], bound: Bindings, steps: Steps) -> Bindings | None:
        """The first of these nodes that meets the condition, up to where the search ends."""
        for node in nodes:
            steps.take()
            now = self._condition.match(node, bound, steps)
            if now is not None:
                return now
            if self._stop_by == "neighbor" or self._stops(node, steps):
                return None
        return None

    def _stops(self, node: Node, steps: Steps) -> bool:
        stop = self._stop_by
        return not isinstance(stop, str) and stop.match(node, {}, steps) is not None


class Outward(_Related):
    """What may be asked from within a scope about what is around it. The answer is the same for all
    nodes of the scope, and is remembered for it."""

    def holds_beyond(self, steps: Steps) -> bool:
        """The answer for a scope as a whole."""
        assert steps.scope is not None
        if self not in steps.beyond:
            steps.beyond[self] = self._beyond(steps.scope, {}, steps) is not None
        return steps.beyond[self]

    def _beyond_scope(self, bound: Bindings, steps: Steps) -> Bindings | None:
        assert steps.scope is not None
        if self.names:
            steps.is_closed = False
            return self._beyond(steps.scope, bound, steps)
        return bound if self.holds_beyond(steps) else None

    def _beyond(self, node: Node, bound: Bindings, steps: Steps) -> Bindings | None:
        raise NotImplementedError

    def _can_be(self, steps: Steps) -> bool:
        """Whether the file has the words of what is looked for."""
        if not self._condition.words:
            return True
        if self not in steps.shared:
            text = steps.root.text or b""
            words = self._condition.words
            steps.shared[self] = all(any(each in text for each in some) for some in words)
        return steps.shared[self]


class Inside(Outward):
    def __init__(self, condition: Condition, stop_by: StopBy, field: int | None = None) -> None:
        super().__init__(condition, stop_by, field)
        self.around = condition.kinds or frozenset()
        """The kinds of nodes that can be what is around a node."""
        self.within = ((self,),) if self.around and not self.names else ()
        self.parents = condition.kinds if stop_by == "neighbor" else None

    def match(self, node: Node, bound: Bindings, steps: Steps) -> Bindings | None:
        scope = steps.scope
        if not self._can_be(steps):
            return None if scope is None else self._beyond_scope(bound, steps)
        if scope is None or not _is_within(node, scope):
            return self._beyond(node, bound, steps)
        around = [] if node == scope else _up_to(scope, self._around(node, steps))
        met, stopped = self._search(node, around, bound, steps)
        if met is not None or stopped or (around and around[-1] != scope):
            return met
        return self._beyond_scope(bound, steps)

    def can_be(self, around: Node, steps: Steps) -> bool:
        """Return whether ``around`` can be the node that is asked for. The condition must have no
        names."""
        return self._met(around, {}, steps) is not None

    def _beyond(self, node: Node, bound: Bindings, steps: Steps) -> Bindings | None:
        if not self._can_be(steps):
            return None
        return self._search(node, self._around(node, steps), bound, steps)[0]

    def _around(self, node: Node, steps: Steps) -> Sequence[Node]:
        if self._stop_by == "neighbor":
            return () if node.parent is None else (node.parent,)
        return _ancestors(node, steps)

    def _met(self, parent: Node, bound: Bindings, steps: Steps) -> Bindings | None:
        """Many nodes ask the same of what is around all of them."""
        if self.names:
            return self._condition.match(parent, bound, steps)
        key = self, parent.id, parent.kind_id, parent.start_byte
        if key not in steps.shared:
            steps.shared[key] = self._condition.match(parent, {}, steps) is not None
        return bound if steps.shared[key] else None

    def _search(
        self, node: Node, around: Iterable[Node], bound: Bindings, steps: Steps
    ) -> tuple[Bindings | None, bool]:
        """What is bound where one of these nodes meets the condition, and whether it is over
        where none does."""
        for parent in around:
            steps.take()
            if self._field is None or parent.child_by_field_id(self._field) == node:
                met = self._met(parent, bound, steps)
                if met is not None:
                    return met, True
            if self._stop_by == "neighbor" or self._stops(parent, steps):
                return None, True
            node = parent
        return None, False


class Has(_Related):
    def __init__(self, condition: Condition, stop_by: StopBy, field: int | None = None) -> None:
        super().__init__(condition, stop_by, field)
        self.words = condition.words
        self._rare_words = _rarest(condition.words) if condition.words else frozenset[bytes]()
        self.inward = condition.inward
        self.looks_out = condition.looks_out or (not isinstance(stop_by, str) and stop_by.looks_out)

    def match(self, node: Node, bound: Bindings, steps: Steps) -> Bindings | None:
        if self._field is None:
            return self._below(node, bound, steps)
        child = node.child_by_field_id(self._field)
        if child is None:
            return None
        if self._stop_by == "end":
            return self._anywhere_in(child, bound, steps)
        now = self._condition.match(child, bound, steps)
        if now is not None or self._stop_by == "neighbor" or self._stops(child, steps):
            return now
        return self._among(child.children, bound, steps)

    def near(self, unsure: frozenset[str]) -> Condition | None:
        """The same without what looks around."""
        if not isinstance(self._stop_by, str) and self._stop_by.looks_out:
            return None
        inner = _near(self._condition, unsure)
        return None if inner is None else Has(inner, self._stop_by, self._field)

    def _below(self, node: Node, bound: Bindings, steps: Steps) -> Bindings | None:
        if self._stop_by == "neighbor":
            return self._among(node.children, bound, steps)
        if self._stop_by == "end":
            return self._anywhere_in(node, bound, steps, is_itself=False)
        waiting = list(reversed(node.children))
        while waiting:
            steps.take()
            child = waiting.pop()
            now = self._condition.match(child, bound, steps)
            if now is not None:
                return now
            if not self._stops(child, steps):
                waiting.extend(reversed(child.children))
        return None

    def _anywhere_in(
        self, node: Node, bound: Bindings, steps: Steps, *, is_itself: bool = True
    ) -> Bindings | None:
        """Match the first node below this one that meets the condition. With ``is_itself``, the
        node itself comes first."""
        condition = self._condition
        nodes = walk(node)
        if self._rare_words:
            steps.take((node.end_byte - node.start_byte) // 64)
            nodes = nodes_with(self._rare_words, node)
        kinds, match = condition.kinds, condition.match
        for each in nodes:
            steps.take()
            if kinds is not None and each.kind_id not in kinds:
                continue
            if is_itself or each != node:
                now = match(each, bound, steps)
                if now is not None:
                    return now
        return None

    def _among(self, nodes: Iterable[Node], bound: Bindings, steps: Steps) -> Bindings | None:
        for node in nodes:
            steps.take()
            now = self._condition.match(node, bound, steps)
            if now is not None:
                return now
        return None


class _Beside(Outward):
    def match(self, node: Node, bound: Bindings, steps: Steps) -> Bindings | None:
        if steps.scope is not None and node == steps.scope:
            return self._beyond_scope(bound, steps)
        return self._beyond(node, bound, steps)

    def _beyond(self, node: Node, bound: Bindings, steps: Steps) -> Bindings | None:
        parent = node.parent
        siblings = [node] if parent is None else parent.children
        return self._first(self._side(siblings, siblings.index(node)), bound, steps)

    def _side(self, siblings: Sequence[Node], at: int) -> Iterable[Node]:
        raise NotImplementedError


class Precedes(_Beside):
    def _side(self, siblings: Sequence[Node], at: int) -> Iterable[Node]:
        return siblings[at + 1 :]


class Follows(_Beside):
    def _side(self, siblings: Sequence[Node], at: int) -> Iterable[Node]:
        return reversed(siblings[:at])


class Whole:
    """A rule's condition with the constraints on what its names stand for."""

    def __init__(self, condition: Condition, constraints: Mapping[str, Condition]) -> None:
        self._condition = condition
        self._constraints = dict(constraints)
        self.kinds, self.parents = condition.kinds, condition.parents
        self.within = condition.within
        bound_within = condition.inward & constraints.keys()
        self.words: Words = condition.words + tuple(
            words for name in sorted(bound_within) for words in constraints[name].words
        )
        self.file_words: Words = condition.file_words + tuple(
            words for name in sorted(bound_within) for words in constraints[name].file_words
        )
        self.names = condition.names | _union(each.names for each in constraints.values())
        self.inward = condition.inward
        self.looks_out = condition.looks_out or any(each.looks_out for each in constraints.values())
        self._near = _near(condition, frozenset())
        alike = condition.alike if isinstance(condition, Matches) else None
        self.alike: Hashable = self if alike is None or condition.names else alike
        """Equal for rules of a language whose conditions are the same."""

    def may_match(self, node: Node, steps: Steps) -> bool:
        """Whether it can, as far as that can be told without looking around the node."""
        return self._near is None or self._near.match(node, {}, steps) is not None

    def match(self, node: Node, bound: Bindings, steps: Steps) -> Bindings | None:
        now = self._condition.match(node, bound, steps)
        if now is None:
            return None
        for name, constraint in self._constraints.items():
            value = now.get(name)
            if isinstance(value, Node):
                met = constraint.match(value, now, steps)
                if met is None:
                    return None
                now = met
        return now


class _Asked:
    """A condition that was made easier: it tells no, and nothing of what its names stand for."""

    looks_out = False
    within: Surroundings = ()
    parents = None
    file_words: Words = ()
    names = inward = frozenset[str]()

    def __init__(self, condition: Condition) -> None:
        self._condition = condition
        self.kinds, self.words = condition.kinds, condition.words

    def match(self, node: Node, bound: Bindings, steps: Steps) -> Bindings | None:
        return None if self._condition.match(node, bound, steps) is None else bound


def _near(condition: Condition, unsure: frozenset[str]) -> Condition | None:
    """What of a condition must be met and does not look around, if any. ``unsure`` are names that
    what was left out may have bound: what goes by them may take another way through the code than
    without them, so of that only patterns with one way are left."""
    if not condition.looks_out:
        if not condition.names & unsure:
            return condition
        if isinstance(condition, OfPattern):
            return condition if condition.is_plain else None
    if isinstance(condition, Matches):
        read = condition.condition
        return None if read is None else _near(read, unsure)
    if isinstance(condition, Has):
        return condition.near(unsure)
    if isinstance(condition, Any):
        some = [_near(each, unsure) for each in condition.parts]
        known = [each for each in some if each is not None]
        return Any(known) if len(known) == len(some) else None
    return _all_near(condition.parts, unsure) if isinstance(condition, All) else None


def _all_near(parts: Sequence[Condition], unsure: frozenset[str]) -> Condition | None:
    kept: list[Condition] = []
    for each in parts:
        near = _near(each, unsure)
        if near is not each:
            unsure |= each.names
        if near is not None:
            kept.append(near if near is each else _Asked(near))
    return All(kept) if kept else None


def _union(sets: Iterable[frozenset[_T]]) -> frozenset[_T]:
    return frozenset().union(*sets)


def _any_of(sets: Iterable[frozenset[_T] | None]) -> frozenset[_T] | None:
    """Return what is in any of the sets; ``None``: one of them is not limited."""
    known = list(sets)
    return None if None in known else _union(each for each in known if each is not None)


def _rarest(words: Words) -> frozenset[bytes]:
    """Of several sets the one that the fewest texts are likely to have."""
    return max(words, key=lambda each: min(len(word) for word in each))


def _ancestors(node: Node, steps: Steps) -> list[Node]:
    """The nearest first. A node is found by going down from the root; those that are asked for one
    after another mostly have the same way, which is not gone twice."""
    start, end = node.start_byte, node.end_byte
    found = steps.way
    while found and not _is_around(found[-1], start, end):
        found.pop()
    at: Node | None = found.pop() if found else steps.root
    known = len(found)
    while at is not None and at != node:
        found.append(at)
        at = at.child_with_descendant(node)
    steps.take((len(found) - known) // 4 + len(found) // 32)
    return found[::-1]


def _is_around(node: Node, start: int, end: int) -> bool:
    """Whether it surely is: of two nodes with one place either may be around the other."""
    first, last = node.start_byte, node.end_byte
    return first <= start < end <= last and last - first > end - start


def _is_within(node: Node, scope: Node) -> bool:
    return scope.start_byte <= node.start_byte and node.end_byte <= scope.end_byte


def _up_to(scope: Node, around: Sequence[Node]) -> Sequence[Node]:
    for at, parent in enumerate(around):
        if parent == scope:
            return around[: at + 1]
    return around

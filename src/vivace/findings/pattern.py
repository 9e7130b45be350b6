"""Patterns: code with holes, matched against trees as ast-grep matches them.

A pattern is code of its language in which ``$NAME`` stands for one node, ``$$NAME`` for one that
may be punctuation, and ``$$$NAME`` for any number of them; a name met twice must mean the same
code, and one that begins with ``_`` is not remembered. It is parsed with the grammar of the code it
is for, so layout does not count; nor do comments, nor punctuation that only the code has
(ast-grep's strictness ``smart``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol, TypeAlias

from msgspec import Struct
from tree_sitter import Node

from vivace.syntax.languages import Language, kind_id, parse

__all__ = [
    "LEFT",
    "Asked",
    "Bindings",
    "Helpers",
    "OutOfSteps",
    "Pattern",
    "PatternError",
    "Steps",
    "same_code",
]

Bindings: TypeAlias = Mapping[str, "Node | tuple[Node, ...]"]
"""What the names of a pattern stand for; those of ``$$$NAME`` are written with their signs."""
LEFT = "$$$"
"""The name, which no pattern can have, of the nodes that patterns passed over: what is put in the
place of the code must not lose them."""
_NO_MATTER = frozenset({"", "\n", ",", ";", ":", "(", ")", "[", "]", "{", "}"})
"""Punctuation that code has or has not, and means the same."""

_SIGNS = {"c": "𐀀", "cpp": "𐀀", "go": "µ", "python": "µ", "rust": "µ"}
"""What takes the place of ``$`` where no name may have it; the same that ast-grep takes."""
_DOLLARS = re.compile(r"(\$+)([^$]?)", re.DOTALL)
_ERROR = 65535
"""The kind of nodes that break the grammar."""


class PatternError(ValueError):
    """The text is no pattern; the message says why and what to write instead."""


class OutOfSteps(Exception):
    """A rule was tried for too long; see ``Steps``."""


class Asked(Protocol):
    """A question about what is around a scope; it can be told from others."""

    def holds_beyond(self, steps: Steps) -> bool:
        """The answer for the scope as a whole."""


class Helpers(Protocol):
    """The functions that a file defines for itself."""

    def answer(self, asked: Asked) -> bool: ...

    def may_be_called(self, helper: Asked) -> bool:
        """Return False if no other function of the file calls this one."""

    def may_have_source(self, taint: object) -> bool:
        """Return False if the file has no source of this rule."""


class Steps:
    """How many nodes may still be compared in a tree. Counted, not timed, so that the same text
    always has the same findings, however slow the machine."""

    __slots__ = (
        "beyond",
        "depth",
        "helpers",
        "is_closed",
        "left",
        "root",
        "scope",
        "shared",
        "way",
    )

    def __init__(
        self,
        left: int,
        root: Node,
        scope: Node | None = None,
        shared: dict[object, bool] | None = None,
        way: list[Node] | None = None,
        helpers: Helpers | None = None,
    ) -> None:
        self.left = left
        self.root = root
        self.depth = 0
        """Of conditions that name each other."""
        self.scope = scope
        """The node that is looked at, if it counts what was asked about its surroundings."""
        self.beyond: dict[Asked, bool] = {}
        """What was asked, and the answer: as long as that is the same, so is all else."""
        self.shared: dict[object, bool] = {} if shared is None else shared
        """What was asked of the nodes of this tree before, and the answers."""
        self.way: list[Node] = [] if way is None else way
        """From the root to the node whose surroundings were asked for last."""
        self.helpers = helpers
        """None where nothing but the scope is known."""
        self.is_closed = True
        """Whether no more than that came from outside."""

    def take(self, count: int = 1) -> None:
        self.left -= count
        if self.left < 0:
            raise OutOfSteps


class _Hole(Struct, frozen=True):
    name: str | None
    many: bool
    named: bool
    """Whether it stands for named nodes only."""


class _Leaf(Struct, frozen=True):
    kind: int
    text: bytes
    named: bool


class _Inner(Struct, frozen=True):
    kind: int
    children: tuple[_Hole | _Leaf | _Inner, ...]


_Part: TypeAlias = _Hole | _Leaf | _Inner

# What comparing one part with one node comes to.
_SAME, _SKIP_NODE, _DIFFERENT = range(3)


class Pattern:
    def __init__(self, part: _Part, kind: int | None) -> None:
        self._part = part
        self._kind = kind
        """The kind the node must have, where a hole alone would take any."""

    @classmethod
    def of(cls, text: str, language: Language, selector: str | None = None) -> Pattern:
        """``selector``: the kind of the node that is meant, where the text is only its context."""
        sign = _SIGNS.get(language.name, "$")
        root = parse(_with_sign(text, sign), language).root_node
        if selector is None:
            node = _only_node(root, text)
            pattern = cls(_part_of(node, sign), None)
        else:
            wanted = kind_id(language, selector)
            if wanted is None:
                raise PatternError(
                    f"{language.name} has no node kind '{selector}'. Name one of its grammar."
                )
            found = next((each for each in _each(root) if each.kind_id == wanted), None)
            if found is None:
                raise PatternError(
                    f"nothing in the pattern's context is a '{selector}'. Change either of them."
                )
            pattern = cls(_part_of(found, sign), wanted)
        if isinstance(pattern._part, _Hole) and pattern._part.many:
            raise PatternError("a pattern is one node, $$$ is many. Write the code around it, too.")
        return pattern

    @property
    def kinds(self) -> frozenset[int] | None:
        """The kinds a node it matches may have; ``None``: any."""
        if isinstance(self._part, _Hole):
            return None if self._kind is None else frozenset({self._kind})
        return None if self._part.kind == _ERROR else frozenset({self._part.kind})

    @property
    def is_broken(self) -> bool:
        """Whether it is no right code of its language, taken by itself."""
        return not isinstance(self._part, _Hole) and self._part.kind == _ERROR

    @property
    def is_plain(self) -> bool:
        """Whether there is one way only to lay it over a node, whatever its names stand for."""
        return not any(isinstance(each, _Hole) and each.many for each in _parts(self._part))

    @property
    def words(self) -> frozenset[bytes]:
        """What must stand in the text of a node that it matches: all of these."""
        return frozenset(_words(self._part))

    @property
    def names(self) -> frozenset[str]:
        return frozenset(_names(self._part))

    def match(self, node: Node, bound: Bindings, steps: Steps) -> Bindings | None:
        """What its names stand for in this node, besides what is bound; ``None``: no match."""
        if self._kind is not None and node.kind_id != self._kind:
            return None
        matching = _Matching(bound, steps)
        if isinstance(self._part, _Hole):
            return matching.bound if matching.hole(self._part, node) else None
        return matching.bound if matching.compare(self._part, node) == _SAME else None


class _Matching:
    """One comparison on its way: what is bound so far."""

    __slots__ = ("bound", "steps")

    def __init__(self, bound: Bindings, steps: Steps) -> None:
        self.bound = bound
        self.steps = steps

    def compare(self, part: _Part, node: Node) -> int:
        self.steps.take()
        if isinstance(part, _Inner):
            if part.kind not in (node.kind_id, _ERROR):
                return _DIFFERENT
            return _SAME if self.children(part.children, node.children) else _DIFFERENT
        if isinstance(part, _Leaf):
            if part.kind in (node.kind_id, _ERROR) and (not part.named or part.text == node.text):
                return _SAME
            return _SKIP_NODE if node.is_extra or not node.is_named else _DIFFERENT
        if node.is_extra:
            return _SKIP_NODE
        return _SAME if self.hole(part, node) else _DIFFERENT

    def hole(self, part: _Hole, node: Node) -> bool:
        if part.named and not node.is_named:
            return False
        return part.name is None or self.bind(part.name, node)

    def bind(self, name: str, node: Node) -> bool:
        known = self.bound.get(name)
        if isinstance(known, Node) and not same_code(known, node, self.steps):
            return False
        self.bound = {**self.bound, name: node}
        return True

    def bind_many(self, name: str | None, nodes: Sequence[Node]) -> bool:
        if name is None:
            return True
        known = self.bound.get("$$$" + name)
        if isinstance(known, tuple):
            before = [node for node in known if node.is_named]
            now = [node for node in nodes if node.is_named]
            if len(before) != len(now) or not all(
                same_code(one, other, self.steps) for one, other in zip(before, now, strict=True)
            ):
                return False
        self.bound = {**self.bound, "$$$" + name: tuple(nodes)}
        return True

    def leave(self, nodes: Sequence[Node]) -> None:
        """Remember what no part stands for. Comments are found without that."""
        left = [
            each
            for each in nodes
            if not each.is_extra and (each.is_named or each.type not in _NO_MATTER)
        ]
        if left:
            before = self.bound.get(LEFT, ())
            assert isinstance(before, tuple)
            self.bound = {**self.bound, LEFT: (*before, *left)}

    def children(self, parts: Sequence[_Part], nodes: Sequence[Node]) -> bool:
        """Nodes left over at the end are no matter; those between must be matched or skipped."""
        if not nodes or not parts:
            self.leave(nodes)
            return bool(nodes)
        at_part = at_node = 0
        while True:
            part = parts[at_part]
            if isinstance(part, _Hole) and part.many:
                step = self._many(parts, at_part, nodes, at_node)
                if isinstance(step, bool):
                    return step
                at_part, at_node = step
                part = parts[at_part]
                if isinstance(part, _Hole) and part.many:
                    continue
            matched = self._one(part, nodes, at_node)
            if matched is None:
                return False
            if matched == len(nodes):
                return all(isinstance(each, _Hole) and each.many for each in parts[at_part:])
            at_part, at_node = at_part + 1, matched + 1
            if at_part == len(parts) or at_node == len(nodes):
                if at_node < len(nodes):
                    self.leave(nodes[at_node:])
                return at_part == len(parts)

    def _one(self, part: _Part, nodes: Sequence[Node], at: int) -> int | None:
        """Which node is the next that a part matches; their number: all others were skipped;
        ``None``: it does not match."""
        while at < len(nodes):
            compared = self.compare(part, nodes[at])
            if compared == _SAME:
                return at
            if compared == _DIFFERENT:
                return None
            self.leave((nodes[at],))
            at += 1
        return at

    def _many(
        self, parts: Sequence[_Part], at_part: int, nodes: Sequence[Node], at_node: int
    ) -> tuple[int, int] | bool:
        """As few nodes as can be, up to one that the next part matches; whether all is matched, or
        where to go on."""
        hole = parts[at_part]
        assert isinstance(hole, _Hole)
        rest = at_part + 1
        while rest < len(parts) and _is_punctuation(parts[rest]):
            rest += 1
        skipped = rest - at_part - 1
        if rest == len(parts):
            self.leave(nodes[max(at_node, len(nodes) - skipped) :])
            return self.bind_many(hole.name, _less(nodes[at_node:], skipped))
        after = parts[rest]
        taken = at_node
        if isinstance(after, _Hole) and after.many:
            taken += 1
            if taken >= len(nodes):
                return False
        else:
            while True:
                before = self.bound
                compared = self.compare(after, nodes[taken])
                self.bound = before
                if compared == _SAME:
                    break
                taken += 1
                if taken >= len(nodes):
                    return False
        if not self.bind_many(hole.name, _less(nodes[at_node:taken], skipped)):
            return False
        return rest, taken


def same_code(one: Node, other: Node, steps: Steps) -> bool:
    """Whether two nodes are the same code, but for layout."""
    waiting = [(one, other)]
    while waiting:
        steps.take()
        one, other = waiting.pop()
        if one == other:
            continue
        if not one.named_child_count or not other.named_child_count:
            if one.text != other.text:
                return False
        elif one.kind_id != other.kind_id or one.child_count != other.child_count:
            return False
        else:
            waiting.extend(zip(one.children, other.children, strict=True))
    return True


def _less(nodes: Sequence[Node], count: int) -> Sequence[Node]:
    return nodes[: max(0, len(nodes) - count)]


def _is_punctuation(part: _Part) -> bool:
    return isinstance(part, _Leaf) and not part.named


def _with_sign(text: str, sign: str) -> str:
    """With what the grammar takes for ``$``, where that begins a hole."""
    if sign == "$":
        return text

    def replaced(match: re.Match[str]) -> str:
        dollars, after = match.group(1), match.group(2)
        is_hole = len(dollars) == 3 or after == "_" or "A" <= after <= "Z"
        return (sign if is_hole else "$") * len(dollars) + after

    return _DOLLARS.sub(replaced, text)


def _hole(text: str, sign: str) -> _Hole | None:
    """What a name with the sign stands for, if it is one of ours."""
    rest = text.lstrip(sign)
    signs = len(text) - len(rest)
    if not 0 < signs < 4 or re.fullmatch(r"[A-Z0-9_]*", rest) is None:
        return None
    if signs == 3:
        return _Hole(None if not rest or rest[0] == "_" else rest, many=True, named=False)
    if not rest or rest[0].isdigit():
        return None
    return _Hole(None if rest[0] == "_" else rest, many=False, named=signs == 1)


def _only_node(root: Node, text: str) -> Node:
    if not root.child_count:
        raise PatternError("the pattern is empty. Write the code that is to be found.")
    if not _is_alone(root):
        raise PatternError(
            f"the pattern is more than one statement: {text!r}. Write one, or give 'context' and "
            "'selector'."
        )
    while _is_alone(root):
        root = root.children[0]
    return root


def _is_alone(node: Node) -> bool:
    children = node.children
    if len(children) == 2:
        return children[1].is_missing or not children[1].type
    return len(children) == 1


def _part_of(node: Node, sign: str) -> _Part:
    text = node.text or b""
    hole = _hole(text.decode(), sign)
    if hole is not None:
        return hole
    if not node.child_count:
        return _Leaf(node.kind_id, text, node.is_named)
    children = (_part_of(child, sign) for child in node.children if not child.is_missing)
    return _Inner(node.kind_id, tuple(children))


def _each(node: Node) -> Iterator[Node]:
    yield node
    for child in node.children:
        yield from _each(child)


def _parts(part: _Part) -> Iterator[_Part]:
    yield part
    for child in part.children if isinstance(part, _Inner) else ():
        yield from _parts(child)


def _words(part: _Part) -> Iterator[bytes]:
    return (each.text for each in _parts(part) if isinstance(each, _Leaf) and each.named)


def _names(part: _Part) -> Iterator[str]:
    for each in _parts(part):
        if isinstance(each, _Hole) and each.name is not None:
            yield each.name

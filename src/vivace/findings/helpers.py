"""The functions that a file defines for itself: whether what they return is tainted, when they are
called with something that is.

A helper is known by its name, if no other function of the file has it. What it returns follows from
its text and from the helpers that it calls in turn, to a depth that is the same wherever the
question comes from: so the answers are those of a fresh scan.
"""

from __future__ import annotations

from contextlib import suppress

from tree_sitter import Node

from vivace.findings.flows import FLOWS
from vivace.findings.pattern import Asked, OutOfSteps, Steps
from vivace.findings.remembered import Memory, Run
from vivace.findings.taint import Helper, Returns
from vivace.syntax.source import Source

__all__ = ["FileHelpers"]

_STEPS = 10_000
"""For one question: a helper that needs more is taken for one that returns something else."""
_NAMED = ("variable_declarator", "pair", "public_field_definition", "field_definition")
"""What gives a function a name that has none of its own."""


class FileHelpers:
    """Of one text."""

    def __init__(self, source: Source, memory: Memory, shared: dict[object, bool]) -> None:
        self._source = source
        self._root = source.tree.root_node
        self._memory = memory
        self._shared = shared
        self._answers: dict[Asked, bool] = {}
        self._by_name: dict[str, Node | None] | None = None

    def answer(self, asked: Asked) -> bool:
        if asked not in self._answers:
            self._answers[asked] = self._answer(asked)
        return self._answers[asked]

    def _answer(self, asked: Asked) -> bool:
        if isinstance(asked, Helper):
            return self._helper(asked) is not None
        return isinstance(asked, Returns) and self._returns(asked)

    def _returns(self, call: Returns) -> bool:
        node = self._helper(call.helper)
        if node is None:
            return False
        key = call.taint, call.level, call.given, call.part, node.kind_id, node.text
        known = self._memory.get(key)
        if isinstance(known, Run) and known.holds_at(node, self._root, self._shared, self):
            return known.returns
        steps = Steps(_STEPS, self._root, node, self._shared, helpers=self)
        returns = False
        with suppress(OutOfSteps):
            returns = call.taint.returns(node, steps, call)
        if steps.is_closed:
            self._memory.keep(key, Run((), steps.beyond, _STEPS - steps.left, returns))
        return returns

    def _helper(self, call: Helper) -> Node | None:
        """The only function of the file that has this name, and can be called like that."""
        if self._by_name is None:
            self._by_name = self._names()
        node = self._by_name.get(call.name)
        if node is not None and self._source.is_in("go"):
            return node if (node.type == "method_declaration") == call.is_on_other else None
        return node

    def _names(self) -> dict[str, Node | None]:
        found: dict[str, Node | None] = {}
        assert self._source.language is not None
        for node in self._source.nodes(FLOWS[self._source.language.name].functions):
            name = _name_of(node)
            if name:
                found[name] = None if name in found else node
        return found


def _name_of(function: Node) -> str:
    name = function.child_by_field_name("name")
    if name is None and function.parent is not None and function.parent.type in _NAMED:
        parent = function.parent
        name = parent.child_by_field_name("name") or parent.child_by_field_name("key")
    declarator = function
    while name is None and (inner := declarator.child_by_field_name("declarator")) is not None:
        declarator = inner
        if inner.child_by_field_name("declarator") is None:
            name = inner
    text = b"" if name is None else name.text or b""
    return text.decode("utf-8", "replace").rpartition("::")[2]

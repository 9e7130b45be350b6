"""The functions that a file defines for itself: whether what they return is tainted, when they are
called with something that is, and whether somebody in the file does that.

A helper is known by its name, if no other function of the file has it. What it returns follows from
its text and from the helpers that it calls in turn, to a depth that is the same wherever the
question comes from: so the answers are those of a fresh scan.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from contextlib import suppress

from tree_sitter import Node

from vivace.findings.flows import FLOWS
from vivace.findings.pattern import Asked, OutOfSteps, Steps
from vivace.findings.remembered import Memory, Run
from vivace.findings.taint import Handed, Helper, Returns, name_of
from vivace.syntax.source import Source

__all__ = ["FileHelpers"]

_STEPS = 10_000
"""For one question: a helper that needs more is taken for one that returns something else."""
_CALLERS = 100
"""Functions that are looked at for one that hands something tainted to a helper."""


class FileHelpers:
    """Of one text."""

    def __init__(self, source: Source, memory: Memory, shared: dict[object, bool]) -> None:
        self._source = source
        self._root = source.tree.root_node
        self._memory = memory
        self._shared = shared
        self._answers: dict[Asked, bool] = {}
        self._by_name: dict[str, Node | None] | None = None
        assert source.language is not None
        self._functions = FLOWS[source.language.name].functions

    def answer(self, asked: Asked) -> bool:
        if asked not in self._answers:
            self._answers[asked] = self._answer(asked)
        return self._answers[asked]

    def _answer(self, asked: Asked) -> bool:
        if isinstance(asked, Helper):
            return self._helper(asked) is not None
        if isinstance(asked, Handed):
            return any(self._hands_over(each, asked) for each in self._callers(asked.helper))
        return isinstance(asked, Returns) and self._returns(asked)

    def _returns(self, call: Returns) -> bool:
        node = self._helper(call.helper)
        if node is None:
            return False
        key = call.taint, call.level, call.given, call.part
        return self._remembered(key, node, lambda steps: call.taint.returns(node, steps, call))

    def _hands_over(self, caller: Node, handed: Handed) -> bool:
        return self._remembered(
            handed, caller, lambda steps: handed.taint.hands_over(caller, steps, handed)
        )

    def _remembered(self, asked: Hashable, node: Node, ask: Callable[[Steps], bool]) -> bool:
        """What follows from the text of a function, and from what that asks in turn."""
        key = asked, node.kind_id, node.text
        known = self._memory.get(key)
        if isinstance(known, Run) and known.holds_at(node, self._root, self._shared, self):
            return known.answer
        steps = Steps(_STEPS, self._root, node, self._shared, helpers=self)
        answer = False
        with suppress(OutOfSteps):
            answer = ask(steps)
        if steps.is_closed and not node.has_error:
            self._memory.keep(key, Run((), steps.beyond, _STEPS - steps.left, answer))
        return answer

    def _callers(self, helper: Helper) -> list[Node]:
        """The functions that name it, and the file if its own statements do."""
        if self._helper(helper) is None:
            return []
        found: dict[int, Node] = {}
        name, text = helper.name.encode(), self._root.text or b""
        start = self._root.start_byte
        at = text.find(name)
        while at >= 0 and len(found) < _CALLERS:
            node = self._root.descendant_for_byte_range(start + at, start + at + len(name))
            scope = self._scope_of(node) if node is not None and node.text == name else None
            if scope is not None and name_of(scope) != helper.name:
                found[scope.id] = scope
            at = text.find(name, at + 1)
        return list(found.values())

    def _scope_of(self, node: Node) -> Node:
        while node.parent is not None and node.type not in self._functions:
            node = node.parent
        return node

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
        for node in self._source.nodes(self._functions):
            name = name_of(node)
            if name:
                found[name] = None if name in found else node
        return found

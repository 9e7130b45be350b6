"""The functions that a file defines for itself: whether what they return is tainted, when they are
called with something that is, and whether somebody in the file does that.

A helper is known by its name, if no other function of the file has it. What it returns follows from
its text and from the helpers that it calls in turn, to a depth that is the same wherever the
question comes from: so the answers are those of a fresh scan.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from contextlib import suppress
from typing import Any

from tree_sitter import Node

from vivace.findings.flows import FLOWS
from vivace.findings.functions import name_of
from vivace.findings.helper_calls import Handed, Helper, Returns
from vivace.findings.pattern import Asked, OutOfSteps, Steps
from vivace.findings.remembered import Memory, Run
from vivace.findings.sources import FileSources
from vivace.findings.taint import Taint
from vivace.syntax.source import Source

__all__ = ["FileHelpers"]

_STEPS = 5_000
"""For one question: a helper that needs more is taken for one that returns something else."""
_MOST = 1_000
"""Places of a name, in comments too: one that stands more often is no helper's."""
_ABOVE = 4
"""How far above its name a function is, in the tree."""


class FileHelpers:
    """Of one text."""

    def __init__(
        self,
        source: Source,
        memory: Memory,
        shared: dict[object, bool],
        *,
        around_sources: frozenset[int] | None = None,
    ) -> None:
        """``around_sources``: kinds of nodes that sources may have to be within. None where
        ``memory`` serves several texts."""
        self._source = source
        self._root = source.tree.root_node
        self._memory = memory
        self._shared = shared
        self._answers: dict[Asked, bool] = {}
        self._text = self._root.text or b""
        self._by_name: dict[str, Node | None] = {}
        self._mentioned: dict[str, list[Node]] = {}
        self._handed: dict[tuple[Taint, int], frozenset[tuple[Helper, int | str]]] = {}
        assert source.language is not None
        self._sources: FileSources | None = None
        """None where the answers would have to be remembered with what is found in functions."""
        if around_sources is not None:
            self._sources = FileSources(source, around_sources, shared, self)
        self._functions = FLOWS[source.language.name].functions

    def answer(self, asked: Asked) -> bool:
        if asked not in self._answers:
            self._answers[asked] = self._answer(asked)
        return self._answers[asked]

    def may_be_called(self, helper: Asked) -> bool:
        return self._sources is None or not isinstance(helper, Helper) or self._is_called(helper)

    def may_have_source(self, taint: object) -> bool:
        if self._sources is None or not isinstance(taint, Taint):
            return True
        return self._sources.has_one_of(taint)

    def _is_called(self, helper: Helper) -> bool:
        return bool(helper.name) and bool(self._callers(helper))

    def _answer(self, asked: Asked) -> bool:
        if isinstance(asked, Helper):
            return self._helper(asked) is not None
        if isinstance(asked, Handed):
            wanted = {(asked.helper, each) for each in (asked.place, *asked.names)}
            callers = self._callers(asked.helper)
            return any(
                not wanted.isdisjoint(self._handed_by(asked.taint, each)) for each in callers
            )
        return isinstance(asked, Returns) and self._returns(asked)

    def _returns(self, call: Returns) -> bool:
        node = self._helper(call.helper)
        if node is None:
            return False
        key = call.taint, call.level, call.given, call.part
        answer: bool = self._remembered(
            key, node, lambda steps: call.taint.returns(node, steps, call), False
        )
        return answer

    def _handed_by(self, taint: Taint, caller: Node) -> frozenset[tuple[Helper, int | str]]:
        """One look at each caller tells it of all helpers."""
        known = self._handed.get((taint, caller.id))
        if known is None:
            key = "handed", taint, _around(caller)
            known = self._remembered(
                key, caller, lambda steps: taint.handed_by(caller, steps), frozenset()
            )
            self._handed[taint, caller.id] = known
        return known

    def _remembered(
        self, asked: Hashable, node: Node, ask: Callable[[Steps], Any], otherwise: Any
    ) -> Any:
        """What follows from the text of a function, and from what that asks in turn."""
        key = asked, node.kind_id, node.text
        known = self._memory.get(key)
        if isinstance(known, Run) and known.holds_at(node, self._root, self._shared, self):
            return known.answer
        steps = Steps(_STEPS, self._root, node, self._shared, helpers=self)
        answer = otherwise
        with suppress(OutOfSteps):
            answer = ask(steps)
        if steps.is_closed and not node.has_error:
            self._memory.keep(key, Run((), steps.beyond, _STEPS - steps.left, answer))
        return answer

    def _callers(self, helper: Helper) -> list[Node]:
        """The functions that name it, and the file if its own statements do."""
        if self._helper(helper) is None:
            return []
        scopes = {scope.id: scope for scope in map(self._scope_of, self._mentions(helper.name))}
        return [each for each in scopes.values() if name_of(each) != helper.name]

    def _mentions(self, name: str) -> list[Node]:
        """Where a name stands; none if it stands everywhere."""
        if name not in self._mentioned:
            self._mentioned[name] = self._places_of(name.encode())
        return self._mentioned[name]

    def _places_of(self, name: bytes) -> list[Node]:
        start, found, tries = self._root.start_byte, list[Node](), 0
        at = self._text.find(name)
        while at >= 0:
            end = at + len(name)
            if not _goes_on(self._text, at, end):
                tries += 1
                if tries > _MOST:
                    return []
                node = self._root.descendant_for_byte_range(start + at, start + end)
                if node is not None and (node.start_byte, node.end_byte) == (
                    start + at,
                    start + end,
                ):
                    found.append(node)
            at = self._text.find(name, end)
        return found

    def _scope_of(self, node: Node) -> Node:
        while node.parent is not None and node.type not in self._functions:
            node = node.parent
        return node

    def _helper(self, helper: Helper) -> Node | None:
        """The only function of the file that has this name, and can be called like that."""
        name = helper.name
        if name not in self._by_name:
            found = {each.id: each for each in map(self._named, self._mentions(name)) if each}
            self._by_name[name] = next(iter(found.values())) if len(found) == 1 else None
        node = self._by_name[name]
        if node is not None and self._source.is_in("go"):
            return node if (node.type == "method_declaration") == helper.is_on_other else None
        return node

    def _named(self, name: Node) -> Node | None:
        """The function that is called so here."""
        node, text = name.parent, (name.text or b"").decode("utf-8", "replace")
        for _ in range(_ABOVE):
            if node is None:
                return None
            value = node if node.type in self._functions else node.child_by_field_name("value")
            if value is not None and value.type in self._functions:
                own = value.child_by_field_name("name")
                is_it = name_of(value) == text and (own is None or own == name)
                return value if is_it else None
            node = node.parent
        return None


def _around(function: Node) -> bytes:
    """What says beside a function who calls it: its decorators, or that it is handed on."""
    parent = function.parent
    if parent is None or parent.type != "decorated_definition":
        return b"" if parent is None else parent.type.encode()
    return (parent.text or b"")[: function.start_byte - parent.start_byte]


def _goes_on(text: bytes, start: int, end: int) -> bool:
    """Whether a name goes on before or behind these bytes."""
    around = text[start - 1 : start] if start else b"", text[end : end + 1]
    return any(each.isalnum() or each == b"_" for each in around)

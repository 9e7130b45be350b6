"""A function read once, in the order of its text: which sinks tainted values reach, and what it
returns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from tree_sitter import Node

from vivace.findings.functions import (
    FILES,
    adds,
    child_of,
    is_bound,
    is_filled_in,
    is_number,
    parameters_of,
    parts_of,
    text_of,
)
from vivace.findings.helper_calls import Helper
from vivace.findings.pattern import Steps
from vivace.findings.taint_values import BY_NAME, DEEPEST, OWN, RECEIVER, TRIED, Sites, Values
from vivace.syntax.languages import walk

if TYPE_CHECKING:
    from vivace.findings.taint import Taint

__all__ = ["Run"]

_NO_PARAMETERS = ("comment", "self_parameter", "receiver_parameter")
_RECORDS = ("object", "dictionary")
_FEW = 8
"""Values that are told apart where a helper returns several."""
_SEVERAL = ("tuple", "expression_list", "array", "tuple_expression")
"""Several values, as they are returned."""
_RETURNS = ("return_statement", "return_expression")


class Run(Values):
    """One function, read once."""

    def __init__(
        self,
        taint: Taint,
        scope: Node,
        steps: Steps,
        level: int,
        given: frozenset[int | str] = frozenset(),
        part: int | None = None,
        sites: Sites | None = None,
    ) -> None:
        """``given``: which of its arguments are tainted; ``part``: which of several values that it
        returns matters; ``sites``: without them, no sink is looked for."""
        super().__init__(taint, steps, level, sites or Sites())
        self._given = given
        self._part = part
        self._returned = False
        self.watches = False
        """Whether what helpers are handed is noted."""
        self.handed: set[tuple[Helper, int | str]] = set()
        """Helpers, and the places or names of what is tainted that they are handed."""
        self._within = 0
        """Functions around what is read."""
        self._scope = scope
        self._whole_file = scope.type in FILES
        self._reached: list[Node] = []

    def reached(self) -> list[Node]:
        if self._whole_file:
            for child in self._scope.children:
                self._read(child, 0)
        else:
            self._function(self._scope, 0)
        return self._reached

    def returns(self) -> bool:
        self._function(self._scope, 0)
        body = self._scope.child_by_field_name("body")
        if body is not None and not self._returned:
            self._returned = any(self._is_given_back(each) for each in self._last_of(body))
        return self._returned

    def _is_given_back(self, value: Node) -> bool:
        """Whether the part that matters is tainted."""
        if value.type in _RECORDS:  # a statement and what is put into it are two things
            pairs = (each for each in value.named_children if not is_bound(each))
            return any(self._is_tainted(each, 0) for each in pairs)
        if self._part is not None and value.type in _SEVERAL:
            parts = [each for each in value.named_children if each.type != "comment"]
            if self._part < len(parts):
                value = parts[self._part]
        return self._is_tainted(value, 0)

    def _last_of(self, body: Node) -> Iterator[Node]:
        """The values that a body has which says no return."""
        if body.type not in self._flow.blocks:
            yield body
        elif self._flow.last_is_value and body.named_children:
            yield from self._values_of(body.named_children[-1])

    def _values_of(self, last: Node) -> Iterator[Node]:
        self._steps.take()
        if last.type == "expression_statement" and last.child_count == 1:  # without a semicolon
            last = last.children[0]
        if last.type == "if_expression":
            for each in ("consequence", "alternative"):
                branch = last.child_by_field_name(each)
                branch = branch.named_child(0) if branch and each == "alternative" else branch
                if branch is not None:
                    yield from self._last_of(branch)
        elif last.type == "match_expression":
            body = last.child_by_field_name("body")
            for arm in body.named_children if body is not None else ():
                if arm.type == "match_arm" and (value := arm.child_by_field_name("value")):
                    yield from self._last_of(value)
        elif not last.type.endswith(("_statement", "_declaration", "_item")):
            yield last

    # -- statements and expressions, in the order they are run --

    def _read(self, node: Node, depth: int) -> None:
        self._steps.take()
        if depth > DEEPEST:
            return
        flow, kind = self._flow, node.type
        if kind in flow.functions:
            if not self._whole_file:
                self._function(node, depth)
            return
        if kind in flow.blocks:
            self._block(node, depth)
            return
        if kind in flow.loops:
            self._loop(node, depth)
        elif kind in flow.calls:
            self._call(node, depth)
        elif kind in flow.conditions:
            self._condition(node, depth)
        else:
            self._read_parts(node, depth)
            self._binding(node)
            if kind in flow.statements:
                self._trust_call(node)
            if kind in _RETURNS and self._within == 1 and not self._returned:
                self._returned = any(self._is_given_back(each) for each in node.named_children)
        self._sink(node)

    def _read_parts(self, node: Node, depth: int) -> None:
        parts = node.children
        if node.type in self._flow.comprehensions:  # its clauses run first
            parts = sorted(parts, key=lambda each: each.type not in self._flow.clauses)
        for child in parts:
            self._read(child, depth + 1)

    def _function(self, node: Node, depth: int, given: bool = False) -> None:
        """``given``: its first parameter is handed a tainted value."""
        parameters = parameters_of(node)
        if parameters is not None:
            first = next(iter(parameters.named_children), parameters)
            for name in list(self._names_in(parameters)):
                self._tainted.pop(name, None)
            for each in walk(parameters):
                if self._is_source(each) and (not self.watches or is_filled_in(node, each)):
                    for name in self._names_in(each):
                        self._taint_name(name, None)
            for name in self._names_in(first) if given else ():
                self._taint_name(name, None)
        if node == self._scope:
            self._take_given(node, parameters)
        self._within += 1
        for child in node.children:
            if child != parameters:
                self._read(child, depth + 1)
        self._within -= 1

    def _take_given(self, function: Node, parameters: Node | None) -> None:
        """What it is called with."""
        names = list(self._names_of(parameters)) if self._given and parameters is not None else []
        receiver = function.child_by_field_name("receiver") if RECEIVER in self._given else None
        taken = set(self._names_in(receiver)) if receiver is not None else set()
        for place, each in enumerate(names):
            if place in self._given or not self._given.isdisjoint(each):
                taken |= each
        for name in taken:
            self._taint_name(name, None)

    def _names_of(self, parameters: Node) -> Iterator[frozenset[str]]:
        """Those of each parameter by which a text comes in, without the object's own."""
        if parameters.type in self._flow.names:
            yield frozenset([text_of(parameters)])
            return
        for each in parameters.named_children:
            if (
                each.type in ("comment", "self_parameter", "receiver_parameter")
                or text_of(each) in OWN
            ):
                continue
            if is_number(each):
                several = max(1, len(each.children_by_field_name("name")))
                yield from [frozenset[str]()] * several
                continue
            together = each.children_by_field_name("name")
            if len(together) > 1:  # a, b string
                yield from (frozenset([text_of(one)]) for one in together)
            else:
                yield frozenset(self._names_in(each))

    def _block(self, node: Node, depth: int) -> None:
        branch = node.parent is not None and node.parent.type in self._flow.branches
        if branch:
            self._branches.append(node.id)
        for child in node.children:
            self._read(child, depth + 1)
        if branch:
            self._branches.pop()

    def _loop(self, node: Node, depth: int) -> None:
        target, value = (node.child_by_field_name(each) for each in self._flow.bindings[node.type])
        if value is not None:
            self._read(value, depth + 1)
            if target is not None:
                self._bind(target, self._is_tainted(value, depth), value, anew=True)
        for child in node.children:
            if child not in (target, value):
                self._read(child, depth + 1)

    def _call(self, node: Node, depth: int) -> None:
        function, arguments, called_on = self._parts(node)
        for each in (function, called_on):
            if each is not None:
                self._read(each, depth + 1)
        on = self._receiver(function, called_on)
        given = on is not None and self._is_tainted(on, depth)
        handed = self._handed_over(arguments)
        for each in handed:
            if each.type in self._flow.functions and not self._whole_file:
                self._function(each, depth + 1, given)  # as in names.map(name => …)
            else:
                self._read(each, depth + 1)
        name = self._called(function)
        if self.watches:
            self._watch(function, arguments, on, depth)
        target = self._grown(on) if name in self._flow.growing else None
        if name in self._flow.reading:
            self._read_into(handed, given or self._is_source(node), depth)
        if name in self._flow.filling:
            target = next((each for each in handed if each.is_named), None)
            if target is not None and target.type in self._flow.addresses:
                target = target.named_child(0)
            handed = handed[2:]
        place = None if target is None else self._place(target)
        if place and any(self._is_tainted(each, depth) for each in handed):
            self._taint_name(place, arguments)

    def _grown(self, on: Node | None) -> Node | None:
        """What ``text.append(a).append(b)`` adds to."""
        while on is not None and on.type in self._flow.calls:
            function, _, called_on = self._parts(on)
            if self._called(function) not in self._flow.growing:
                break
            on = self._receiver(function, called_on)
        return on

    def _watch(
        self, function: Node | None, arguments: Node | None, on: Node | None, depth: int
    ) -> None:
        helper = self._helper(function, on)
        if helper is None or arguments is None or not helper.holds_beyond(self._steps):
            return
        for place, each in enumerate(parts_of(arguments)):
            if self._is_tainted(each, depth):
                by_name = each.child_by_field_name("name") if each.type in BY_NAME else None
                self.handed.add((helper, place if by_name is None else text_of(by_name)))

    def parameter_names(self) -> list[frozenset[str]]:
        parameters = parameters_of(self._scope)
        return [] if parameters is None else list(self._names_of(parameters))

    def _read_into(self, handed: Sequence[Node], tainted: bool, depth: int) -> None:
        """``decoder.Decode(&wanted)``."""
        into = [each for each in handed if each.type in self._flow.addresses]
        if tainted or any(self._is_tainted(each, depth) for each in handed if each not in into):
            for each in into:
                target = next(iter(each.named_children), None)
                if target is not None and (place := self._place(target)):
                    self._taint_name(place, None)
                    self._filled.add(place)

    def _condition(self, node: Node, depth: int) -> None:
        field = self._flow.conditions[node.type]
        children = node.children
        condition = node.child_by_field_name(field) if field else child_of(node, 1)
        if condition is not None:
            self._read(condition, depth + 1)
            self._trust(condition)
        for child in children:
            if child != condition:
                self._read(child, depth + 1)

    def _binding(self, node: Node) -> None:
        flow = self._flow
        if node.type in flow.aliases:
            value, target = node.children[0], node.children[-1]
        elif node.type in flow.bindings:
            fields = flow.bindings[node.type]
            found = [node.child_by_field_name(each) for each in fields]
            if found[0] is None or found[1] is None:
                return
            target, value = found[0], found[1]
        else:
            return
        tainted = self._is_tainted(value, 0)
        if flow.checks_by_result:
            self._trust_checks(value)
        parts = parts_of(target) if tainted and target.type in flow.patterns else []
        if 0 < len(parts) <= _FEW and (call := self._helper_call(value)):
            for place, each in enumerate(parts):
                returned = self._returned_by_helper(*self._parts(call), 0, place)
                self._bind(each, bool(returned), value)
        elif tainted or not adds(node):
            self._bind(target, tainted, value)

    def _helper_call(self, value: Node) -> Node | None:
        """The call of a helper that is all of a value."""
        while value.type in (*TRIED, "expression_list", "await") and value.named_child_count == 1:
            value = value.named_children[0]
        if value.type not in self._flow.calls:
            return None
        return value if self._returned_by_helper(*self._parts(value), 0) is not None else None

    def _sink(self, node: Node) -> None:
        for part in self._sites.sinks.get(node.id, ()):
            if self._is_tainted(part, 0):
                self._reached.append(node)
                return

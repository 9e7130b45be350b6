"""Whether a value is tainted: what names were given, what was checked, what calls hand on."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from tree_sitter import Node

from vivace.findings.functions import child_of, text_of
from vivace.findings.helper_calls import Helper, Returns
from vivace.findings.matching import Whole
from vivace.findings.pattern import Steps
from vivace.syntax.languages import walk

if TYPE_CHECKING:
    from vivace.findings.taint import Taint

__all__ = ["BY_NAME", "DEEPEST", "OWN", "RECEIVER", "SINK", "TRIED", "Sites", "Values"]

_FEW = 8
"""Arguments that are told apart."""
DEEPEST = 120
"""Expressions within expressions."""
OWN = ("self", "this", "cls", "Self")
"""What a helper of the same class is called on."""
RECEIVER = -1
"""What it is called on, among what a helper is given."""
_NO_PARAMETERS = ("comment", "self_parameter", "receiver_parameter")
TRIED = ("try_expression", "await_expression")
_TEXTS = ("string_literal", "raw_string_literal")
_BRACES = re.compile(r"\{(\w+)[:}]")
BY_NAME = ("keyword_argument",)
SINK = "SINK"
"""Name in a sink for the part that must be tainted; without it, any part counts."""


class Sites:
    """The sinks, sources and sanitizers of one scope. They do not depend on what is tainted, so all
    readings of the scope share them."""

    def __init__(self) -> None:
        self.sinks: dict[int, tuple[Node, ...]] = {}
        """Sinks by their ids, with the parts of which one must be tainted."""
        self.sources: dict[int, bool] = {}
        """Nodes that were asked for, by their ids, and whether each is a source."""
        self.sanitizers: dict[int, bool] = {}


class Values:
    """What is known of names and expressions, at the place that has been read so far."""

    def __init__(self, taint: Taint, steps: Steps, level: int, sites: Sites) -> None:
        """``level``: how far helpers are followed that call others."""
        self._taint = taint
        self._flow = taint.flow
        self._steps = steps
        self._level = level
        self._tainted: dict[str, tuple[int, ...]] = {}
        """Names, and the branches they got their value in, outer before inner."""
        self._made_of: dict[str, frozenset[str]] = {}
        self._trusted: set[str] = set()
        """What was checked without being given a name, as it is spelled: ``req.query.sort``."""
        self._filled: set[str] = set()
        """Names of what was read into: to check one of its fields says nothing of the others."""
        self._branches: list[int] = []
        self._sites = sites

    # -- names --

    def _bind(self, target: Node, tainted: bool, value: Node, anew: bool = False) -> None:
        flow, kind = self._flow, target.type
        if kind in flow.patterns:
            for child in target.children:
                if child.is_named and child.type not in flow.keys:
                    self._bind(child, tainted, value, anew)
        elif kind in flow.items:
            place = self._place(target.child_by_field_name(flow.items[kind]) or target)
            if tainted and place:
                self._taint_name(place, value)
        elif place := self._place(target):
            if tainted:
                self._taint_name(place, value)
            else:
                self._clean_name(place, value, anew)

    def _taint_name(self, name: str, value: Node | None) -> None:
        self._tainted[name] = tuple(self._branches)
        self._remember(name, value)

    def _clean_name(self, name: str, value: Node, anew: bool) -> None:
        self._remember(name, value)
        there = self._tainted.get(name)
        if there is None:
            return
        here = tuple(self._branches)
        if anew or there[: len(here)] == here or name in self._made_of[name]:
            del self._tainted[name]

    def _remember(self, name: str, value: Node | None) -> None:
        if value is not None:
            self._made_of[name] = frozenset(self._names_in(value))

    def _names_in(self, node: Node) -> Iterator[str]:
        for each in walk(node):
            if each.type in self._flow.names or each.type in self._flow.members:
                yield text_of(each)

    def _wholes_in(self, node: Node) -> Iterator[Node]:
        """Names that stand for themselves, and not for one of their fields."""
        waiting = [node]
        while waiting:
            each = waiting.pop()
            if each.type in self._flow.names:
                yield each
            elif each.type not in self._flow.members:
                waiting += each.children

    def _places_in(self, node: Node) -> Iterator[str]:
        """``a.b`` and ``a[b]``, the whole of each."""
        waiting = [node]
        while waiting:
            each = waiting.pop()
            if each.type in self._flow.members or each.type in self._flow.items:
                yield text_of(each)
            else:
                waiting += each.children

    def _trust_call(self, statement: Node) -> None:
        """``check(name)`` as a statement of its own, which raises an error if it is wrong."""
        call = child_of(statement, 0)
        if call is not None and call.type in ("await", "await_expression"):
            call = child_of(call, 1)
        if call is not None and call.type in self._flow.calls and self._is_sanitizer(call):
            self._trust_names(call)

    def _trust_checks(self, value: Node) -> None:
        """``_, err := check(name)``."""
        call = value.named_children[0] if value.type in self._flow.patterns else value
        while call.type in TRIED and call.named_children:
            call = call.named_children[0]
        if call.type in self._flow.calls and self._is_sanitizer(call):
            self._trust_names(call)

    def _trust(self, condition: Node) -> None:
        for each in walk(condition):
            if self._is_sanitizer(each):
                self._trust_names(each)

    def _trust_names(self, node: Node) -> None:
        """What it speaks of is checked from here on, and what that was made of."""
        self._trusted |= set(self._places_in(node))
        names = set(self._names_in(node))
        if not self._filled.isdisjoint(names):
            names -= self._filled - {text_of(each) for each in self._wholes_in(node)}
        waiting = list(names)
        while waiting:
            new = self._made_of.get(waiting.pop(), frozenset()) - names
            names |= new
            waiting += new
        for name in names:
            self._tainted.pop(name, None)

    # -- values --

    def _is_tainted(self, node: Node, depth: int) -> bool:
        self._steps.take()
        if depth > DEEPEST or self._is_sanitizer(node):
            return False
        flow, kind = self._flow, node.type
        if kind in flow.members or kind in flow.items:
            return self._is_tainted_place(node, depth)
        if self._is_source(node):
            return True
        if kind in flow.names:
            return text_of(node) in self._tainted
        if kind in flow.calls:
            return self._is_tainted_call(node, depth)
        if kind in flow.harmless:
            return False
        if kind in flow.macros and self._has_tainted_in_braces(node):
            return True
        return any(self._is_tainted(each, depth + 1) for each in self._handed_on(node))

    def _has_tainted_in_braces(self, macro: Node) -> bool:
        """``format!("{name}")``."""
        texts = (each for each in walk(macro) if each.type in _TEXTS)
        return any(
            name in self._tainted for each in texts for name in _BRACES.findall(text_of(each))
        )

    def _is_tainted_place(self, node: Node, depth: int) -> bool:
        """``a.b`` and ``a[b]``."""
        text = text_of(node)
        if text in self._trusted:
            return False
        if text in self._tainted or self._is_source(node):
            return True
        if fields := self._flow.members.get(node.type):
            of, name = (node.child_by_field_name(each) for each in fields)
            if name is not None and text_of(name) in self._flow.counts:
                return False
        else:
            field = self._flow.items[node.type]
            of = node.child_by_field_name(field) if field else child_of(node, 0)
        return of is not None and self._is_tainted(of, depth + 1)

    def _is_tainted_call(self, node: Node, depth: int) -> bool:
        function, arguments, called_on = self._parts(node)
        returned = self._returned_by_helper(function, arguments, called_on, depth)
        on = self._receiver(function, called_on)
        if returned is not None:
            return returned
        if on is not None and self._is_tainted(on, depth + 1):
            by_helper = self._made_by_helper(function, arguments)
            if by_helper is not None:
                return by_helper
            made = self._made_by(function, arguments)
            return made is None or any(self._is_tainted(each, depth + 1) for each in made)
        if function is not None and self._is_source(function):
            return True
        if arguments is None or self._called(function) not in self._flow.passing:
            return False
        return any(self._is_tainted(each, depth + 1) for each in self._handed_over(arguments))

    def _returned_by_helper(
        self,
        function: Node | None,
        arguments: Node | None,
        called_on: Node | None,
        depth: int,
        part: int | None = None,
    ) -> bool | None:
        """Whether that is tainted; None if no helper of the file is called."""
        on = self._receiver(function, called_on)
        helper = self._helper(function, on)
        if not self._level or helper is None or self._steps.helpers is None:
            return None
        if not helper.holds_beyond(self._steps):
            return None
        given: set[int | str] = set()
        if helper.is_on_other and on is not None and self._is_tainted(on, depth + 1):
            given.add(RECEIVER)
        handed = [] if arguments is None else arguments.named_children
        for place, each in enumerate(each for each in handed if each.type != "comment"):
            if self._is_tainted(each, depth + 1):
                by_name = each.child_by_field_name("name") if each.type in BY_NAME else None
                given.add(place if by_name is None else text_of(by_name))
        if given and len(handed) > _FEW:  # not each choice of them is a question
            given = {*range(len(handed))}
        call = Returns(self._taint, helper, frozenset(given), self._level - 1, part)
        return call.holds_beyond(self._steps)

    def _made_by_helper(self, function: Node | None, arguments: Node | None) -> bool | None:
        """``names.map(escaped)``."""
        if arguments is None or self._called(function) not in self._flow.mapping:
            return None
        first = next(iter(arguments.named_children), None)
        if first is None or first.type not in self._flow.names or not self._level:
            return None
        helper = Helper(text_of(first), is_on_other=False)
        if self._steps.helpers is None or not helper.holds_beyond(self._steps):
            return None
        call = Returns(self._taint, helper, frozenset([0]), self._level - 1)
        return call.holds_beyond(self._steps)

    def _made_by(self, function: Node | None, arguments: Node | None) -> list[Node] | None:
        """What a function returns that is called with each of several values; ``None`` where the
        values themselves are the result."""
        if arguments is None or self._called(function) not in self._flow.mapping:
            return None
        for each in arguments.children:
            body = each.child_by_field_name("body")
            if each.type in self._flow.functions and body is not None:
                if body.type not in self._flow.blocks:
                    return [body]
                return [part for part in walk(body) if part.type == "return_statement"]
        return None

    def _handed_on(self, node: Node) -> list[Node]:
        """The parts of an expression that its value is made of."""
        flow, kind = self._flow, node.type
        if kind in flow.values:
            value = node.child_by_field_name("value")
            return [] if value is None else [value]
        children = node.children
        if kind in flow.choices:
            condition = node.child_by_field_name("condition")
            if condition is None and len(children) == 5:
                condition = children[2]
            return [each for each in children if each != condition]
        if kind in flow.comprehensions:
            return [each for each in children if each.type not in flow.clauses]
        if kind.startswith(("binary", "unary")) and any(
            each.type in flow.operators for each in children if not each.is_named
        ):
            return []
        return children

    def _is_source(self, node: Node) -> bool:
        return self._known(node, self._sites.sources, self._taint.sources_by_kind.at(node))

    def _is_sanitizer(self, node: Node) -> bool:
        return self._known(node, self._sites.sanitizers, self._taint.sanitizers_by_kind.at(node))

    def _known(self, node: Node, known: dict[int, bool], conditions: Sequence[Whole]) -> bool:
        if not conditions:
            return False
        found = known.get(node.id)
        if found is None:
            found = known[node.id] = any(
                each.match(node, {}, self._steps) is not None for each in conditions
            )
        return found

    # -- the parts of a call --

    def _parts(self, node: Node) -> tuple[Node | None, Node | None, Node | None]:
        function, arguments, called_on = self._flow.calls[node.type]
        return (
            node.child_by_field_name(function),
            node.child_by_field_name(arguments),
            node.child_by_field_name(called_on) if called_on else None,
        )

    def _handed_over(self, arguments: Node | None) -> list[Node]:
        if arguments is None:
            return []
        if arguments.type in self._flow.comprehensions:  # "".join(each for each in names)
            return [arguments]
        return arguments.children

    def _receiver(self, function: Node | None, called_on: Node | None) -> Node | None:
        if function is not None and function.type in self._flow.members:
            return function.child_by_field_name(self._flow.members[function.type][0])
        return called_on

    def _called(self, function: Node | None) -> str:
        """The last part of the name of what is called."""
        if function is None:
            return ""
        if function.type in self._flow.members:
            function = function.child_by_field_name(self._flow.members[function.type][1])
        return "" if function is None else text_of(function).rpartition("::")[2].partition("<")[0]

    def _place(self, node: Node) -> str | None:
        """What a name or ``a.b`` is remembered by."""
        if node.type in self._flow.names or node.type in self._flow.members:
            return text_of(node)
        return None

    def _helper(self, function: Node | None, on: Node | None) -> Helper | None:
        """What is called, if that may be a function of the file."""
        name = self._called(function)
        is_on_other = on is not None and text_of(on) not in OWN
        if not name or (is_on_other and not self._flow.methods_stand_alone):
            return None
        spelled = "" if function is None else text_of(function)
        if "::" in spelled and spelled != f"Self::{name}":
            return None
        return Helper(name, is_on_other)

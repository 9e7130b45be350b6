"""Taint: whether what others can choose reaches a place where it does harm, within one function and
what it is returned by the helpers of its file.

The function is read once, in the order of its text. A name is tainted from where it is given a
tainted value to where it is given another; a branch that may not be run takes nothing away. What
is checked in a condition, or by a call that stands for itself, is trusted from there on, and so is
what it was made of. That is less than a compiler knows, and enough to tell a query with a
placeholder from one with a value in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct
from tree_sitter import Node

from vivace.findings.flows import FLOWS, Flow
from vivace.findings.matching import Whole
from vivace.findings.pattern import Steps
from vivace.syntax.languages import Language, kind_id, walk

__all__ = ["Handed", "Helper", "Returns", "Taint", "name_of"]

_FILES = ("module", "program", "translation_unit", "source_file")
"""What is outside all functions is a scope of its own."""
_DEEPEST = 120
"""Expressions within expressions."""
_SINK = "SINK"
"""What a sink calls the part of it that must be tainted; without it, any part counts."""
_LEVELS = 2
"""How far helpers are followed that call others."""
_OWN = ("self", "this", "cls", "Self")
"""What a helper of the same class is called on."""
_RECEIVER = -1
"""What it is called on, among what a helper is given."""
_NO_PARAMETERS = ("comment", "self_parameter", "receiver_parameter")
_TRIED = ("try_expression", "await_expression")
_TEXTS = ("string_literal", "raw_string_literal")
_BRACES = re.compile(r"\{(\w+)[:}]")
_BY_NAME = ("keyword_argument",)
_NAMED = ("variable_declarator", "pair", "public_field_definition", "field_definition")
"""What gives a function a name that has none of its own."""
_RECORDS = ("object", "dictionary")
_BOUND = re.compile(
    r"""["']?(values|params|parameters|args|arguments|bind(s|ings)?|replacements)["']?\s*(:|$)"""
)
"""What a record calls values that a query is given beside its text."""
_SEVERAL = ("tuple", "expression_list", "array", "tuple_expression")
"""Several values, as they are returned."""
_RETURNS = ("return_statement", "return_expression")
_NUMBER = re.compile(
    r":?\s*(u?int\d*|[iu](8|16|32|64|128|size)|[fF](32|64)|float(32|64)?|double|long|short|byte|char|"
    r"bool(ean)?|number|bigint|Integer|Long|Double|Boolean|[uU]{2}[iI][dD](\.UUID)?|(date)?time|"
    r"time\.\w+)"
)
"""The type of a parameter that no text comes through."""


class Helper(Struct, frozen=True):
    """Whether the file has a function of its own that is called so."""

    name: str
    is_on_other: bool
    """Whether it is called on something that is not the object that the call stands in."""

    def holds_beyond(self, steps: Steps) -> bool:
        return _answer(self, steps)


class Returns(Struct, frozen=True):
    """Whether what a helper of the file returns is tainted, if it is called like this."""

    taint: Taint
    helper: Helper
    given: frozenset[int | str]
    """Which of its arguments are tainted, by their places or names."""
    level: int
    """How far its own helpers are followed."""
    part: int | None = None
    """Of several values that it returns, the one that matters."""

    def holds_beyond(self, steps: Steps) -> bool:
        return _answer(self, steps)


class Handed(Struct, frozen=True):
    """Whether somewhere in the file a helper is handed something tainted."""

    taint: Taint
    helper: Helper
    place: int
    """Of the argument."""
    names: frozenset[str]
    """What the helper calls it."""

    def holds_beyond(self, steps: Steps) -> bool:
        return _answer(self, steps)


class Named(Struct, frozen=True):
    """Whether the scope is called so; some have their names beside them."""

    name: str

    def holds_beyond(self, steps: Steps) -> bool:
        if self not in steps.beyond:
            steps.beyond[self] = steps.scope is not None and name_of(steps.scope) == self.name
        return steps.beyond[self]


def _answer(asked: Helper | Returns | Handed, steps: Steps) -> bool:
    if asked not in steps.beyond:
        steps.beyond[asked] = steps.helpers is not None and steps.helpers.answer(asked)
    return steps.beyond[asked]


class Taint:
    def __init__(
        self,
        sources: Sequence[Whole],
        sinks: Sequence[Whole],
        sanitizers: Sequence[Whole],
        language: Language,
    ) -> None:
        self.sources, self.sinks, self.sanitizers = sources, sinks, sanitizers
        self.flow = FLOWS[language.name]
        self.words = _words(sinks)
        self.file_words = _words(sinks, of_file=True) + _words(sources, of_file=True)
        self.functions = _kinds(self.flow.functions, language)
        self.files = _kinds(_FILES, language)
        self.kinds = self.functions | self.files
        self.looks_out = True
        """At the helpers of the file."""
        self._anywhere = tuple(each for each in sinks if each.kinds is None)
        kinds = {kind for each in sinks for kind in each.kinds or ()}
        self._by_kind = {
            kind: tuple(each for each in sinks if each.kinds is None or kind in each.kinds)
            for kind in kinds
        }

    def sinks_at(self, node: Node) -> Sequence[Whole]:
        """Those that a node of its kind can be."""
        return self._by_kind.get(node.kind_id, self._anywhere)

    def may_match(self, scope: Node, steps: Steps) -> bool:
        """Whether there is a sink in it, as far as that can be told without looking around it."""
        return any(
            sink.may_match(node, steps)
            for node in _of_scope(scope, self.flow)
            for sink in self.sinks_at(node)
        )

    def reached(self, scope: Node, steps: Steps) -> Iterator[Node]:
        """The sinks that tainted values reach."""
        if self.may_match(scope, steps):
            reached = _Run(self, scope, steps, _LEVELS).reached()
            yield from reached
            if scope.type not in _FILES and steps.helpers is not None:
                yield from self._by_callers(scope, steps, {each.id for each in reached})

    def _by_callers(self, helper: Node, steps: Steps, known: set[int]) -> Iterator[Node]:
        """The sinks that are reached by what others in the file hand to this function."""
        run = _Run(self, helper, steps, _LEVELS)
        names = run.parameter_names()
        name = name_of(helper)
        if not any(names) or not name:
            return

        def more(given: Iterable[int]) -> list[Node]:
            run = _Run(self, helper, steps, _LEVELS, frozenset(given))
            return [each for each in run.reached() if each.id not in known]

        if not more(range(len(names))) or not Named(name).holds_beyond(steps):
            return
        called = Helper(name, helper.type == "method_declaration" and self.flow.methods_stand_alone)
        for place, each in enumerate(names):
            reached = more([place]) if each else []
            if reached and Handed(self, called, place, each).holds_beyond(steps):
                known |= {node.id for node in reached}
                yield from reached

    def hands_over(self, caller: Node, steps: Steps, handed: Handed) -> bool:
        """Whether a function hands something tainted to a helper, or a file outside of all."""
        run = _Run(self, caller, steps, _LEVELS)
        run.watched = handed
        run.reached()
        return run.handed

    def returns(self, helper: Node, steps: Steps, call: Returns) -> bool:
        """Whether what a function returns is tainted that is called so."""
        return _Run(self, helper, steps, call.level, call.given, call.part).returns()


def _kinds(names: Iterable[str], language: Language) -> frozenset[int]:
    return frozenset(kind for name in names if (kind := kind_id(language, name)) is not None)


def _words(conditions: Sequence[Whole], *, of_file: bool = False) -> tuple[frozenset[bytes], ...]:
    """Of these a function, or a file, that any of them matches in must have one."""
    sets = [each.file_words if of_file else each.words for each in conditions]
    if not all(sets):
        return ()
    return (frozenset().union(*(min(words, key=len) for words in sets)),)


def _of_scope(scope: Node, flow: Flow) -> Iterator[Node]:
    """What belongs to it; functions in a function do, those in a file are scopes of their own."""
    if scope.type not in _FILES:
        yield from walk(scope)
        return
    waiting = list(reversed(scope.children))
    while waiting:
        node = waiting.pop()
        yield node
        if node.type not in flow.functions:
            waiting.extend(reversed(node.children))


class _Run:
    """One function, read once."""

    def __init__(
        self,
        taint: Taint,
        scope: Node,
        steps: Steps,
        level: int,
        given: frozenset[int | str] = frozenset(),
        part: int | None = None,
    ) -> None:
        self._taint = taint
        self._part = part
        self._level = level
        self._given = given
        self._returned = False
        self.watched: Handed | None = None
        self.handed = False
        """Whether what is watched for was seen."""
        self._within = 0
        """Functions around what is read."""
        self._flow = taint.flow
        self._scope = scope
        self._steps = steps
        self._whole_file = scope.type in _FILES
        self._tainted: dict[str, tuple[int, ...]] = {}
        """Names, and the branches they got their value in, outer before inner."""
        self._made_of: dict[str, frozenset[str]] = {}
        self._trusted: set[str] = set()
        """What was checked without being given a name, as it is spelled: ``req.query.sort``."""
        self._filled: set[str] = set()
        """Names of what was read into: to check one of its fields says nothing of the others."""
        self._branches: list[int] = []
        self._sources: dict[int, bool] = {}
        self._sanitizers: dict[int, bool] = {}
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
            pairs = (each for each in value.named_children if not _is_bound(each))
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
        if last.type == "expression_statement" and last.child_count == 1:  # without a semicolon
            last = last.children[0]
        if last.type == "if_expression":
            for each in ("consequence", "alternative"):
                branch = last.child_by_field_name(each)
                branch = branch.named_child(0) if branch and each == "alternative" else branch
                if branch is not None:
                    yield from self._last_of(branch)
        elif last.type == "match_expression":
            for arm in walk(last):
                if arm.type == "match_arm" and (value := arm.child_by_field_name("value")):
                    yield from self._last_of(value)
        elif not last.type.endswith(("_statement", "_declaration", "_item")):
            yield last

    # -- statements and expressions, in the order they are run --

    def _read(self, node: Node, depth: int) -> None:
        self._steps.take()
        if depth > _DEEPEST:
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
            self._parts_of(node, depth)
            self._binding(node)
            if kind in flow.statements:
                self._trust_call(node)
            if kind in _RETURNS and self._within == 1 and not self._returned:
                self._returned = any(self._is_given_back(each) for each in node.named_children)
        self._sink(node)

    def _parts_of(self, node: Node, depth: int) -> None:
        parts = node.children
        if node.type in self._flow.comprehensions:  # its clauses run first
            parts = sorted(parts, key=lambda each: each.type not in self._flow.clauses)
        for child in parts:
            self._read(child, depth + 1)

    def _function(self, node: Node, depth: int, given: bool = False) -> None:
        """``given``: its first parameter is handed a tainted value."""
        parameters = _parameters(node)
        if parameters is not None:
            first = next(iter(parameters.named_children), parameters)
            for name in list(self._names_in(parameters)):
                self._tainted.pop(name, None)
            for each in walk(parameters):
                if self._is_source(each):
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
        receiver = function.child_by_field_name("receiver") if _RECEIVER in self._given else None
        taken = set(self._names_in(receiver)) if receiver is not None else set()
        for place, each in enumerate(names):
            if place in self._given or not self._given.isdisjoint(each):
                taken |= each
        for name in taken:
            self._taint_name(name, None)

    def _names_of(self, parameters: Node) -> Iterator[frozenset[str]]:
        """Those of each parameter by which a text comes in, without the object's own."""
        if parameters.type in self._flow.names:
            yield frozenset([_text(parameters)])
            return
        for each in parameters.named_children:
            if (
                each.type in ("comment", "self_parameter", "receiver_parameter")
                or _text(each) in _OWN
            ):
                continue
            if _is_number(each):
                several = max(1, len(each.children_by_field_name("name")))
                yield from [frozenset[str]()] * several
                continue
            together = each.children_by_field_name("name")
            if len(together) > 1:  # a, b string
                yield from (frozenset([_text(one)]) for one in together)
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
        if self.watched is not None and name == self.watched.helper.name:
            self._watch(self.watched, function, arguments, on, depth)
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
        self,
        watched: Handed,
        function: Node | None,
        arguments: Node | None,
        on: Node | None,
        depth: int,
    ) -> None:
        if self.handed or self._helper(function, on) != watched.helper:
            return
        for place, each in enumerate(_parts_of(arguments) if arguments is not None else []):
            by_name = each.child_by_field_name("name") if each.type in _BY_NAME else None
            meant = place == watched.place if by_name is None else _text(by_name) in watched.names
            self.handed = self.handed or (meant and self._is_tainted(each, depth))

    def _helper(self, function: Node | None, on: Node | None) -> Helper | None:
        """What is called, if that may be a function of the file."""
        name = self._called(function)
        is_on_other = on is not None and _text(on) not in _OWN
        if not name or (is_on_other and not self._flow.methods_stand_alone):
            return None
        spelled = "" if function is None else _text(function)
        if "::" in spelled and spelled != f"Self::{name}":
            return None
        return Helper(name, is_on_other)

    def parameter_names(self) -> list[frozenset[str]]:
        parameters = _parameters(self._scope)
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
        condition = node.child_by_field_name(field) if field else _child(node, 1)
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
        if tainted and target.type in flow.patterns and (call := self._helper_call(value)):
            for place, each in enumerate(_parts_of(target)):
                returned = self._returned_by_helper(*self._parts(call), 0, place)
                self._bind(each, bool(returned), value)
        elif tainted or not _adds(node):
            self._bind(target, tainted, value)

    def _helper_call(self, value: Node) -> Node | None:
        """The call of a helper that is all of a value."""
        while value.type in (*_TRIED, "expression_list", "await") and value.named_child_count == 1:
            value = value.named_children[0]
        if value.type not in self._flow.calls:
            return None
        return value if self._returned_by_helper(*self._parts(value), 0) is not None else None

    def _sink(self, node: Node) -> None:
        for sink in self._taint.sinks_at(node):
            bound = sink.match(node, {}, self._steps)
            if bound is not None:
                part = bound.get(_SINK, node)
                if isinstance(part, Node) and self._is_tainted(part, 0):
                    self._reached.append(node)
                    return

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
                yield _text(each)

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
                yield _text(each)
            else:
                waiting += each.children

    def _trust_call(self, statement: Node) -> None:
        """``check(name)`` as a statement of its own, which raises an error if it is wrong."""
        call = _child(statement, 0)
        if call is not None and call.type in ("await", "await_expression"):
            call = _child(call, 1)
        if call is not None and call.type in self._flow.calls and self._is_sanitizer(call):
            self._trust_names(call)

    def _trust_checks(self, value: Node) -> None:
        """``_, err := check(name)``."""
        call = value.named_children[0] if value.type in self._flow.patterns else value
        while call.type in _TRIED and call.named_children:
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
            names -= self._filled - {_text(each) for each in self._wholes_in(node)}
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
        if depth > _DEEPEST or self._is_sanitizer(node):
            return False
        flow, kind = self._flow, node.type
        if kind in flow.members or kind in flow.items:
            return self._is_tainted_place(node, depth)
        if self._is_source(node):
            return True
        if kind in flow.names:
            return _text(node) in self._tainted
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
        return any(name in self._tainted for each in texts for name in _BRACES.findall(_text(each)))

    def _is_tainted_place(self, node: Node, depth: int) -> bool:
        """``a.b`` and ``a[b]``."""
        text = _text(node)
        if text in self._trusted:
            return False
        if text in self._tainted or self._is_source(node):
            return True
        if fields := self._flow.members.get(node.type):
            of, name = (node.child_by_field_name(each) for each in fields)
            if name is not None and _text(name) in self._flow.counts:
                return False
        else:
            field = self._flow.items[node.type]
            of = node.child_by_field_name(field) if field else _child(node, 0)
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
            given.add(_RECEIVER)
        handed = [] if arguments is None else arguments.named_children
        for place, each in enumerate(each for each in handed if each.type != "comment"):
            if self._is_tainted(each, depth + 1):
                by_name = each.child_by_field_name("name") if each.type in _BY_NAME else None
                given.add(place if by_name is None else _text(by_name))
        call = Returns(self._taint, helper, frozenset(given), self._level - 1, part)
        return call.holds_beyond(self._steps)

    def _made_by_helper(self, function: Node | None, arguments: Node | None) -> bool | None:
        """``names.map(escaped)``."""
        if arguments is None or self._called(function) not in self._flow.mapping:
            return None
        first = next(iter(arguments.named_children), None)
        if first is None or first.type not in self._flow.names or not self._level:
            return None
        helper = Helper(_text(first), is_on_other=False)
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
        return self._known(node, self._sources, self._taint.sources)

    def _is_sanitizer(self, node: Node) -> bool:
        return self._known(node, self._sanitizers, self._taint.sanitizers)

    def _known(self, node: Node, known: dict[int, bool], conditions: Sequence[Whole]) -> bool:
        found = known.get(node.id)
        if found is None:
            found = known[node.id] = any(
                (each.kinds is None or node.kind_id in each.kinds)
                and each.match(node, {}, self._steps) is not None
                for each in conditions
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
        return "" if function is None else _text(function).rpartition("::")[2].partition("<")[0]

    def _place(self, node: Node) -> str | None:
        """What a name or ``a.b`` is remembered by."""
        if node.type in self._flow.names or node.type in self._flow.members:
            return _text(node)
        return None


def _child(node: Node, number: int) -> Node | None:
    """Half-typed code may not have it."""
    return node.child(number) if number < node.child_count else None


def _is_bound(pair: Node) -> bool:
    return _BOUND.match(_text(pair)) is not None


def _is_number(parameter: Node) -> bool:
    """Whether no text can come in by it."""
    kind, declarator = (parameter.child_by_field_name(each) for each in ("type", "declarator"))
    if declarator is not None and declarator.type in ("pointer_declarator", "array_declarator"):
        return False
    return kind is not None and _NUMBER.fullmatch(_text(kind)) is not None


def name_of(function: Node) -> str:
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


def _parts_of(pattern: Node) -> list[Node]:
    return [each for each in pattern.named_children if each.type != "comment"]


def _parameters(function: Node) -> Node | None:
    """All of them, or the only one that an arrow function has; in C they are a level below."""
    at: Node | None = function
    while at is not None:
        for field in ("parameters", "parameter"):
            if (found := at.child_by_field_name(field)) is not None:
                return found
        at = at.child_by_field_name("declarator")
    return None


def _adds(node: Node) -> bool:
    """``+=`` and its like leave what was there."""
    operator = node.child_by_field_name("operator")
    return operator is not None and operator.type not in ("=", ":=")


def _text(node: Node) -> str:
    return (node.text or b"").decode("utf-8", "replace")

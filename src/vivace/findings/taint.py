"""Taint: whether what others can choose reaches a place where it does harm, within one function,
through what helpers of its file return, and into helpers that are called with it.

The function is read once, in the order of its text. A name is tainted from where it is given a
tainted value to where it is given another; a branch that may not be run takes nothing away. What
is checked in a condition, or by a call that stands for itself, is trusted from there on, and so is
what it was made of. That is less than a compiler knows, and enough to tell a query with a
placeholder from one with a value in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from tree_sitter import Node

from vivace.findings.flows import FLOWS, Flow
from vivace.findings.functions import FILES, name_of
from vivace.findings.helper_calls import Handed, Helper, Named, Returns
from vivace.findings.matching import Whole
from vivace.findings.pattern import Steps
from vivace.findings.places import nodes_with
from vivace.findings.taint_run import Run
from vivace.findings.taint_values import SINK, Sites
from vivace.syntax.languages import Language, kind_id, walk

__all__ = ["Taint"]

_LEVELS = 2
"""How far helpers are followed that call others."""


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
        self._sink_words = sorted(word for some in self.words for word in some)
        self.file_words = _words(sinks, of_file=True) + _words(sources, of_file=True)
        self.functions = _kinds(self.flow.functions, language)
        self.files = _kinds(FILES, language)
        self.kinds = self.functions | self.files
        self.looks_out = True
        """At the helpers of the file."""
        self.sources_by_kind = ByKind(sources)
        self.sanitizers_by_kind = ByKind(sanitizers)
        self._sinks_by_kind = ByKind(sinks)
        conditions = (one for each in sources for some in each.within for one in some)
        self.around_sources = frozenset(kind for each in conditions for kind in each.around)

    def may_match(self, scope: Node, steps: Steps) -> bool:
        """Whether there is a sink in it, as far as that can be told without looking around it."""
        return any(
            sink.may_match(node, steps)
            for node in self._with_words(scope)
            for sink in self._sinks_by_kind.at(node)
        )

    def reached(self, scope: Node, steps: Steps) -> Iterator[Node]:
        """The sinks that tainted values reach."""
        if steps.helpers is not None and not steps.helpers.may_have_source(self):
            return
        sites = self._sites(scope, steps)
        if sites.sinks:
            reached = Run(self, scope, steps, _LEVELS, sites=sites).reached()
            yield from reached
            if scope.type not in FILES and steps.helpers is not None:
                yield from self._by_callers(scope, steps, sites, {each.id for each in reached})

    def _sites(self, scope: Node, steps: Steps) -> Sites:
        """Return the sinks of a scope, whether or not a tainted value reaches them."""
        sites = Sites()
        for node in self._with_words(scope):
            found = [sink.match(node, {}, steps) for sink in self._sinks_by_kind.at(node)]
            parts = [bound.get(SINK, node) for bound in found if bound is not None]
            if parts:
                sites.sinks[node.id] = tuple(each for each in parts if isinstance(each, Node))
        return sites

    def _with_words(self, scope: Node) -> Iterator[Node]:
        """Yield the nodes of a scope in which a word of a sink stands; without words, all nodes."""
        if not self.words:
            return _of_scope(scope, self.flow)
        is_file = scope.type in FILES
        return nodes_with(self._sink_words, scope, self.flow.functions if is_file else ())

    def _by_callers(
        self, helper: Node, steps: Steps, sites: Sites, known: set[int]
    ) -> Iterator[Node]:
        """The sinks that are reached by what others in the file hand to this function."""
        run = Run(self, helper, steps, _LEVELS, sites=sites)
        names = run.parameter_names()
        name = name_of(helper)
        if not any(names):
            return

        def more(given: Iterable[int]) -> list[Node]:
            run = Run(self, helper, steps, _LEVELS, frozenset(given), sites=sites)
            return [each for each in run.reached() if each.id not in known]

        called = Helper(name, helper.type == "method_declaration" and self.flow.methods_stand_alone)
        if steps.helpers is None or not steps.helpers.may_be_called(called):
            return
        # One without a name may be given one beside it, so that is asked, too.
        if not more(range(len(names))) or not Named(name).holds_beyond(steps) or not name:
            return
        for place, each in enumerate(names):
            reached = more([place]) if each else []
            if reached and Handed(self, called, place, each).holds_beyond(steps):
                known |= {node.id for node in reached}
                yield from reached

    def handed_by(self, caller: Node, steps: Steps) -> frozenset[tuple[Helper, int | str]]:
        """The helpers that a function hands something tainted to, or a file outside of all, and the
        places or names of that."""
        run = Run(self, caller, steps, _LEVELS)
        run.watches = True
        run.reached()
        return frozenset(run.handed)

    def returns(self, helper: Node, steps: Steps, call: Returns) -> bool:
        """Whether what a function returns is tainted that is called so."""
        return Run(self, helper, steps, call.level, call.given, call.part).returns()


class ByKind:
    """Conditions by the kinds of the nodes that can meet them."""

    def __init__(self, conditions: Sequence[Whole]) -> None:
        self._anywhere = tuple(each for each in conditions if each.kinds is None)
        kinds = {kind for each in conditions for kind in each.kinds or ()}
        self._by_kind = {
            kind: tuple(each for each in conditions if each.kinds is None or kind in each.kinds)
            for kind in kinds
        }

    def at(self, node: Node) -> Sequence[Whole]:
        """Return the conditions that a node of its kind can meet, in their order."""
        return self._by_kind.get(node.kind_id, self._anywhere)


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
    if scope.type not in FILES:
        yield from walk(scope)
        return
    waiting = list(reversed(scope.children))
    while waiting:
        node = waiting.pop()
        yield node
        if node.type not in flow.functions:
            waiting.extend(reversed(node.children))

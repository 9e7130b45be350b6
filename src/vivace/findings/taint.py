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
from vivace.findings.taint_run import Run
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
        self.file_words = _words(sinks, of_file=True) + _words(sources, of_file=True)
        self.functions = _kinds(self.flow.functions, language)
        self.files = _kinds(FILES, language)
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
            reached = Run(self, scope, steps, _LEVELS).reached()
            yield from reached
            if scope.type not in FILES and steps.helpers is not None:
                yield from self._by_callers(scope, steps, {each.id for each in reached})

    def _by_callers(self, helper: Node, steps: Steps, known: set[int]) -> Iterator[Node]:
        """The sinks that are reached by what others in the file hand to this function."""
        run = Run(self, helper, steps, _LEVELS)
        names = run.parameter_names()
        name = name_of(helper)
        if not any(names):
            return

        def more(given: Iterable[int]) -> list[Node]:
            run = Run(self, helper, steps, _LEVELS, frozenset(given))
            return [each for each in run.reached() if each.id not in known]

        # One without a name may be given one beside it, so that is asked, too.
        if not more(range(len(names))) or not Named(name).holds_beyond(steps) or not name:
            return
        called = Helper(name, helper.type == "method_declaration" and self.flow.methods_stand_alone)
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

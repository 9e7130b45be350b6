"""How the rules of a language are tried: which can match anything in a piece of code at all.

Each rule has words that must stand in what it matches. The words of all rules are numbered, so what
a piece of code has of them is one number, and one operation tells that a rule can be passed over.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import reduce
from operator import or_

from vivace.findings.matching import Whole
from vivace.findings.places import Places, places_of
from vivace.findings.rule import Rule
from vivace.findings.taint import Taint

__all__ = ["Active", "Plan", "Planned"]

_MOST = 10_000
"""Combinations of words that are remembered."""
_TOKEN = re.compile(rb"\w+")
"""A run of characters that names are written with; it is as long as possible."""


class Planned:
    """A rule in its place."""

    def __init__(self, number: int, rule: Rule, matcher: Whole | Taint) -> None:
        self.number = number
        self.bit = 1 << number
        """The bit of this rule in a number that stands for a set of rules."""
        self.rule = rule
        self.matcher = matcher
        self.needs: tuple[int, ...] = ()
        """Of each of these numbers a piece of code must have a bit."""
        self.file_needs: tuple[int, ...] = ()
        """The same for the whole file."""
        self.parents = None if isinstance(matcher, Taint) else matcher.parents
        """The kinds of which the node right above must have one; None: any."""

        self.reads_functions = isinstance(matcher, Taint)

    def can_be_below(self, parent: int | None) -> bool:
        """Return whether it can match a node below one of this kind; None: it is not known."""
        return self.parents is None or parent is None or parent in self.parents

    def can_be_in_file(self, words: int) -> bool:
        return _has_all(words, self.file_needs)

    def can_be_in(self, words: int) -> bool:
        return _has_all(words, self.needs)


class Plan:
    def __init__(self, rules: Sequence[Rule], language: str) -> None:
        self.rules = [
            Planned(number, rule, rule.matchers[language]) for number, rule in enumerate(rules)
        ]
        self._words: dict[bytes, int] = {}
        for each in self.rules:
            each.needs = tuple(self._number(words) for words in each.matcher.words)
            each.file_needs = tuple(self._number(words) for words in each.matcher.file_words)
        self._searched = [(word, bit, _core(word)) for word, bit in self._words.items()]
        self._tried = RulesByKind(self.rules)
        self._for_words: dict[int, Active] = {}
        taints = [each.matcher for each in self.rules if isinstance(each.matcher, Taint)]
        self.functions = frozenset(kind for each in taints for kind in each.functions)
        self.files = frozenset(kind for each in taints for kind in each.files)
        self.around_sources = frozenset(kind for each in taints for kind in each.around_sources)
        """The kinds of nodes that sources may have to be within."""

    def places_in(self, text: bytes, start: int = 0) -> Places:
        """Return where the words stand in a text that begins at byte ``start`` of its file."""
        # Most words are in few texts, and each token of a text counts once here.
        tokens = b"\n".join(set(_TOKEN.findall(text)))
        there = [(word, bit) for word, bit, core in self._searched if core in tokens]
        found = [(start + at, bit) for word, bit in there for at in places_of(word, text)]
        return Places(sorted(found))

    def possible(self, words: int) -> int:
        """Return the rules that can match in a file with these words, a bit for each."""
        return sum(each.bit for each in self.rules if each.can_be_in_file(words))

    def active(self, words: int) -> Active:
        """What can match something in code with these words."""
        if words not in self._for_words:
            if len(self._for_words) >= _MOST:
                self._for_words.clear()
            self._for_words[words] = Active(self._tried, words)
        return self._for_words[words]

    def _number(self, words: frozenset[bytes]) -> int:
        number = 0
        for word in sorted(words):
            number |= self._words.setdefault(word, 1 << len(self._words))
        return number


class RulesByKind:
    """The rules of a plan by the kinds of nodes that they are tried on."""

    def __init__(self, rules: Sequence[Planned]) -> None:
        kinds = {kind for each in rules for kind in each.matcher.kinds or ()}
        self.rules = rules
        self.is_any_without_words = any(not each.needs for each in rules)
        self.anywhere = tuple(each for each in rules if each.matcher.kinds is None)
        self.by_kind = {
            kind: tuple(each for each in rules if kind in (each.matcher.kinds or {kind}))
            for kind in kinds
        }
        self._needed = {
            kind: reduce(or_, (need for each in tried for need in each.needs), 0)
            for kind, tried in self.by_kind.items()
        }
        self._with_words: dict[tuple[int, int], tuple[Planned, ...]] = {}

    def with_words(self, kind: int, words: int) -> tuple[Planned, ...]:
        """Return the rules to try on nodes of a kind in code with these words."""
        tried = self.by_kind.get(kind)
        if tried is None:
            return tuple(each for each in self.anywhere if each.can_be_in(words))
        # Most words of a piece of code are of rules for other kinds.
        key = kind, words & self._needed[kind]
        found = self._with_words.get(key)
        if found is None:
            if len(self._with_words) >= _MOST:
                self._with_words.clear()
            found = tuple(each for each in tried if each.can_be_in(words))
            self._with_words[key] = found
        return found


class Active:
    """The rules that can match something in code with some words."""

    def __init__(self, tried: RulesByKind, words: int) -> None:
        self._tried = tried
        self._words = words
        self._known: dict[int, tuple[Planned, ...]] = {}
        self._without_words: set[int] = set()
        self.quiet: set[int] = set()
        """Kinds of nodes on which no rule is tried, though one may be below them."""
        self.is_any_without_words = tried.is_any_without_words
        self.is_any = self.is_any_without_words or any(
            each.can_be_in(words) for each in tried.rules
        )

    def at(self, kind: int) -> tuple[Planned, ...]:
        """Return the rules to try on nodes of a kind."""
        known = self._known.get(kind)
        return self._new(kind) if known is None else known

    def needs_words(self, kind: int) -> bool:
        """Return whether the words of a node of a kind matter."""
        if kind not in self._known:
            self._new(kind)
        return kind not in self._without_words

    def _new(self, kind: int) -> tuple[Planned, ...]:
        rules = self._tried.with_words(kind, self._words)
        self._known[kind] = rules
        if self.is_any_without_words and not any(each.needs for each in rules):
            self._without_words.add(kind)
            if not rules:
                self.quiet.add(kind)
        return rules


def _core(word: bytes) -> bytes:
    """Return the longest part of a word that surely stands in one token of any text with it."""
    return max(_TOKEN.findall(word), key=len, default=b"")


def _has_all(words: int, needs: Sequence[int]) -> bool:
    # Called for each node: a generator expression takes three times as long.
    for need in needs:  # noqa: SIM110
        if not words & need:
            return False
    return True

"""How the rules of a language are tried: which can match anything in a piece of code at all.

Each rule has words that must stand in what it matches. The words of all rules are numbered, so what
a piece of code has of them is one number, and one operation tells that a rule can be passed over.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence

from vivace.findings.matching import Whole
from vivace.findings.rule import Rule
from vivace.findings.taint import Taint

__all__ = ["Active", "Places", "Plan", "Planned"]

_MOST = 10_000
"""Combinations of words that are remembered."""


class Planned:
    """A rule in its place."""

    def __init__(self, number: int, rule: Rule, matcher: Whole | Taint) -> None:
        self.number = number
        self.rule = rule
        self.matcher = matcher
        self.needs: tuple[int, ...] = ()
        """Of each of these numbers a piece of code must have a bit."""
        self.file_needs: tuple[int, ...] = ()
        """The same for the whole file."""

    @property
    def reads_functions(self) -> bool:
        return isinstance(self.matcher, Taint)

    def can_be_in_file(self, words: int) -> bool:
        return all(words & need for need in self.file_needs)

    def can_be_in(self, words: int) -> bool:
        return all(words & need for need in self.needs)


class Plan:
    def __init__(self, rules: Sequence[Rule], language: str) -> None:
        self.rules = [
            Planned(number, rule, rule.matchers[language]) for number, rule in enumerate(rules)
        ]
        self._words: dict[bytes, int] = {}
        for each in self.rules:
            each.needs = tuple(self._number(words) for words in each.matcher.words)
            each.file_needs = tuple(self._number(words) for words in each.matcher.file_words)
        self._for_words: dict[int, Active] = {}
        taints = [each.matcher for each in self.rules if isinstance(each.matcher, Taint)]
        self.functions = frozenset(kind for each in taints for kind in each.functions)
        self.files = frozenset(kind for each in taints for kind in each.files)

    def words_in(self, text: bytes) -> int:
        found = 0
        for word, bit in self._words.items():
            if word in text:
                found |= bit
        return found

    def places_in(self, text: bytes) -> Places:
        """Where the words stand in a long text: cheaper than to look for them piece by piece."""
        found = [(at, bit) for word, bit in self._words.items() for at in _places(word, text)]
        return Places(sorted(found))

    def active(self, words: int) -> Active:
        """What can match something in code with these words."""
        if words not in self._for_words:
            if len(self._for_words) >= _MOST:
                self._for_words.clear()
            self._for_words[words] = Active(each for each in self.rules if each.can_be_in(words))
        return self._for_words[words]

    def _number(self, words: frozenset[bytes]) -> int:
        number = 0
        for word in sorted(words):
            number |= self._words.setdefault(word, 1 << len(self._words))
        return number


class Active:
    """Rules by the kinds of nodes they are tried on."""

    def __init__(self, rules: Iterable[Planned]) -> None:
        rules = tuple(rules)
        kinds = {kind for each in rules for kind in each.matcher.kinds or ()}
        self.anywhere = tuple(each for each in rules if each.matcher.kinds is None)
        self.by_kind = {
            kind: tuple(each for each in rules if kind in (each.matcher.kinds or {kind}))
            for kind in kinds
        }
        self.is_any = bool(rules)


class Places:
    def __init__(self, found: Sequence[tuple[int, int]]) -> None:
        self._starts = [start for start, _ in found]
        self._bits = [bit for _, bit in found]

    def words_between(self, start: int, end: int) -> int:
        """At least the words that stand between two places; one may reach beyond the second."""
        words = 0
        for bit in self._bits[bisect_left(self._starts, start) : bisect_left(self._starts, end)]:
            words |= bit
        return words


def _places(word: bytes, text: bytes) -> Iterator[int]:
    at = text.find(word)
    while at >= 0:
        yield at
        at = text.find(word, at + 1)

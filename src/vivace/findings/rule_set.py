"""Many rules, by language, some of them left out."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from vivace.findings.plan import Plan
from vivace.findings.rule import Rule
from vivace.syntax.languages import Language

__all__ = ["RuleSet"]


class RuleSet:
    """What a language needs is read and made ready when it is first asked for."""

    def __init__(self, load: Callable[[str], tuple[Rule, ...]]) -> None:
        """``load`` has the rules of a language, by its name."""
        self._load = load
        self._rules: dict[str, tuple[Rule, ...]] = {}
        self._plans: dict[str, Plan] = {}

    @classmethod
    def of(cls, rules: Iterable[Rule]) -> RuleSet:
        """Of two rules with one id the later counts, so that people can replace ours."""
        by_id = {rule.id: rule for rule in rules}
        return cls(lambda name: tuple(each for each in by_id.values() if name in each.languages))

    def for_language(self, name: str) -> tuple[Rule, ...]:
        if name not in self._rules:
            self._rules[name] = self._load(name)
        return self._rules[name]

    def without(self, ids_or_kinds: Collection[str]) -> RuleSet:
        """Without these rules, or whole kinds of them: ``bug``, ``security``."""
        left_out = frozenset(ids_or_kinds)

        def load(name: str) -> tuple[Rule, ...]:
            rules = self.for_language(name)
            return tuple(
                each for each in rules if each.id not in left_out and each.kind not in left_out
            )

        return RuleSet(load)

    def joined(self, other: RuleSet) -> RuleSet:
        """With those of another set, whose rules replace those of the same id."""

        def load(name: str) -> tuple[Rule, ...]:
            both = self.for_language(name) + other.for_language(name)
            return tuple({rule.id: rule for rule in both}.values())

        return RuleSet(load)

    def plan(self, language: Language) -> Plan:
        """How the rules of a language are tried on its trees."""
        if language.name not in self._plans:
            self._plans[language.name] = Plan(self.for_language(language.name), language.name)
        return self._plans[language.name]

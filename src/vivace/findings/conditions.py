"""Rule objects as they stand in a rule file, read into conditions, or refused by line."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

from vivace.findings.matching import (
    All,
    Any,
    Condition,
    Follows,
    Has,
    Inside,
    Kind,
    Matches,
    Not,
    OfPattern,
    OfRegex,
    Precedes,
    StopBy,
)
from vivace.findings.pattern import Pattern, PatternError
from vivace.findings.regex import RegexError, regex_of
from vivace.findings.yaml_lines import List, Table, Value, YamlError
from vivace.syntax.languages import Language, field_id, kind_id

__all__ = ["Conditions"]

_RELATIONS: Mapping[str, Callable[[Condition, StopBy, int | None], Condition]] = {
    "inside": Inside,
    "has": Has,
    "precedes": Precedes,
    "follows": Follows,
}
_NOT_READ = {
    "nthChild": "say with 'follows' or 'precedes' what stands beside it",
    "range": "say with 'inside' or 'kind' which node is meant",
}
_ORDER = ("pattern", "kind", "regex", "all", "any", "not", "matches", *_RELATIONS)


class Conditions:
    """Reads the rule objects of one rule, for one language."""

    def __init__(
        self, language: Language, utils: Table | None = None, shared: Table | None = None
    ) -> None:
        self._language = language
        self._utils = utils or Table()
        self._shared = shared or Table()
        self._read: dict[str, Condition] = {}
        self._reading: list[str] = []
        for name in self._utils:
            self._util(name)

    @property
    def names(self) -> frozenset[str]:
        """What the conditions of ``utils`` may bind."""
        return frozenset().union(*(each.names for each in self._read.values()))

    def read(self, value: Value, line: int) -> Condition:
        """A rule object: all of its keys must be met."""
        if not isinstance(value, Table):
            raise YamlError(line, "a rule is a mapping, such as 'pattern: eval($CODE)'.")
        return self._all_of(value, value.keys())

    def read_list(self, value: Value, line: int) -> list[Condition]:
        if not isinstance(value, List):
            raise YamlError(line, "this must be a list of rules.")
        return [self.read(each, at) for each, at in zip(value, value.lines, strict=True)]

    def _all_of(self, table: Table, keys: object) -> Condition:
        names = [key for key in table if key in keys]  # type: ignore[operator]
        for key in names:
            if key in _NOT_READ:
                raise YamlError(table.lines[key], f"'{key}' is not supported: {_NOT_READ[key]}.")
            if key not in _ORDER:
                raise YamlError(
                    table.lines[key],
                    f"'{key}' is no part of a rule. There are: {', '.join(_ORDER)}.",
                )
        if not names:
            raise YamlError(table.line, "the rule is empty. Give it a 'pattern' or a 'kind'.")
        names.sort(key=_ORDER.index)
        conditions = [self._one(key, table[key], table.lines[key]) for key in names]
        return conditions[0] if len(conditions) == 1 else All(conditions)

    def _one(self, key: str, value: Value, line: int) -> Condition:
        if key == "pattern":
            return self._pattern(value, line)
        if key == "all":
            return All(self.read_list(value, line))
        if key == "any":
            return Any(self.read_list(value, line))
        if key == "not":
            return Not(self.read(value, line))
        if key in _RELATIONS:
            return self._relation(key, value, line)
        if not isinstance(value, str):
            raise YamlError(line, f"'{key}' must be text.")
        if key == "kind":
            return Kind(self._kind(value, line))
        if key == "regex":
            try:
                return OfRegex(regex_of(value))
            except RegexError as error:
                raise YamlError(line, str(error)) from None
        return self._matches(value, line)

    def _pattern(self, value: Value, line: int) -> Condition:
        text, selector = value, None
        if isinstance(value, Table):
            text, selector = value.get("context"), value.get("selector")
            self._check_context(value)
        if not isinstance(text, str) or not isinstance(selector, str | None):
            raise YamlError(line, "a pattern is text, or a mapping of 'context' and 'selector'.")
        try:
            pattern = Pattern.of(text, self._language, selector)
        except PatternError as error:
            raise YamlError(line, str(error)) from None
        if pattern.is_broken:
            raise YamlError(
                line,
                f"the pattern is not {self._language.name} code by itself: {text!r}. Give the code "
                "around it as 'context', and the kind of the node that is meant as 'selector'.",
            )
        return OfPattern(pattern)

    def _check_context(self, table: Table) -> None:
        for key in table:
            if key not in ("context", "selector", "strictness"):
                raise YamlError(table.lines[key], f"'{key}' is no part of a pattern.")
        if table.get("strictness", "smart") != "smart":
            raise YamlError(
                table.lines["strictness"], "only the strictness 'smart' is supported. Leave it out."
            )

    def _kind(self, name: str, line: int) -> int:
        kind = kind_id(self._language, name)
        if kind is None:
            raise YamlError(
                line,
                f"{self._language.name} has no node kind '{name}'. Name one of its tree-sitter "
                "grammar.",
            )
        return kind

    def _relation(self, key: str, value: Value, line: int) -> Condition:
        if not isinstance(value, Table):
            raise YamlError(line, f"'{key}' must be a rule.")
        number = None
        if "field" in value:
            name, at = value["field"], value.lines["field"]
            if key not in ("inside", "has"):
                raise YamlError(at, "'field' is only for 'inside' and 'has'.")
            number = field_id(self._language, str(name))
            if number is None:
                raise YamlError(at, f"{self._language.name} has no field '{name}'.")
        stop_by = self._stop_by(value)
        condition = self._all_of(value, value.keys() - {"field", "stopBy"})
        return _RELATIONS[key](condition, stop_by, number)

    def _stop_by(self, table: Table) -> StopBy:
        value: Value | Literal["neighbor"] = table.get("stopBy", "neighbor")
        if value == "neighbor":
            return "neighbor"
        if value == "end":
            return "end"
        if isinstance(value, str):
            raise YamlError(table.lines["stopBy"], "'stopBy' is 'neighbor', 'end' or a rule.")
        return self.read(value, table.lines["stopBy"])

    def _matches(self, name: str, line: int) -> Condition:
        if name not in self._utils and name not in self._shared:
            raise YamlError(line, f"'{name}' is not among the 'utils' of this rule.")
        self._util(name)
        is_shared = self._utils.keys().isdisjoint(self._shared)
        return Matches(name, self._read, (id(self._shared), name) if is_shared else None)

    def _util(self, name: str) -> None:
        if name in self._read or name in self._reading:
            return
        self._reading.append(name)
        table = self._utils if name in self._utils else self._shared
        self._read[name] = self.read(table[name], table.lines[name])
        self._reading.remove(name)

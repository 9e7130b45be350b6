"""A rule: what to look for, why it is wrong, what to do, and examples that prove it.

Rules are written in ast-grep's YAML form, so that those that people have can be used here and the
other way round. Ours add ``valid`` and ``invalid``, the examples, which ast-grep keeps in files of
their own, and ``taint``, which it does not have. A rule is only ever matched; nothing in it is run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, TypeVar, get_args

from msgspec import Struct

from vivace.errors import RuleError
from vivace.findings.conditions import Conditions
from vivace.findings.matching import Condition, Whole
from vivace.findings.taint import Taint
from vivace.findings.yaml_lines import List, Table, Value, YamlError, documents
from vivace.syntax.finding import Severity
from vivace.syntax.languages import LANGUAGES, Language

__all__ = ["Kind", "Rule", "read_rules", "read_utils"]

Kind = Literal["security", "bug"]
_T = TypeVar("_T")

_BY_NAME = {language.name: language for language in LANGUAGES}
_ALSO_CALLED = {
    "py": "python",
    "js": "javascript",
    "jsx": "javascript",
    "ts": "typescript",
    "c++": "cpp",
    "cc": "cpp",
    "golang": "go",
    "rs": "rust",
}
_SERVES: Mapping[str, tuple[str, ...]] = {"typescript": ("typescript", "tsx")}
_SEVERITIES: Mapping[str, Severity] = {
    "error": "error",
    "warning": "warning",
    "info": "note",
    "hint": "note",
}
_KEYS = (
    "id",
    "language",
    "severity",
    "message",
    "note",
    "rule",
    "taint",
    "constraints",
    "utils",
    "fix",
    "metadata",
    "valid",
    "invalid",
    "url",
    "labels",
)
_NOT_READ = frozenset({"transform", "rewriters", "files", "ignores"})


class Rule(Struct, frozen=True, kw_only=True, eq=False):
    id: str
    languages: tuple[str, ...]
    """By their names in ``syntax.languages``."""
    message: str
    """What is wrong."""
    note: str = ""
    """Why, and what to do."""
    severity: Severity = "note"
    cwe: int | None = None
    kind: Kind = "security"
    """Bugs are a class of their own, which can be switched off."""
    certain: bool = False
    """Whether it may be marked while its line is still being written."""
    fix: str | None = None
    """What takes the node's place; the names of the pattern stand in it."""
    matchers: Mapping[str, Whole | Taint]
    """What is looked for, by language."""
    valid: tuple[str, ...] = ()
    """Code in which it finds nothing."""
    invalid: tuple[str, ...] = ()

    @property
    def language(self) -> str:
        return self.languages[0]


def read_rules(
    text: str, path: str, shared: Table | None = None, *, trusted: bool = False
) -> tuple[Rule, ...]:
    """The rules of a file; ``path`` is only for the message if it is refused. ``shared`` has
    conditions that they may name besides their own ``utils``. What is ``trusted`` is known to be
    right: its patterns are made ready for a language when that is met."""
    try:
        rules = tuple(_rule(document, shared or Table()) for document in documents(text))
        for rule in rules if not trusted else ():
            for language in rule.languages:
                rule.matchers[language]
    except YamlError as error:
        raise RuleError(f"{path}, line {error.line}: {error.message}") from None
    return rules


def read_utils(text: str, path: str) -> Table:
    """A file of conditions that the rules beside it share: ``utils`` and nothing else."""
    try:
        for document in documents(text):
            utils = document.get("utils") if isinstance(document, Table) else None
            if isinstance(utils, Table):
                return utils
        raise YamlError(1, "the file has no 'utils', a mapping of names to rules.")
    except YamlError as error:
        raise RuleError(f"{path}, line {error.line}: {error.message}") from None


class _Matchers(Mapping[str, Whole | Taint]):
    """What a rule looks for in each of its languages, made ready when it is first asked for."""

    def __init__(self, table: Table, shared: Table, languages: Sequence[Language]) -> None:
        self._table, self._shared = table, shared
        self._languages = {each.name: each for each in languages}
        self._ready: dict[str, Whole | Taint] = {}

    def __getitem__(self, name: str) -> Whole | Taint:
        if name not in self._ready:
            self._ready[name] = _matcher(self._table, self._languages[name], self._shared)
        return self._ready[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._languages)

    def __len__(self) -> int:
        return len(self._languages)


def _rule(table: Value, shared: Table) -> Rule:
    if not isinstance(table, Table):
        raise YamlError(1, "a rule is a mapping with 'id', 'language', 'message' and 'rule'.")
    for key in table:
        if key in _NOT_READ:
            raise YamlError(table.lines[key], f"'{key}' is not supported. Remove it.")
        if key not in _KEYS:
            known = ", ".join(_KEYS)
            raise YamlError(
                table.lines[key], f"'{key}' is no part of a rule file. There are: {known}."
            )
    metadata = _optional(table, "metadata", Table) or Table()
    languages = _languages(table)
    fix = _fix(table)
    matchers = _Matchers(table, shared, languages)
    return Rule(
        id=_id(table),
        languages=tuple(matchers),
        message=_needed(table, "message").strip(),
        note=(_optional(table, "note", str) or "").strip(),
        severity=_among(table, "severity", _SEVERITIES, "hint"),
        cwe=_cwe(metadata),
        kind=_kind(metadata),
        certain=bool(_optional(metadata, "certain", bool)),
        fix=fix,
        matchers=matchers,
        valid=_examples(table, "valid"),
        invalid=_examples(table, "invalid"),
    )


def _id(table: Table) -> str:
    text = _needed(table, "id")
    if not text.replace("-", "").replace("_", "").replace(".", "").replace("/", "").isalnum():
        raise YamlError(
            table.lines["id"], "an id has letters, digits and hyphens only, as in 'sql-injection'."
        )
    return text


def _languages(table: Table) -> list[Language]:
    value = table.get("language")
    line = table.lines.get("language", table.line)
    names = value if isinstance(value, List) else [value]
    found: dict[str, Language] = {}
    for name in names:
        plain = str(name).lower()
        plain = _ALSO_CALLED.get(plain, plain)
        if plain not in _BY_NAME:
            known = ", ".join(_BY_NAME)
            raise YamlError(line, f"the language {name!r} is not known. There are: {known}.")
        found |= {each: _BY_NAME[each] for each in _SERVES.get(plain, (plain,))}
    return list(found.values())


def _matcher(table: Table, language: Language, shared: Table) -> Whole | Taint:
    read = Conditions(language, _optional(table, "utils", Table), shared)
    constraints = _optional(table, "constraints", Table) or Table()
    limits = {
        name: read.read(value, constraints.lines[name]) for name, value in constraints.items()
    }
    if ("rule" in table) == ("taint" in table):
        raise YamlError(table.line, "a rule has either 'rule' or 'taint': what is looked for.")
    if "taint" in table:
        return _taint(_optional(table, "taint", Table) or Table(), read, limits, language)
    whole = Whole(read.read(table["rule"], table.lines["rule"]), limits)
    known = whole.names | read.names
    for name in limits:
        if name not in known:
            raise YamlError(constraints.lines[name], f"${name} is in no pattern of this rule.")
    return whole


def _taint(
    table: Table, read: Conditions, limits: Mapping[str, Condition], language: Language
) -> Taint:
    parts: dict[str, list[Whole]] = {}
    for key in table:
        if key not in ("sources", "sinks", "sanitizers"):
            raise YamlError(
                table.lines[key], "'taint' has 'sources', 'sinks' and 'sanitizers' only."
            )
        conditions = read.read_list(table[key], table.lines[key])
        parts[key] = [Whole(each, limits) for each in conditions]
    if "sources" not in parts or "sinks" not in parts:
        raise YamlError(table.line, "'taint' needs 'sources' and 'sinks', each a list of rules.")
    return Taint(parts["sources"], parts["sinks"], parts.get("sanitizers", []), language)


def _fix(table: Table) -> str | None:
    value = table.get("fix")
    if isinstance(value, Table) and value.keys() == {"template"}:
        value = value["template"]
    if not isinstance(value, str | None):
        raise YamlError(
            table.lines["fix"], "'fix' must be text; other forms of it are not supported."
        )
    return value


def _examples(table: Table, key: str) -> tuple[str, ...]:
    value = table.get(key)
    if value is None:
        return ()
    if not isinstance(value, List) or not all(isinstance(each, str) for each in value):
        raise YamlError(table.lines[key], f"'{key}' must be a list of texts, each an example.")
    return tuple(str(each) for each in value)


def _cwe(metadata: Table) -> int | None:
    value = metadata.get("cwe")
    if isinstance(value, str):
        digits = value.upper().removeprefix("CWE-").split(":")[0].strip()
        value = int(digits) if digits.isdecimal() else value
    if not isinstance(value, int | None):
        raise YamlError(metadata.lines["cwe"], "'cwe' must be a number, as in 'cwe: 89'.")
    return value


def _kind(metadata: Table) -> Kind:
    value = metadata.get("kind", "security")
    if value == "security":
        return "security"
    if value == "bug":
        return "bug"
    known = " or ".join(get_args(Kind))
    raise YamlError(metadata.lines["kind"], f"'kind' must be {known}.")


def _needed(table: Table, key: str) -> str:
    text = _optional(table, key, str)
    if not text:
        raise YamlError(table.line, f"the rule has no '{key}'. Add it.")
    return text


def _optional(table: Table, key: str, kind: type[_T]) -> _T | None:
    value = table.get(key)
    if value is None or isinstance(value, kind):
        return value
    words = {str: "text", bool: "true or false", Table: "a mapping"}
    raise YamlError(table.lines[key], f"'{key}' must be {words[kind]}.")


def _among(table: Table, key: str, known: Mapping[str, _T], default: str) -> _T:
    value = str(table.get(key, default))
    if value not in known:
        raise YamlError(table.lines[key], f"'{key}' must be one of {', '.join(known)}.")
    return known[value]

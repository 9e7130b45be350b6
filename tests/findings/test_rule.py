"""A rule file is read, or refused by line."""

from __future__ import annotations

import pytest

from tests.findings.rules_for_tests import rules_of, set_of
from vivace.errors import RuleError
from vivace.findings.rule import read_rules

_HEAD = "id: x\nlanguage: python\nmessage: m\n"


def test_what_is_read() -> None:
    rule = rules_of(
        _HEAD + "note: why\nseverity: error\nmetadata: {cwe: CWE-89, kind: bug, certain: true}\n"
        "rule: {pattern: f($X)}\nfix: g($X)\nvalid: [a]\ninvalid: ['f(1)', 'f(2)']\n"
    )[0]
    assert (rule.id, rule.languages, rule.message, rule.note) == ("x", ("python",), "m", "why")
    assert (rule.severity, rule.cwe, rule.kind, rule.certain) == ("error", 89, "bug", True)
    assert (rule.fix, rule.valid, rule.invalid) == ("g($X)", ("a",), ("f(1)", "f(2)"))


def test_languages() -> None:
    assert rules_of(_HEAD.replace("python", "[js, TypeScript]") + "rule: {pattern: f($X)}")[
        0
    ].languages == ("javascript", "typescript", "tsx")


def test_a_set() -> None:
    rules = set_of()
    assert "eval" in {rule.id for rule in rules.for_language("python")}
    assert not rules.for_language("go")
    fewer = rules.without(["bug", "eval"]).for_language("python")
    assert {rule.id for rule in fewer} == {"shell", "large-class", "same-twice", "helper"}
    mine = set_of(_HEAD.replace("id: x", "id: eval") + "rule: {pattern: my($X)}")
    joined = rules.joined(mine).for_language("python")
    assert [rule.message for rule in joined if rule.id == "eval"] == ["m"]


@pytest.mark.parametrize(
    ("text", "line", "why"),
    [
        ("a: b: c", 1, "not YAML"),
        ("- a", 1, "mapping"),
        (_HEAD, 1, "either 'rule' or 'taint'"),
        (_HEAD + "rule: {}", 4, "empty"),
        (_HEAD + "rule: {patern: f()}", 4, "'patern' is no part"),
        (_HEAD + "rule:\n  kind: nothing", 5, "no node kind 'nothing'"),
        (_HEAD + "rule:\n  has:\n    field: nothing\n    kind: call", 6, "no field 'nothing'"),
        (_HEAD + "rule:\n  follows: {kind: call, field: name}", 5, "only for 'inside' and 'has'"),
        (_HEAD + "rule:\n  nthChild: 1", 5, "not supported"),
        (_HEAD + "rule:\n  regex: '(?=a)'", 5, "looks around"),
        (_HEAD + "rule:\n  matches: a", 5, "not among the 'utils'"),
        (_HEAD + "rule: {kind: call}\nconstraints:\n  A: {kind: call}", 6, "in no pattern"),
        (_HEAD + "rule: {kind: call}\nseverity: bad", 5, "one of error"),
        (_HEAD + "rule: {kind: call}\nmetadata:\n  kind: odd", 6, "security or bug"),
        (_HEAD + "rule: {kind: call}\ntransform: {}", 5, "not supported"),
        (_HEAD + "rule: {kind: call}\nodd: 1", 5, "no part of a rule file"),
        (_HEAD + "rule: {kind: call}\nid: y", 5, "twice"),
        (_HEAD.replace("python", "cobol") + "rule: {kind: call}", 2, "not known"),
        (_HEAD + "taint: {sources: [{kind: call}]}", 4, "'sources' and 'sinks'"),
    ],
)
def test_refused(text: str, line: int, why: str) -> None:
    with pytest.raises(RuleError) as caught:
        read_rules(text, "rules/x.yml")
    assert str(caught.value).startswith(f"rules/x.yml, line {line}: ")
    assert why in str(caught.value)


def test_hostile_files() -> None:
    many = "a: &a [1,1,1,1,1,1,1,1,1,1]\n" + "".join(
        f"{chr(98 + at)}: &{chr(98 + at)} [{', '.join(['*' + chr(97 + at)] * 10)}]\n"
        for at in range(8)
    )
    for text in (many, "[" * 5_000, "x" * 2_000_000, "\0", "!!python/object/apply:os.system [ls]"):
        with pytest.raises(RuleError):
            read_rules(text, "x.yml")

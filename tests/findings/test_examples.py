"""Each rule that comes with Vivace finds its bad examples and leaves the good ones alone."""

from __future__ import annotations

import pytest

from vivace.findings.bundled import bundled
from vivace.findings.changed import Scanner
from vivace.findings.fixes import why_not
from vivace.findings.rule import Rule
from vivace.findings.rule_set import RuleSet
from vivace.findings.scan import scan
from vivace.syntax.hunk import Hunk
from vivace.syntax.languages import LANGUAGES
from vivace.syntax.source import Source

_SUFFIXES = {language.name: language.suffixes[0] for language in LANGUAGES}
_RULES = {
    f"{name}:{rule.id}": (name, rule)
    for name in _SUFFIXES
    for rule in bundled().for_language(name)
    if name != "tsx"
}


@pytest.mark.parametrize("name", _RULES)
def test_examples(name: str) -> None:
    language, rule = _RULES[name]
    alone = RuleSet.of([rule])
    path = "a" + _SUFFIXES[language]
    for example in rule.valid:
        assert not scan(Source.of(path, example), alone), f"found, though right: {example}"
    for example in rule.invalid:
        findings = scan(Source.of(path, example), alone)
        assert findings, f"not found: {example}"


@pytest.mark.parametrize("name", _RULES)
def test_fixes(name: str) -> None:
    language, rule = _RULES[name]
    for example in rule.invalid if rule.fix else ():
        source = Source.of("a" + _SUFFIXES[language], example)
        for finding in scan(source, RuleSet.of([rule])):
            assert why_not(source, finding.fix, finding, bundled()) is None, example


@pytest.mark.release
@pytest.mark.parametrize("language", [each for each in _SUFFIXES if each != "tsx"])
def test_all_rules_while_typing(language: str) -> None:
    """Each example is written after the others, line by line."""
    path = "a" + _SUFFIXES[language]
    scanner, source = Scanner(bundled()), Source.of(path, "")
    scanner.open(source)
    rules: list[Rule] = [rule for name, rule in _RULES.values() if name == language]
    for rule in rules:
        for example in rule.invalid[:1]:
            for line in example.splitlines(keepends=True):
                hunk = Hunk(len(source.lines), (), (line.rstrip("\n") + "\n",))
                source = source.edited([hunk])
                scanner.edited(source, [hunk])
        assert scanner.settle() == scan(Source.of(path, source.text), bundled())
        if len(source.lines) > 150:
            source = Source.of(path, "")
            scanner.open(source)

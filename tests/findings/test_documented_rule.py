"""The rule that docs/findings.md shows is one that works as it says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from vivace.findings.fixes import why_not
from vivace.findings.rule import Rule, read_rules
from vivace.findings.rule_set import RuleSet
from vivace.findings.scan import scan
from vivace.syntax.hunk import apply
from vivace.syntax.source import Source

PAGE = Path(__file__).parents[2] / "docs/findings.md"


@pytest.fixture
def rule() -> Rule:
    blocks = re.findall(r"```yaml\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    (text,) = [block for block in blocks if block.startswith("id:")]
    (found,) = read_rules(text, "findings.md")
    return found


def test_its_examples_are_right(rule: Rule) -> None:
    rules = RuleSet.of([rule])
    for text in rule.valid:
        assert scan(Source.of("a.py", text), rules) == []
    for text in rule.invalid:
        (found,) = scan(Source.of("a.py", text), rules)
        assert (found.code, found.evidence) == ("shop-price-as-float", ("CWE-681",))


def test_its_fix_holds(rule: Rule) -> None:
    rules = RuleSet.of([rule])
    source = Source.of("a.py", rule.invalid[0] + "\n")
    (found,) = scan(source, rules)
    assert apply(source.text, found.fix) == 'price = Decimal(row["price"])\n'
    assert why_not(source, found.fix, found, rules) is None

"""What docs/use says of rules is so: rules.md of the one it shows, check.md of what is found."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from vivace.findings.bundled import bundled
from vivace.findings.fixes import why_not
from vivace.findings.rule import Rule, read_rules
from vivace.findings.rule_set import RuleSet
from vivace.findings.scan import scan
from vivace.syntax.hunk import apply
from vivace.syntax.source import Source

PAGES = Path(__file__).parents[2] / "docs/use"
COLUMNS = ("python", "javascript", "c", "cpp", "go", "rust", "java")
"""Of the table, from left to right."""


@pytest.fixture
def rule() -> Rule:
    blocks = re.findall(r"```yaml\n(.*?)```", (PAGES / "rules.md").read_text("utf-8"), re.DOTALL)
    (text,) = [block for block in blocks if block.startswith("id:")]
    (found,) = read_rules(text, "rules.md")
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


def test_its_table_tells_what_is_found_in_each_language() -> None:
    page = (PAGES / "check.md").read_text("utf-8")
    text = page.partition("## What is found\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| [^|]+ \| ([\d, ]+) \|(.*)\|$", text, re.MULTILINE)
    assert rows
    table = [
        ({int(each) for each in numbers.split(",")}, cells.split("|")) for numbers, cells in rows
    ]
    for column, name in enumerate(COLUMNS):
        found = {each.cwe for each in bundled().for_language(name)}
        assert found <= {cwe for numbers, _ in table for cwe in numbers}
        for numbers, cells in table:
            assert bool(cells[column].strip()) == bool(numbers & found), (name, numbers)

"""What is found, how it is said, and that no text or rule takes forever."""

from __future__ import annotations

import pytest

from tests.findings.rules_for_tests import rules_of, set_of
from tests.support.counting import lines_run
from vivace.findings.bundled import bundled
from vivace.findings.rule_set import RuleSet
from vivace.findings.scan import scan
from vivace.findings.suppressions import WITHOUT_REASON
from vivace.syntax.finding import Finding
from vivace.syntax.hunk import apply
from vivace.syntax.source import Source


def _found(text: str, rules: RuleSet | None = None, path: str = "a.py") -> list[Finding]:
    return scan(Source.of(path, text), rules or set_of())


def _codes(text: str) -> list[str]:
    return [each.code for each in _found(text)]


def test_a_finding() -> None:
    text = "é = 1; y = eval('é')\n"
    [finding] = _found(text)
    assert (finding.code, finding.severity, finding.evidence) == ("eval", "error", ("CWE-95",))
    assert finding.person == "eval of 'é' It runs any code. Use ast.literal_eval."
    assert finding.lines == (0, 1)
    assert finding.columns == (11, 20)
    assert apply(text, finding.fix) == "é = 1; y = ast.literal_eval('é')\n"


def test_in_the_order_of_the_text() -> None:
    text = "open(a)\nx == x\nclass A:\n    y = eval(z)\nrun(1)\n"
    assert _codes(text) == ["unclosed", "same-twice", "large-class", "eval", "helper"]


def test_large_pieces_are_taken_apart() -> None:
    filler = "".join(f"    def f{at}(self): return {at}\n" for at in range(500))
    text = "class A:\n" + filler + "    def g(self): return eval(self)\n"
    assert _codes(text) == ["large-class", "eval"]
    assert _found(text)[1].lines == (501, 502)


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        ("eval(x)  # vivace: ignore[eval] x is ours\n", []),
        ("# vivace: ignore[eval] x is ours\neval(x)\n", []),
        ("# vivace: ignore[eval, shell] x is ours\n# more\neval(x)\n", []),
        ("eval(\n    x)  # vivace: ignore[eval] x is ours\n", []),
        ("eval(x)  # vivace: ignore[shell] x is ours\n", ["eval"]),
        ("eval(x)  # vivace: ignore[eval]\n", ["eval", WITHOUT_REASON]),
        ("eval(x)  # vivace: ignore\n", ["eval", WITHOUT_REASON]),
        ("eval('vivace: ignore[eval] why')\n", ["eval"]),
        ("# vivace: ignore[eval] x is ours\n\n\neval(x)\neval(y)\n", ["eval"]),
    ],
)
def test_suppressions(text: str, codes: list[str]) -> None:
    assert _codes(text) == codes


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x = " + "a" * 1_000_000,
        "x = [" + "eval(1)," * 20_000 + "]",
        "(" * 5_000,
        "x = " + " + ".join(["a"] * 20_000),
        "x" + ".a" * 20_000,
        "\0\x01\x02\ufffe" * 1_000,
        "eval(x\n" * 500,
        "\ud800 = eval(x)",
        "if a:\n" + "".join(" " * at + "if a:\n" for at in range(1, 400)),
    ],
    ids=range(10),
)
def test_hostile_texts(text: str) -> None:
    assert _found(text) == _found(text)


def test_a_rule_that_takes_too_long_gives_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vivace.findings.scan._STEPS_IN_ALL", 1_000)
    parts = ["{has: {stopBy: end, all: [{kind: identifier}, {inside: {stopBy: end, has: "] * 4
    ends = ["}}]}}"] * 4
    inner = "{stopBy: end, regex: '^n.*r$'}"
    text = "id: slow\nlanguage: python\nmessage: m\nrule: " + "".join(parts) + inner + "".join(ends)
    rules = RuleSet.of(rules_of(text))
    code = "def f(a, b):\n" + "    a(b, a.b, [a, b])\n" * 30
    assert [each.code for each in _found(code * 2, rules)] == ["rule-gave-up"]


def test_utils_that_name_each_other() -> None:
    rules = set_of(
        "id: x\nlanguage: python\nmessage: m\nrule: {matches: a}\n"
        "utils: {a: {any: [{matches: b}, {kind: call}]}, b: {matches: a}}\n"
    )
    assert {each.code for each in _found("f(x)\n" * 50, rules)} <= {"rule-gave-up"}


def test_what_is_only_in_the_tree_because_it_is_missing() -> None:
    rule = """
id: x
language: c
message: m
rule: {kind: identifier, regex: "^$", inside: {kind: call_expression, stopBy: end}}
"""
    [finding] = _found("int f() { v = arg(ap, T**); }\n", set_of(rule), "a.c")
    assert (finding.lines, finding.columns) == ((0, 1), (25, 25))


@pytest.mark.parametrize(
    "rest",
    [
        "{pattern: 'f($$$A, $X, $X)'}",
        "{has: {pattern: 'f($$$A, $X, $X)', stopBy: end}}",
        "{all: [{any: [{has: {pattern: $X}}, {regex: b}]}, {pattern: 'f(b, $X, a)'}]}",
    ],
)
def test_a_name_that_is_bound_around_a_node(rest: str) -> None:
    around = "{inside: {has: {pattern: 'g($X, $Y)', stopBy: end}, stopBy: end}}"
    rule = f"{{id: x, language: python, message: m, rule: {{kind: call, all: [{around}, {rest}]}}}}"
    found = _found("g(a, c)\nh(f(b, a, a))\n", set_of(rule))
    assert [each.lines for each in found] == [(1, 2)]


def test_a_fix_of_several_lines_is_moved_in() -> None:
    rule = """
id: x
language: python
message: m
rule: {pattern: "a($B, $C)"}
fix: |-
  c(
    $B, $C
  )
"""
    text = "if x:\n    a(1, [\n        2,\n    ])\n"
    [finding] = _found(text, set_of(rule))
    moved = "if x:\n    c(\n      1, [\n          2,\n      ]\n    )\n"
    assert apply(text, finding.fix) == moved


def test_scan_of_a_long_chain_of_operators_runs_a_bounded_number_of_lines() -> None:
    """Operators nest without brackets: each term is a level of its own. Each costs about 100 lines
    of Python; 2,500 where the cost is quadratic."""
    terms = 2_500
    scan(Source.of("a.py", "open(1)"), bundled())  # what is compiled at the first use
    source = Source.of("a.py", f"f(a, {' + '.join(['open(1)'] * terms)})\n")
    assert lines_run(lambda: scan(source, bundled())) <= 400 * terms

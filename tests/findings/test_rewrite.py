"""A rewrite changes what it is about and loses nothing; else the finding stands without one."""

from __future__ import annotations

import pytest

from tests.findings.rules_for_tests import set_of
from vivace.findings.scan import scan
from vivace.syntax.hunk import apply
from vivace.syntax.source import Source

_SUFFIXES = {"c": "c", "go": "go", "javascript": "js", "python": "py"}


def _fixed(language: str, pattern: str, fix: str, text: str) -> str | None:
    """The text after the fix of its only finding; ``None`` where that has none."""
    rules = set_of(f"""
id: x
language: {language}
message: m
rule: {{pattern: {pattern if language == "c" else repr(pattern)}}}
fix: '{fix}'
""")
    [finding] = scan(Source.of(f"a.{_SUFFIXES[language]}", text), rules)
    return apply(text, finding.fix) if finding.fix else None


@pytest.mark.parametrize(
    ("language", "pattern", "fix", "text"),
    [
        ("go", "$C.skip = true", "$C.skip = false", "func f() { c.skip, c.name = true, host }\n"),
        ("python", "$X != nan", "not isnan($X)", "low != nan != high\n"),
        ("python", "with $X: $Y", "enter($X, $Y)", "async with x: y\n"),
    ],
)
def test_code_that_the_pattern_passes_over(
    language: str, pattern: str, fix: str, text: str
) -> None:
    assert _fixed(language, pattern, fix, text) is None


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("func f() { c.skip = true }\n", "func f() { c.skip = false }\n"),
        ("func f() { c.skip = true; g() }\n", "func f() { c.skip = false; g() }\n"),
    ],
)
def test_nothing_is_passed_over(text: str, after: str) -> None:
    assert _fixed("go", "$C.skip = true", "$C.skip = false", text) == after


def test_what_is_passed_over_around_the_node_or_in_what_is_taken_over_stays() -> None:
    rules = set_of("""
id: x
language: python
message: m
rule: {pattern: f($X), inside: {pattern: $_ < h}}
constraints: {X: {pattern: a < b}}
fix: g($X)
""")
    text = "f(a < b < c) < h < 2\n"
    [finding] = scan(Source.of("a.py", text), rules)
    assert apply(text, finding.fix) == "g(a < b < c) < h < 2\n"


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("f(  # why\n    x\n)\n", None),
        ("f(\n    x,  # why\n)\n", None),
        ("f(x)  # why\n", "g(x)  # why\n"),
        ("f([  # why\n    1])\n", "g([  # why\n    1])\n"),
        ("f(\\\n  x)\n", "g(x)\n"),
    ],
)
def test_comments(text: str, after: str | None) -> None:
    assert _fixed("python", "f($X)", "g($X)", text) == after


def test_a_comment_in_code_that_the_fix_has_no_name_for() -> None:
    assert _fixed("javascript", "f($X, $Y)", "g($X)", "f(x, [/* why */ 1])\n") is None
    assert _fixed("javascript", "f($X, $Y)", "g($X)", "f(x, [1])\n") == "g(x)\n"


def test_a_rule_may_be_about_a_comment() -> None:
    rule = "{id: x, language: python, message: m, rule: {kind: comment}, fix: '# new'}"
    [finding] = scan(Source.of("a.py", "x = 1  # old\n"), set_of(rule))
    assert finding.fix[0].new == ("x = 1  # new\n",)


@pytest.mark.parametrize(
    ("language", "text", "after"),
    [
        (
            "python",
            'if x:\n    f(\n        """a\n        b""",\n    )\n',
            'if x:\n    g("""a\n        b""")\n',
        ),
        ("python", 'if x:\n\tf(\n\t\t"""a\n\t\tb""")\n', 'if x:\n\tg("""a\n\t\tb""")\n'),
        (
            "python",
            'if x:\n    f(\n        [\n            """a\n            b""",\n            1])\n',
            'if x:\n    g([\n        """a\n            b""",\n        1])\n',
        ),
        (
            "python",
            'if x:\n    f(\n        ("a"\n         "b"))\n',
            'if x:\n    g(("a"\n     "b"))\n',
        ),
        (
            "c",
            'void m() {\n    f(\n        "a\\\n        b");\n}\n',
            'void m() {\n    g("a\\\n        b");\n}\n',
        ),
        (
            "javascript",
            "if (x) {\n    f(\n        `a\n        b`);\n}\n",
            "if (x) {\n    g(`a\n        b`);\n}\n",
        ),
    ],
)
def test_lines_within_strings_are_not_moved(language: str, text: str, after: str) -> None:
    pattern = "{context: f($X);, selector: call_expression}" if language == "c" else "f($X)"
    assert _fixed(language, pattern, "g($X)", text) == after


@pytest.mark.parametrize(
    ("fix", "text", "after"),
    [
        ("g($X)", "s = f'{f(x)}'\n", "s = f'{g(x)}'\n"),
        ("g($X)", "s = f'{f(x)=}'\n", None),
        ("g($X)", "s = f'{h(f\"{f(x)}\")=}'\n", None),
        ("g($X)", "s = f'{f(\"x\")}'\n", None),
        ('g($X, "y")', "s = f'{f(x)}'\n", None),
        ('g($X, "y")', "s = f'{[f(x)]:>4}'\n", None),
        ('g($X, "y")', "s = f'{x}', f(x)\n", "s = f'{x}', g(x, \"y\")\n"),
        ("g($X)", "s = '{%s}' % f('x')\n", "s = '{%s}' % g('x')\n"),
    ],
)
def test_code_in_strings(fix: str, text: str, after: str | None) -> None:
    assert _fixed("python", "f($X)", fix, text) == after

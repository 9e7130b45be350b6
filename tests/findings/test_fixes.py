"""A fix is shown only if it is one."""

from __future__ import annotations

import pytest

from tests.findings.rules_for_tests import set_of
from vivace.findings.fixes import why_not
from vivace.findings.scan import scan
from vivace.syntax.hunk import Hunk
from vivace.syntax.source import Source

_TEXT = '''"""What it does."""
import os


def f(x):
    y = 1
    return eval(
        x,
    )


def g(x):
    return eval(x)
'''


def _why(hunks: list[Hunk], text: str = _TEXT) -> str | None:
    source = Source.of("a.py", text)
    rules = set_of()
    finding = next(each for each in scan(source, rules) if each.code == "eval")
    return why_not(source, hunks, finding, rules)


_OLD = ("    return eval(\n", "        x,\n", "    )\n")


def test_a_fix() -> None:
    assert _why([Hunk(6, _OLD, ("    return literal_eval(x)\n",))]) is None


def test_with_its_import() -> None:
    fix = Hunk(6, _OLD, ("    return literal_eval(x)\n",))
    assert _why([Hunk(2, (), ("from ast import literal_eval\n",)), fix]) is None
    assert _why([Hunk(1, ("import os\n",), ("import ast, os\n",)), fix]) is None
    assert "line 3" in str(_why([Hunk(2, (), ("print(1)\n",)), fix]))


@pytest.mark.parametrize(
    ("new", "why"),
    [
        ("    return literal_eval(x\n", "breaks the grammar"),
        ("    return eval(x)\n", "still found"),
        ("    return x == x\n", "same-twice"),
    ],
)
def test_what_is_no_fix(new: str, why: str) -> None:
    assert why in str(_why([Hunk(6, _OLD, (new,))]))


def test_what_else_it_changes() -> None:
    hunk = Hunk(5, ("    y = 1\n", *_OLD), ("    y = 2\n", "    return literal_eval(x)\n"))
    assert "line 6" in str(_why([hunk]))


def test_a_fix_for_another_text() -> None:
    assert _why([Hunk(6, ("    return eval(y)\n",), ("pass\n",))]) is not None
    assert _why([]) == "The fix changes nothing."


def test_the_rules_own() -> None:
    source = Source.of("a.py", _TEXT)
    rules = set_of()
    for finding in scan(source, rules):
        if finding.fix:
            assert why_not(source, finding.fix, finding, rules) is None

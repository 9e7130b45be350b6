"""What a helper of the file returns is known, and what it is given: both may be tainted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.findings.taint_rules import TAINT
from tests.support.counting import lines_run
from vivace.findings.bundled import bundled
from vivace.findings.changed import Scanner
from vivace.findings.rule_set import RuleSet
from vivace.findings.scan import scan
from vivace.syntax.hunk import Hunk
from vivace.syntax.lines import lines_of
from vivace.syntax.source import Source


def rows(path: str, text: str) -> list[int]:
    """The lines that are marked."""
    found = scan(Source.of(path, text), TAINT)
    return sorted({finding.lines[0] + 1 for finding in found if finding.lines})


def cases() -> Iterator[tuple[str, str]]:
    """By the file's name, and what stands in it; lines that are to be marked say so."""
    for file in sorted(Path(__file__).with_name("helper_cases").iterdir()):
        suffix = file.name.split(".")[1]
        yield from ((f"a.{suffix}", text) for text in file.read_text("utf-8").split("=====\n"))


@pytest.mark.parametrize(("path", "text"), list(cases()))
def test_a_value_is_followed_through_helpers_and_into_them(path: str, text: str) -> None:
    marked = [row for row, line in enumerate(text.splitlines(), 1) if line.endswith("MARKED")]
    assert rows(path, text) == marked


def test_helpers_that_call_each_other_come_to_an_end() -> None:
    text = "def f():\n    sink(a(source()))\n\n"
    text += "def a(x):\n    return b(x)\n\ndef b(x):\n    return a(x)\n"
    assert rows("a.py", text) == []


def test_a_helper_that_others_stand_between_is_followed_so_far_and_no_further() -> None:
    def chain(length: int) -> str:
        calls = "".join(f"def h{n}(x):\n    return h{n + 1}(x)\n\n" for n in range(length))
        return f"def f():\n    sink(h0(source()))\n\n{calls}def h{length}(x):\n    return x\n"

    assert [rows("a.py", chain(length)) for length in range(4)] == [[2], [2], [], []]


def test_a_finding_comes_and_goes_with_the_text_of_the_helper_alone() -> None:
    text = "def f():\n    sink(path(source()))\n\ndef path(x):\n    return x\n"
    scanner, source = Scanner(TAINT), Source.of("a.py", text)
    assert len(scanner.open(source)) == 1

    def typed(row: int, line: str) -> int:
        nonlocal source
        hunks = [Hunk(row, (source.lines[row],), tuple(lines_of(line)))]
        source = source.edited(hunks)
        return len(scanner.edited(source, hunks))

    assert typed(4, "    return clean(x)\n") == 0
    assert typed(4, "    return x\n") == 1
    assert typed(3, "def other(x):\n") == 0
    assert typed(3, "def path(x):\n") == 1


def test_a_finding_in_a_helper_comes_and_goes_with_the_text_of_its_callers() -> None:
    text = "def save(text):\n    sink(text)\n\ndef page():\n    save(source())\n"
    scanner, source = Scanner(TAINT), Source.of("a.py", text)
    assert len(scanner.open(source)) == 1

    def typed(row: int, line: str) -> int:
        nonlocal source
        hunks = [Hunk(row, (source.lines[row],), tuple(lines_of(line)))]
        source = source.edited(hunks)
        return len(scanner.edited(source, hunks))

    assert typed(4, "    save(1)\n") == 0
    assert typed(4, "    save(source())\n") == 1
    assert typed(4, "    keep(source())\n") == 0
    assert typed(0, "def keep(text):\n") == 1


def test_a_function_that_is_given_a_name_beside_it_becomes_a_helper() -> None:
    unnamed, named = "(text) => { sink(text); };\n", "const save = (text) => { sink(text); };\n"
    source = Source.of("a.js", unnamed + "save(source());\n")
    scanner = Scanner(TAINT)
    assert scanner.open(source) == []
    for old, new, count in ((unnamed, named, 1), (named, unnamed, 0)):
        hunks = [Hunk(0, (old,), (new,))]
        source = source.edited(hunks)
        assert len(scanner.edited(source, hunks)) == count


def all_call_all(helpers: int) -> str:
    called = " + ".join(f"h{n}(x)" for n in range(helpers))
    text = "".join(f"def h{n}(x):\n    return {called}\n\n" for n in range(helpers))
    return f"def f():\n    sink(h0(source()))\n\n{text}"


def nested(levels: int) -> str:
    body = "x;"
    for _ in range(levels):
        body = f"match x {{ _ => {{ {body} }} }}"
    return f"fn h(x: String) -> String {{ {body} }}\nfn f() {{ sink(h(source())); }}\n"


def called(helpers: int, lines: int) -> str:
    body = "    requests.get(a)\n    open(b)\n    redirect(c)\n"
    defined = "".join(f"def h{n}(a, b, c):\n{body}\n" for n in range(helpers))
    main = "".join(f"    v{n} = request.args['a']\n" for n in range(lines))
    calls = "".join(f"    h{n}('a', 'b', 'c')\n" for n in range(helpers))
    return f"import requests\nfrom flask import request\n{defined}def main():\n{main}{calls}"


def several(names: int) -> str:
    body = "".join(f"    w{n} = [p == 1, 2, str(p)]\n" for n in range(60))
    left = ", ".join(f"x{n}" for n in range(names))
    return f"def h(p):\n{body}    return p\n\ndef f(v):\n    {left} = h(v)\n    eval(x1)\n"


def named_everywhere(times: int) -> str:
    return f"# {'a ' * times}\ndef a(x):\n    sink(x)\n\ndef f():\n    a(source())\n"


@pytest.mark.parametrize(
    ("path", "text", "rules", "most"),
    [
        pytest.param("a.py", all_call_all(60), TAINT, 6_000_000, id="all call all"),
        pytest.param("a.rs", nested(16), TAINT, 40_000, id="nested"),
        pytest.param("a.py", called(30, 200), bundled(), 8_000_000, id="called"),
        pytest.param("a.py", several(240), bundled(), 1_000_000, id="several"),
        pytest.param("a.py", named_everywhere(35_000), TAINT, 60_000, id="named everywhere"),
    ],
)
def test_scan_of_helpers_runs_a_bounded_number_of_lines(
    path: str, text: str, rules: RuleSet, most: int
) -> None:
    """Each limit is about three times the cost today; most of these took far more than it once."""
    scan(Source.of(path, "x"), rules)  # what is compiled at the first use
    source = Source.of(path, text)
    assert lines_run(lambda: scan(source, rules)) <= most

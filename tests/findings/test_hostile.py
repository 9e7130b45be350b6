"""No text makes a scan crash or run on: neither one made for that nor one that is half typed."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from tests.support.counting import lines_run
from vivace.findings.bundled import bundled
from vivace.findings.changed import Scanner
from vivace.findings.scan import scan
from vivace.syntax.finding import Finding
from vivace.syntax.hunk import Hunk
from vivace.syntax.languages import LANGUAGES
from vivace.syntax.lines import lines_of
from vivace.syntax.source import Source

pytestmark = pytest.mark.release

_SUFFIXES = {each.name: each.suffixes[0] for each in LANGUAGES}
_MOST_LINES = 1_000
"""Lines of Python per character; the dearest text takes 338."""
_EMPTY = 5_000
"""Lines that even an empty text takes."""

_STATEMENT = {
    "python": "def f(name):\n    run(CODE)\n",
    "javascript": "function f(name) {\n  run(CODE);\n}\n",
    "c": "int f(char *name) {\n  run(CODE);\n}\n",
    "go": "package a\n\nfunc f(name string) {\n\trun(CODE)\n}\n",
    "rust": "fn f(name: &str) {\n    run(CODE);\n}\n",
    "java": "class A {\n  void f(String name) {\n    run(CODE);\n  }\n}\n",
}
_STATEMENT |= {
    "typescript": _STATEMENT["javascript"],
    "tsx": _STATEMENT["javascript"],
    "cpp": _STATEMENT["c"],
}
_RISKY = {
    "python": "os.system(name)",
    "javascript": "exec(name)",
    "c": "system(name)",
    "go": 'exec.Command("sh", name)',
    "rust": "Command::new(name)",
    "java": "Runtime.getRuntime().exec(name)",
}
_RISKY |= {
    "typescript": _RISKY["javascript"],
    "tsx": _RISKY["javascript"],
    "cpp": _RISKY["c"],
}


def _chain(language: str) -> str:
    return _STATEMENT[language].replace("CODE", " + ".join([_RISKY[language]] * 500))


def _calls(language: str) -> str:
    return _STATEMENT[language].replace("CODE", "g(" * 250 + _RISKY[language] + ")" * 250)


def _else_if(language: str) -> str:
    if language == "python":
        branch = "    elif name:\n        os.system(name)\n"
        return "def f(name):\n    if name:\n        pass\n" + branch * 350
    condition = "if name {" if language in ("go", "rust") else "if (name) {"
    branches = f"{condition} {_RISKY[language]}; }} else " * 350
    return re.sub(r"run\(CODE\);?", lambda _: branches + "{ }", _STATEMENT[language])


def _wide(language: str) -> str:
    return _STATEMENT[language].replace("CODE", ", ".join([_RISKY[language]] * 500))


def _megabyte(language: str) -> str:
    return _STATEMENT[language].replace("CODE", '"' + "password=" + "x" * 300_000 + '"')


def _half(language: str) -> str:
    whole = _STATEMENT[language].replace("CODE", _RISKY[language])
    return "".join(whole[: len(whole) * at // 40] + "\n" for at in range(40))


_TEXTS: dict[str, Callable[[str], str]] = {
    "nothing": lambda language: "",
    "binary": lambda language: bytes(range(256)).decode("latin-1") * 200,
    "NUL": lambda language: "\0" * 10_000 + _chain(language)[:500],
    "lone surrogates": lambda language: f"\ud800\n{_half(language)}\udfff'\udc80'",
    "brackets": lambda language: _STATEMENT[language].replace("CODE", "(" * 100_000),
    "many brackets closed": lambda language: "()" * 1_000 + "[" * 250 + "]" * 250,
    "chain": _chain,
    "calls": _calls,
    "else if": _else_if,
    "wide": _wide,
    "megabyte": _megabyte,
    "half": _half,
}


@pytest.mark.parametrize("language", _STATEMENT)
@pytest.mark.parametrize("text", _TEXTS)
def test_scan_of_hostile_text_runs_a_bounded_number_of_lines(language: str, text: str) -> None:
    path = f"a{_SUFFIXES[language]}"
    scan(Source.of(path, "x"), bundled())  # what is compiled at the first use
    source = Source.of(path, _TEXTS[text](language))
    found: list[Finding] = []
    count = lines_run(lambda: found.extend(scan(source, bundled())))
    assert count <= _EMPTY + _MOST_LINES * len(source.text)
    assert all(each.lines is None or each.lines[0] <= len(source.lines) for each in found)


@pytest.mark.parametrize("language", ["python", "c"])
@pytest.mark.parametrize("text", ["binary", "lone surrogates", "chain", "else if", "half"])
def test_keys_in_it(language: str, text: str) -> None:
    source = Source.of(f"a{_SUFFIXES[language]}", _TEXTS[text](language))
    scanner = Scanner(bundled())
    scanner.open(source)
    row = len(source.lines) // 2
    for key in "x(":
        line = source.lines[row]
        at = len(line) // 2
        hunks = [Hunk(row, (line,), tuple(lines_of(line[:at] + key + line[at:])))]
        source = source.edited(hunks)
        scanner.edited(source, hunks)
    fresh = scan(Source.of(f"a{_SUFFIXES[language]}", source.text), bundled())
    assert scanner.settle() == fresh

"""Findings as lines and JSON: the place counted from 1, the line quoted unless it is a secret."""

from __future__ import annotations

import msgspec
import pytest

from vivace.findings.report import (
    Located,
    at_least,
    json_of,
    located,
    place_of,
    quoted,
    summary,
    text_of,
)
from vivace.syntax.finding import Finding, Severity
from vivace.syntax.hunk import Hunk

LINES = ["import os\n", "\tos.system(name)\r\n", 'key = "hunter2"']
SHELL = Finding(
    "shell",
    "A shell reads this.\n  Give a list instead.",
    "Give a list.",
    lines=(1, 2),
    columns=(1, 16),
    evidence=("CWE-78",),
)
SECRET = Finding("secret", "A secret.", "Move it.", lines=(2, 3), evidence=("CWE-798",))
FILE_WIDE = Finding("gave-up", "Not looked at.", "", "note")


def test_a_line_of_text_has_the_form_of_compilers() -> None:
    (shell,) = located("src/a.py", LINES, [SHELL])
    said = "error: A shell reads this. Give a list instead. [shell, CWE-78]"
    assert text_of(shell, "a.py") == f"a.py:2:2: {said}"
    (wide,) = located("a.py", LINES, [FILE_WIDE])
    assert text_of(wide, "a.py") == "a.py: note: Not looked at. [gave-up]"


def test_places_count_from_one() -> None:
    assert place_of(SHELL) == (2, 2, 2, 17)
    assert place_of(SECRET) == (3, 1, 3, 1)
    assert place_of(FILE_WIDE) is None


def test_the_line_is_quoted_unless_it_holds_a_secret_or_nothing() -> None:
    shell, secret, wide = located("a.py", LINES, [SHELL, SECRET, FILE_WIDE])
    assert quoted(shell) == "    os.system(name)"
    assert quoted(secret) is None
    assert quoted(wide) is None
    (long,) = located("a.py", ["x" * 5000], [Finding("x", "", "", lines=(0, 1))])
    assert len(quoted(long) or "") == 200


def test_a_place_behind_the_end_is_told_without_its_line() -> None:
    (beyond,) = located("a.py", LINES, [Finding("x", "Why.", "", lines=(7, 8))])
    assert beyond.line == ""
    assert text_of(beyond, "a.py").startswith("a.py:8:1: ")


def test_the_value_of_json_has_no_code_but_the_fix() -> None:
    fixed = msgspec.structs.replace(SHELL, fix=(Hunk(1, (LINES[1],), ("\trun([name])\r\n",)),))
    shell, secret = located("a.py", LINES, [fixed, SECRET])
    assert json_of(shell) == {
        "path": "a.py",
        "rule": "shell",
        "severity": "error",
        "message": SHELL.person,
        "evidence": ["CWE-78"],
        "fingerprint": shell.fingerprint,
        "line": 2,
        "column": 2,
        "end_line": 2,
        "end_column": 17,
        "fix": [{"line": 2, "old": ["\tos.system(name)\r\n"], "new": ["\trun([name])\r\n"]}],
    }
    assert "hunter2" not in str(json_of(secret))
    assert "column" not in json_of(secret)


def test_a_name_that_is_no_text_can_still_be_told() -> None:
    (odd,) = located("a\udcff.py", LINES, [SHELL])
    assert msgspec.json.encode(json_of(odd))
    assert msgspec.json.encode(odd.known)


@pytest.mark.parametrize(("severity", "count"), [("error", 2), ("warning", 2), ("note", 3)])
def test_lesser_ones_are_left_out(severity: Severity, count: int) -> None:
    found = located("a.py", LINES, [SHELL, SECRET, FILE_WIDE])
    assert len(at_least(severity, found)) == count


def test_they_are_summed_up_by_severity() -> None:
    found = located("a.py", LINES, [SHELL, SECRET, FILE_WIDE])
    assert summary(found) == "2 errors, 1 note"
    assert summary([]) == "no findings"
    assert summary([Located("a", FILE_WIDE)] * 2) == "2 notes"

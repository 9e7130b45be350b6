"""A baseline knows a finding again after lines have moved, and does not take a new one for it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vivace.findings.baseline import (
    BadBaseline,
    Baseline,
    Known,
    fingerprints,
    marked,
    read_baseline,
)
from vivace.syntax.finding import Finding

CODE = ["import os\n", "def run(name):\n", "    os.system('ls ' + name)\n", "    return name\n"]


def at(line: int, code: str = "shell", columns: tuple[int, int] | None = None) -> Finding:
    return Finding(code, "Why.", "Do.", lines=(line, line + 1), columns=columns)


def one(path: str, lines: list[str], finding: Finding) -> str:
    (found,) = fingerprints(path, lines, [finding])
    return found


def test_what_is_marked_is_cut_out_by_its_columns() -> None:
    assert marked(CODE, at(2, columns=(4, 26))) == "os.system('ls ' + name"
    assert marked(CODE, at(2)) == CODE[2]
    both = Finding("shell", "", "", lines=(1, 3), columns=(4, 13))
    assert marked(CODE, both) == "run(name):\n    os.system"
    assert marked(CODE, Finding("shell", "", "")) == ""


@given(above=st.lists(st.sampled_from(["\n", "x = 1\n", "# more\n"]), max_size=9))
def test_lines_above_and_another_margin_change_nothing(above: list[str]) -> None:
    known = one("a.py", CODE, at(2))
    moved = [*above, *(f"    {line}" for line in CODE)]
    assert one("a.py", moved, at(len(above) + 2)) == known


def test_another_rule_file_or_code_is_another_finding() -> None:
    known = one("a.py", CODE, at(2))
    changed = [line.replace("'ls '", "'rm '") for line in CODE]
    others = [
        one("b.py", CODE, at(2)),
        one("a.py", CODE, at(2, "secret")),
        one("a.py", changed, at(2)),
        one("a.py", CODE, at(3)),
    ]
    assert known not in others
    assert len(set(others)) == 4


def test_the_same_code_twice_is_two_findings_and_a_third_is_new() -> None:
    lines = [CODE[2]] * 3
    before = list(fingerprints("a.py", lines, [at(0), at(1)]))
    after = list(fingerprints("a.py", lines, [at(0), at(1), at(2)]))
    assert len(set(after)) == 3
    assert after[:2] == before


def test_it_is_read_as_it_was_written_one_finding_a_line() -> None:
    baseline = Baseline.of(
        [Known("b.py", "x", "2"), Known("a.py", "y", "1"), Known("a.py", "y", "1")]
    )
    text = baseline.text()
    assert read_baseline(text.encode(), "known.json") == baseline
    assert [line for line in text.splitlines() if "a.py" in line] == [
        '  {"path":"a.py","rule":"y","fingerprint":"1"},'
    ]
    assert baseline.held_back == {"1", "2"}
    assert read_baseline(Baseline.of([]).text().encode(), "known.json").held_back == frozenset()


@pytest.mark.parametrize("wrong", [b"", b"[]", b'{"version": 2, "findings": []}', b"\xff"])
def test_another_file_is_refused_with_what_to_do(wrong: bytes) -> None:
    with pytest.raises(BadBaseline, match=r"known\.json.*--write-baseline known\.json"):
        read_baseline(wrong, "known.json")

"""Faults that ``scripts/mutants`` makes are code, and lie where code runs."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from scripts.mutants import mutants, node_id

CODE = '''
"""A docstring with 1 number."""
LIMIT: int = 5


def wait(left: int = 3, *, loud: bool = False) -> int | None:
    """Wait 2 seconds."""
    if left < LIMIT and not loud:
        log.info("waited %d", 7)
        ring("é")
        return left - 1
    return None
'''


def test_mutants_are_code_and_differ(tmp_path: Path) -> None:
    path = tmp_path / "code.py"
    path.write_text(CODE)
    source = path.read_bytes()
    made = [
        (source[: each.start] + each.text.encode() + source[each.end :]).decode()
        for each in mutants(path, "code.py")
    ]
    assert len(set(made)) == len(made) > 5
    for text in made:
        ast.parse(text)
        assert text != CODE


def test_mutants_leave_docstrings_logs_and_declarations_alone(tmp_path: Path) -> None:
    path = tmp_path / "code.py"
    path.write_text(CODE)
    changed = {each.line for each in mutants(path, "code.py")}
    assert changed == {8, 10, 11}


@pytest.mark.parametrize(
    ("context", "test"),
    [
        ("tests/a.py::test_b[c|d]|run", "tests/a.py::test_b[c|d]"),
        ("tests/a.py::test_b[c (call)] (call)", "tests/a.py::test_b[c (call)]"),
        ("tests/a.py::test_b (setup)", "tests/a.py"),
        ("", ""),
    ],
)
def test_context_names_the_test_that_reached_a_line(context: str, test: str) -> None:
    assert node_id(context) == test

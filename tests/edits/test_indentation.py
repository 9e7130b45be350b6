"""An answer gets the indentation of its file, and nothing else of it changes."""

from __future__ import annotations

import pytest

from vivace.edits.indentation import in_unit_of, unit_of


@pytest.mark.parametrize(
    ("text", "unit"),
    [
        ("f {\n\tg {\n\t\th\n", "\t"),
        ("f {\n  g {\n    h\n", "  "),
        ("/**\n * a\n */\nf {\n    g\n", "    "),
        ("f(a,\n      b)\n{\n  g\n}\nif {\n  h\n}\n", "  "),
        ("a\nb\n", ""),
        ("", ""),
    ],
)
def test_a_step_is_what_most_lines_go_in_by(text: str, unit: str) -> None:
    assert unit_of(text.splitlines()) == unit


@pytest.mark.parametrize(
    ("file", "answer", "right"),
    [
        ("f {\n\tg\n}", "f {\n    h\n    g\n}", "f {\n\th\n\tg\n}"),
        ("f {\n\tg = `\n    x`\n}", "f {\n    g = `\n    x`\n}", "f {\n\tg = `\n    x`\n}"),
        (
            "/**\n * f\n */\nf {\n\tg\n}",
            "/**\n * h\n */\nf {\n  g\n}",
            "/**\n * h\n */\nf {\n\tg\n}",
        ),
        ("f {\n  g(a,\n    b)\n}", "f {\n    g(a,\n      c)\n}", "f {\n    g(a,\n      c)\n}"),
        ("f {\n  a {\n    b\n", "a {\n    b\n    c\n}", "a {\n    b\n    c\n}"),
        ("f {\n  g\n}", "f\n", "f"),
    ],
)
def test_an_answer_is_written_in_the_steps_of_its_file(file: str, answer: str, right: str) -> None:
    lines = file.splitlines()
    assert in_unit_of(lines, lines, answer.splitlines()) == right.splitlines()

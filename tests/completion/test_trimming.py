"""What is cut from an answer before it is shown. The cursor is drawn as ``|``."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vivace.completion.trimming import Place, closers_written, trimmed


def place(text: str, path: str = "a.py") -> Place:
    before, _, after = text.partition("|")
    return Place(path, before, after)


@pytest.mark.parametrize(
    ("text", "answer", "shown"),
    [
        ("print(|)\n", "x, y)", "x, y"),
        ("print(|)\n", "f(x), y", "f(x), y"),
        ("print(|)\n", "f(x))", "f(x)"),
        ('x = "|"\n', 'hello"', "hello"),
        ("x = [|]\n", "1, 2]", "1, 2"),
        ("for x in | :\n    pass\n", "range(3) :", "range(3) "),
        ("a = | + c\n", "b + c", "b"),
    ],
)
def test_what_stands_behind_the_cursor_is_not_repeated(text: str, answer: str, shown: str) -> None:
    assert trimmed(answer, place(text)) == shown.rstrip()


def test_the_next_line_is_not_repeated() -> None:
    text = "def f(x):\n|\n    return x\n"
    assert trimmed("    x += 1\n    return x", place(text)) == "    x += 1"
    assert trimmed("    return x", place(text)) == ""


@pytest.mark.parametrize(
    ("text", "answer", "shown"),
    [
        ("for i in x:\n|\n        return 1\n", "    return 1", ""),
        ("def f(x):\n    ret|\n    return x\n", "urn x", ""),
        ("if a {\n    b(|\n  }\n", "c)\n}", "c)\n}"),
        ("def f(x):\n|\n    return x\n", "    if x:\n        return x", ""),
    ],
    ids=["other indentation", "begun", "only a bracket", "all that a branch would do"],
)
def test_an_answer_does_not_end_with_what_follows(text: str, answer: str, shown: str) -> None:
    assert trimmed(answer, place(text, "notes.txt" if "{" in text else "a.py")) == shown


def test_a_model_that_goes_round_is_stopped() -> None:
    assert (
        trimmed("    a()\n    b()\n    b()\n    b()", place("def f():\n|\n")) == "    a()\n    b()"
    )


@pytest.mark.parametrize(
    ("text", "answer", "shown"),
    [
        ("if a {\n\tb()\n|\n}\n", "\tc()\n        d()", "\tc()"),
        ("if a {\n    b()\n|\n}\n", "    c()\n\td()", "    c()"),
        ("if a {\n    b()\n|\n}\n", "   c()", ""),
        ("if a {\n|\n}\n", "  c()", "  c()"),
    ],
)
def test_an_indentation_that_the_file_does_not_use_is_not_shown(
    text: str, answer: str, shown: str
) -> None:
    assert trimmed(answer, place(text, "notes.txt")) == shown


@pytest.mark.parametrize(
    ("path", "text", "answer", "shown"),
    [
        ("a.py", "def f(x):\n    return |\n", "(x", ""),
        ("a.py", "def f(x):\n    return |\n", "x + 1", "x + 1"),
        ("a.js", "function f() {\n  |\n}\n", "return 1\n}}", "return 1"),
        ("notes.txt", "f(|\n", "((", "(("),
    ],
)
def test_what_makes_the_file_parse_worse_is_not_shown(
    path: str, text: str, answer: str, shown: str
) -> None:
    assert trimmed(answer, place(text, path)) == shown


@pytest.mark.parametrize(
    ("answer", "closers", "covered"),
    [
        ("foo(a, b)", ")", 1),
        ("foo(a, b", ")", 0),
        ("foo(a[0])", "])", 2),
        ("foo(a[0]", "])", 1),
        ("x['key']", "']", 2),
        ("f()", "", 0),
    ],
)
def test_of_the_editors_brackets_those_are_covered_that_the_answer_writes(
    answer: str, closers: str, covered: int
) -> None:
    assert closers_written(answer, closers) == covered


@given(st.text("ab(\n)]'\" ;:,", max_size=40), st.text("ab)\n(]'\" ;:,", max_size=20))
def test_what_is_shown_is_the_beginning_of_the_answer(answer: str, after: str) -> None:
    assert answer.startswith(trimmed(answer, Place("a.py", "x = f(", after)))

"""How far an answer is shown, and when that is known."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vivace.completion.extent import MOST_LINES, cut


@pytest.mark.parametrize(
    ("line", "answer", "shown", "whole"),
    [
        ("x = ", "1\ny = 2\n", "1", True),
        ("x = ", "1", "1", False),
        ("x = ", "1\n", "1", False),
        ("    if x", ":\n        return 1\n    y = 2", ":\n        return 1", True),
        ("f(", "\n    a,\n    b,\n)\ng()", "\n    a,\n    b,\n)", True),
        ("", "    a = 1\n    b = 2\n\n    c = 3", "    a = 1\n    b = 2", True),
        ("", "    a = 1\nb = 2", "    a = 1", True),
        (
            "",
            "    for x in y:\n        z()\n    w()\n\nq",
            "    for x in y:\n        z()\n    w()",
            True,
        ),
        ("", "\n\ndef f():\n    pass\n\nx", "\n\ndef f():\n    pass", True),
    ],
)
def test_an_answer_ends_with_the_thought(line: str, answer: str, shown: str, whole: bool) -> None:
    found = cut(answer, line, one_line=False)
    assert (found.text, found.whole) == (shown, whole)


def test_where_the_line_goes_on_behind_the_cursor_it_is_one_line() -> None:
    assert cut("a, b\nc", "f(", one_line=True).text == "a, b"


def test_what_does_not_end_is_cut() -> None:
    found = cut("    x\n" * 100, "", one_line=False)
    assert found.whole
    assert found.text.count("\n") == MOST_LINES - 1


@given(st.text("a :(\n)", max_size=60), st.sampled_from(["", "  ", "x = ", "  f("]), st.booleans())
def test_what_is_shown_is_the_beginning_and_never_changes_once_whole(
    answer: str, line: str, one_line: bool
) -> None:
    done = None
    for end in range(len(answer) + 1):
        found = cut(answer[:end], line, one_line=one_line)
        assert answer.startswith(found.text)
        if done is not None:
            assert found.text.rstrip() == done.rstrip()
        elif found.whole:
            done = found.text

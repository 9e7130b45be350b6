"""What is asked for when a check fails: the edited function, and the end of what was said."""

from __future__ import annotations

import pytest

from vivace.desk.checking import Checked
from vivace.desk.repair import lines_to_repair, what_to_repair

CODE = """\
import os


class Shop:
    def add(self, item):
        self.items.append(item)
        return self

    def total(self):
        return sum(self.items)


def load(path):
    return open(path)
"""
IMPORT, ADD, TOTAL, LOAD = (0, 1), (4, 7), (8, 10), (12, 14)


@pytest.mark.parametrize(
    ("written", "said", "lines"),
    [
        ([(5, 6)], "AssertionError", ADD),
        ([(0, 1), (9, 10)], "AssertionError", TOTAL),  # as many lines, but more to do in a function
        ([(5, 7), (13, 14)], "AssertionError", ADD),
        ([(5, 7), (13, 14)], 'File "a/shop.py", line 14, in load', LOAD),
        ([(5, 7), (13, 14)], "a/shop.py:14:5: wrong", LOAD),
        ([(5, 7), (13, 14)], "other_shop.py:14: wrong", ADD),
        ([(5, 7), (13, 14)], "wrong in line 14 of something", ADD),
        ([(5, 7), (13, 14)], "a/shop.py:10: not edited", ADD),
        ([(0, 1)], "ImportError", IMPORT),
        ([], "", None),
    ],
)
def test_the_function_that_was_edited_and_is_complained_of(
    written: list[tuple[int, int]], said: str, lines: tuple[int, int] | None
) -> None:
    assert lines_to_repair("a/shop.py", CODE, written, said) == lines


def test_of_a_long_output_the_end_is_told() -> None:
    said = "".join(f"line {number} of many\n" for number in range(500))
    asked = what_to_repair(Checked("make", 2, said + "x" * 50 + " is wrong\n\n"))
    assert asked.startswith("Fix the code so that this passes: make\n")
    assert asked.endswith("is wrong")
    assert "line 490" in asked
    assert "line 400" not in asked
    assert len(asked) < 1600

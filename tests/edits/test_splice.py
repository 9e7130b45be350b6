"""Of an answer that says too much, the region's own part is taken."""

from __future__ import annotations

import pytest

from vivace.edits.region import choose
from vivace.edits.splice import own_part, spliced
from vivace.syntax.source import Source

PYTHON = """\
LIMIT = 3


class Stack:
    def push(self, x):
        self.xs.append(x)

    def pop(self):
        return self.xs.pop()


def helper(x):
    return x
"""
POP = ["def pop(self):", "    return self.xs.pop() if self.xs else None"]
SCRIPT = "class A {\n  m(x) {\n    return x;\n  }\n\n  n() {}\n}\n"


def own(
    answer: list[str], text: str = PYTHON, name: str = "Stack.pop", path: str = "a.py"
) -> list[str]:
    source = Source.of(path, text)
    return own_part(answer, source, choose(source, f"change `{name}`"))


@pytest.mark.parametrize(
    "answer",
    [
        POP,
        ["class Stack:", *("    " + line for line in POP)],
        ["class Stack:", "    def push(self, x): ...", "", *("    " + line for line in POP)],
        [*POP, "", "# Example:", "print(Stack().pop())"],
        [*POP, "", 'if __name__ == "__main__":', "    Stack().pop()"],
        ["LIMIT = 3", "", *POP, "", "def helper(x):", "    return x"],
    ],
)
def test_what_belongs_to_the_region_is_taken(answer: list[str]) -> None:
    assert own(answer) == POP


@pytest.mark.parametrize(
    "answer",
    [
        ["def _empty(self):", "    return not self.xs", "", *POP],
        [*POP, "", "def peek(self):", "    return self.xs[-1]"],
        ["EMPTY = None", "", *POP],
        ["def take(self):", "    return self.xs.pop()"],
        ["return None"],
        [],
    ],
)
def test_what_may_belong_to_the_change_stays(answer: list[str]) -> None:
    assert own(answer) == answer


def test_a_method_is_taken_out_of_a_class_in_braces() -> None:
    answer = ["class A {", "  m(x) {", "    return x + 1;", "  }", "}"]
    assert own(answer, SCRIPT, "A.m", "a.js") == ["m(x) {", "  return x + 1;", "}"]


def test_without_a_language_all_is_taken() -> None:
    assert own(["a", "b"], "a\n", "a", "a.txt") == ["a", "b"]


def test_margin_and_line_ends_come_back() -> None:
    old = "    a\r\n\r\n    b\r\n"
    assert spliced(["x", "", "  y"], old) == "    x\r\n\r\n      y\r\n"

"""What fits of an answer is taken, whatever is wrapped around it or left out."""

from __future__ import annotations

import pytest

from vivace.edits.placing.excerpt import Excerpt
from vivace.edits.placing.fitting import fitted
from vivace.edits.placing.region import regions, whole_file
from vivace.errors import EditError
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
PUSH = ["def push(self, x):", "    self.xs.append(x)"]
SCRIPT = "class A {\n  m(x) {\n    return x;\n  }\n\n  n() {}\n}\n"


def shown(text: str, path: str, *names: str) -> Excerpt:
    source = Source.of(path, text)
    chosen = [each for each in regions(source) if each.name in names]
    return Excerpt(source, chosen or [whole_file(source)])


def fit(answer: list[str], *names: str, said: tuple[str, ...] = ()) -> str:
    """The text in the place of what was shown, without the margin."""
    return fitted(answer, shown(PYTHON, "a.py", *names), said)


def indented(lines: list[str]) -> str:
    return "".join(f"    {line}\n" if line else "\n" for line in lines)


@pytest.mark.parametrize(
    "answer",
    [
        POP,
        ["class Stack:", *("    " + line for line in POP)],
        ["class Invented:", *("    " + line for line in POP)],
        ["class Stack:", "    def push(self, x): ...", "", *("    " + line for line in POP)],
        [*POP, "", "# Example:", "print(Stack().pop())"],
        [*POP, "", 'if __name__ == "__main__":', "    Stack().pop()"],
        ["LIMIT = 3", "", *POP, "", "def helper(x):", "    return x"],
    ],
)
def test_a_definition_is_taken_out_of_what_is_around_it(answer: list[str]) -> None:
    assert fit(answer, "Stack.pop") == indented(POP)


@pytest.mark.parametrize(
    "answer",
    [
        ["def _empty(self):", "    return not self.xs", "", *POP],
        [*POP, "", "def peek(self):", "    return self.xs[-1]"],
        ["EMPTY = None", "", *POP],
        [],
    ],
)
def test_what_may_belong_to_the_change_stays(answer: list[str]) -> None:
    assert fit(answer, "Stack.pop") == indented(answer)


def test_one_function_answers_for_a_whole_file() -> None:
    found = fit(POP)
    assert found == PYTHON.replace("xs.pop()", "xs.pop() if self.xs else None")


def test_one_of_two_that_were_shown_leaves_the_other_as_it_was() -> None:
    found = fit(POP, "Stack.push", "Stack.pop")
    assert found == indented([*PUSH, "", *POP])


def test_a_method_without_its_class_goes_back_into_it_and_the_others_stay() -> None:
    found = fit(["class Stack:", *("    " + line for line in POP)], "Stack")
    assert "self.xs.append(x)" in found
    assert "if self.xs else None" in found


@pytest.mark.parametrize(("said", "kept"), [(("pop",), False), ((), True), (("push",), True)])
def test_what_is_named_may_be_left_out_where_nothing_else_changed(
    said: tuple[str, ...], kept: bool
) -> None:
    found = fit(PUSH, "Stack.push", "Stack.pop", said=said)
    assert ("def pop" in found) is kept


def test_of_two_that_are_named_the_one_not_answered_stays() -> None:
    changed = ["def push(self, x):", "    self.xs.insert(0, x)"]
    found = fit(changed, "Stack.push", "Stack.pop", said=("push", "pop"))
    assert found == indented([*changed, "", "def pop(self):", "    return self.xs.pop()"])


def in_stack(*methods: list[str]) -> list[str]:
    return ["class Stack:", *(f"    {line}" for method in methods for line in method)]


def test_of_two_methods_that_are_named_the_one_not_answered_stays_in_its_class() -> None:
    changed = ["def push(self, x):", "    self.xs.insert(0, x)"]
    found = fit(in_stack(changed), "Stack", said=("push", "pop"))
    assert found == "\n".join(
        [*in_stack(changed), "", "    def pop(self):", "        return self.xs.pop()", ""]
    )


def test_a_method_that_is_named_may_be_left_out_where_nothing_else_changed() -> None:
    found = fit(in_stack(PUSH), "Stack", said=("pop",))
    assert found == "\n".join([*in_stack(PUSH), ""])
    assert fit(["class Stack:", "    pass"], "Stack", said=("pop", "push")) == (
        "class Stack:\n    pass\n"
    )


@pytest.mark.parametrize("left_out", [False, True])
def test_a_method_with_another_name_that_was_asked_for_takes_the_place_of_the_old(
    left_out: bool,
) -> None:
    take = ["def take(self):", "    return self.xs.pop()"]
    answer = in_stack(take) if left_out else in_stack([*PUSH, ""], take)
    found = fit(answer, "Stack", said=("pop", "take"))
    assert found.replace("\n\n", "\n    \n") == "\n".join([*in_stack([*PUSH, ""], take), ""])


def test_what_a_method_defines_goes_with_the_method() -> None:
    text = (
        "class A:\n    def f(self):\n        def g():\n            return 1\n\n"
        "        return g()\n\n    def h(self):\n        return 2\n"
    )
    answer = [
        "class A:",
        "    def f(self):",
        "        def g():",
        "            one = 1",
        "            return one",
        "",
        "        return g() + 1",
    ]
    found = fitted(answer, shown(text, "a.py", "A"), ())
    assert found == "\n".join([*answer, "", "    def h(self):", "        return 2", ""])


def test_a_new_definition_stands_behind_the_one_it_came_after() -> None:
    peek = ["def peek(self):", "    return self.xs[-1]"]
    wrapped = ["class Stack:", *("    " + line if line else "" for line in [*POP, "", *peek])]
    assert fit(wrapped, "Stack.pop") == indented([*POP, "", *peek])


def test_a_definition_with_another_name_that_was_asked_for_takes_the_place_of_the_old() -> None:
    take = ["def take(self):", "    return self.xs.pop()"]
    assert fit(take, "Stack.pop", said=("take",)) == indented(take)


def test_the_lines_around_a_change_are_laid_over_those_they_repeat() -> None:
    text = "def f(x):\n    first(x)\n    second(x)\n    third(x)\n    return x\n"
    found = fitted(["second(x)", "between(x)", "third(x)"], shown(text, "a.py", "f"), ())
    assert found == text.replace("    third", "    between(x)\n    third")


def test_what_cannot_be_placed_is_refused() -> None:
    with pytest.raises(EditError):
        fit(["return None"], "Stack.pop")


def test_a_method_is_taken_out_of_a_class_in_braces() -> None:
    answer = ["class A {", "  m(x) {", "    return x + 1;", "  }", "}"]
    found = fitted(answer, shown(SCRIPT, "a.js", "A.m"), ())
    assert found == "  m(x) {\n    return x + 1;\n  }\n"


def test_statements_behind_the_last_definition_of_a_file_stay() -> None:
    text = "def f():\n    return 1\n\n\nprint(f())\n"
    answer = text.replace("1", "2").splitlines()
    assert fitted(answer, shown(text, "a.py"), ()) == text.replace("1", "2")


def test_without_a_language_all_is_taken_with_margin_and_line_ends() -> None:
    text = "    a\r\n\r\n    b\r\n"
    assert fitted(["x", "", "  y"], shown(text, "a.txt"), ()) == "    x\r\n\r\n      y\r\n"


CART = """\
class Cart(Base):
    \"\"\"A cart.\"\"\"

    rate = 0.2

    def __init__(self):
        self.items = []

    def count(self):
        return len(self.items)

    @property
    def size(self):
        return self._size

    @size.setter
    def size(self, value):
        self._size = value

    def total(self):
        return sum(self.items)
"""


def in_cart(answer: str, *said: str) -> str:
    return fitted(answer.splitlines(), shown(CART, "cart.py", "Cart"), said)


@pytest.mark.parametrize("head", ["class Cart:", "class Cart(Base):"])
def test_what_a_class_gets_beside_its_methods_comes_with_those_answered(head: str) -> None:
    answer = f"{head}\n    rate = 0.2\n    limit = 10\n\n    def count(self):\n        return 1\n"
    right = CART.replace("0.2\n", "0.2\n    limit = 10\n").replace("len(self.items)", "1")
    assert in_cart(answer) == right
    assert in_cart(answer.replace("    rate = 0.2\n", ""), "limit") == CART.replace(
        "    rate", "    limit = 10\n    rate"
    ).replace("len(self.items)", "1")


@pytest.mark.parametrize(
    ("answer", "old", "new"),
    [
        ("class Cart:\n    rate = 0.3\n", "0.2", "0.3"),
        ("class Cart:\n    rate = 0.3; limit = 10\n", "0.2", "0.3; limit = 10"),
        ("class Cart(Base, Sized):\n    pass\n", "(Base)", "(Base, Sized)"),
        (
            "class Cart:\n    def size(self):\n        return 1\n".replace(
                "    def", "    @property\n    def"
            ),
            "return self._size",
            "return 1",
        ),
        (
            "class Cart:\n    @size.setter\n    def size(self, value):\n        self._size = 1\n",
            "_size = value",
            "_size = 1",
        ),
    ],
)
def test_a_part_of_a_class_takes_the_place_of_what_it_was(answer: str, old: str, new: str) -> None:
    assert in_cart(answer) == CART.replace(old, new)


def test_words_that_the_head_of_a_class_loses_are_lost_if_they_were_said() -> None:
    answer = "class Cart:\n    rate = 0.2\n"
    assert in_cart(answer, "Base") == CART.replace("(Base)", "")


COUNT = "    def count(self):\n        return len(self.items)\n"
IS_EMPTY = "    def is_empty(self):\n        return not len(self.items)\n"


@pytest.mark.parametrize(
    ("answer", "before"),
    [
        (f"class Cart:\n{IS_EMPTY}", ""),
        (
            f"class Cart:\n    def count(self):\n        return len(self.items)\n\n{IS_EMPTY}",
            "\n    @p",
        ),
        (
            f"class Cart:\n{IS_EMPTY}\n    def count(self):\n        return len(self.items)\n",
            "\n    def c",
        ),
    ],
)
def test_a_new_method_of_a_class_that_comes_in_part_takes_no_others_place(
    answer: str, before: str
) -> None:
    place = CART.index(before) if before else len(CART)
    right = f"{CART[:place]}\n{IS_EMPTY}{CART[place:]}"
    assert in_cart(answer, "is_empty") == right


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("class Cart:\n    share = 0.2\n", "rate"),
        ("class Cart(Other):\n    pass\n", ""),
        ("class Cart: rate = 1\n", ""),
        ("class Cart:\n    def size(self):\n        return 1\n", ""),
    ],
)
def test_a_part_of_a_class_is_refused_where_its_place_is_not_certain(
    answer: str, said: str
) -> None:
    with pytest.raises(EditError):
        in_cart(answer, said)


JAVA = """\
class A {
    int n = 1;
    int max = 9;

    int f() {
        return max;
    }

    int g() {
        return 2;
    }
}
"""
TYPES = """\
export class A extends B {
  n = 1;

  f() {
    return this.n;
  }

  g() {
    return 2;
  }
}
"""
CPP = """\
class A {
public:
    int f() { return max; }
    int g() { return 2; }

private:
    int max = 9;
    int n = 1;
};
"""


@pytest.mark.parametrize(
    ("path", "right", "came", "left_out"),
    [
        ("A.java", JAVA, ["    int max = 9;\n"], JAVA[JAVA.index("\n    int g") : -2]),
        ("a.ts", TYPES, [" extends B", "  n = 1;\n\n"], TYPES[TYPES.index("\n  g()") : -2]),
        ("a.cpp", CPP, ["    int max = 9;\n"], "    int g() { return 2; }\n"),
    ],
)
def test_fields_come_with_a_part_of_a_class_in_braces(
    path: str, right: str, came: list[str], left_out: str
) -> None:
    text = right
    for each in came:
        text = text.replace(each, "")
    answer = right.replace(left_out, "").splitlines()
    assert fitted(answer, shown(text, path), ()) == right


def test_a_text_without_a_margin_moves_nothing() -> None:
    method = '    def f(self):\n        return """\na\n"""\n'
    text = f"class A:\n{method}\n    def g(self):\n        return 1\n"
    answer = f"class A:\n    limit = 10\n\n{method}".splitlines()
    assert fitted(answer, shown(text, "a.py", "A"), ()) == text.replace(
        "class A:\n", "class A:\n    limit = 10\n\n"
    )

"""What an instruction is about: as little as it names, never half a statement."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vivace.edits.region import Region, choose, regions, whole_file
from vivace.syntax.languages import Language, language_of
from vivace.syntax.lines import lines_of
from vivace.syntax.source import Source


def language(path: str) -> Language:
    found = language_of(path)
    assert found is not None
    return found


PYTHON = language("a.py")
CODE = '''\
import os

LIMIT = 3  # beside


# Loads it.
# Slowly.
@cache
def load(path):
    with open(path) as file:
        return file.read()


class Store:
    """Keeps things."""

    def add(self, item):
        if item:
            self.items.append(item)
        else:
            raise ValueError

    def get_all(self):
        return list(self.items)


def parse_line(text):
    def inner():
        return text.strip()

    return inner()
'''
LONG = CODE + "".join(f"\nVALUE_{n} = {n}\n" for n in range(40))
IN_LONG = Source(LONG, PYTHON)


def names(text: str, path: str) -> dict[str, tuple[int, int]]:
    return {each.name: (each.start, each.end) for each in regions(Source.of(path, text))}


def test_definitions_come_with_their_decorators_and_leading_comments() -> None:
    assert names(CODE, "a.py") == {
        "load": (5, 11),
        "Store": (13, 24),
        "Store.add": (16, 21),
        "Store.get_all": (22, 24),
        "parse_line": (26, 31),
        "parse_line.inner": (27, 29),
    }


TYPESCRIPT = """\
/** Doc. */
export const f = async (x: number) => {
  return x;
};

export class A {
  @log()
  m(): void {}
}
interface I { x: number }
"""
C = """\
/* Doc. */
static int *f(struct q *x)
{
  return 0;
}
struct p {
  int x;
};
typedef struct {
  int y;
} T;
"""
CPP = """\
template <class T>
class A {
  int f() { return 1; }
};

int A::g() const {
  return 2;
}
namespace n {
int h() { return 3; }
}
const B& r() {
  return b;
}
A::~A() {
}
bool operator<(A a, A b) {
  return true;
}
"""
CPP_MORE = {"r": (11, 14), "A.~A": (14, 16), "operator<": (16, 19)}
GO = """\
package a

// F does.
func (a *A) F() int {
	return 1
}

type A struct {
}
"""
RUST = """\
#[derive(Debug)]
struct A;

impl B {
    /// Doc.
    fn f(&self) {}
}
"""
JAVA = """\
class A {
  /** Doc. */
  @Override
  int f() {
    return 1;
  }
}
"""


@pytest.mark.parametrize(
    ("path", "text", "found"),
    [
        ("a.ts", TYPESCRIPT, {"f": (0, 4), "A": (5, 9), "A.m": (6, 8), "I": (9, 10)}),
        ("a.c", C, {"f": (0, 5), "p": (5, 8), "T": (8, 11)}),
        ("a.cpp", CPP, {"A": (0, 4), "A.f": (2, 3), "A.g": (5, 8), "h": (9, 10)} | CPP_MORE),
        ("a.go", GO, {"F": (2, 6), "A": (7, 9)}),
        ("a.rs", RUST, {"A": (0, 2), "B": (3, 7), "B.f": (4, 6)}),
        ("A.java", JAVA, {"A": (0, 7), "A.f": (1, 6)}),
    ],
)
def test_definitions_are_found_in_every_language(
    path: str, text: str, found: dict[str, tuple[int, int]]
) -> None:
    assert names(text, path) == found


@pytest.mark.parametrize(
    ("instruction", "name"),
    [
        ("add a docstring to `load`", "load"),
        ("add type hints to Store.add", "Store.add"),
        ("use a comprehension in get_all", "Store.get_all"),
        ("make parse_line() faster", "parse_line"),
        ("add a docstring to the load function", "load"),
        ("add type hints to the function load", "load"),
        ("give Store a __len__ method", "Store"),
        ("in `Store`, make `add` return the item", "Store.add"),
        ("rename the variable `text` to `line` in `parse_line`", "parse_line"),
        ("load should take an encoding, as add does", "load"),
        ("Store needs a new method `load` that reads them", "Store"),
        ("add a docstring to the method `add` of Store", "Store.add"),
    ],
)
def test_the_definition_that_is_named_is_chosen(instruction: str, name: str) -> None:
    assert choose(IN_LONG, instruction).name == name


@pytest.mark.parametrize(
    "instruction",
    [
        "rename `load` to `read`",
        "rename Store.add to Store.append",
        "add type hints everywhere",
        "add docstrings to all functions",
        "add a function that loads nothing at all",
        "sort the constants",
    ],
)
def test_what_is_about_more_than_one_definition_gets_the_whole_file(instruction: str) -> None:
    assert choose(IN_LONG, instruction) == whole_file(IN_LONG)


@pytest.mark.parametrize(
    "instruction",
    ["add type hints to `Store.add` and `Store.get_all`", "document Store.add, and get_all()"],
)
def test_definitions_that_are_listed_are_chosen_together(instruction: str) -> None:
    chosen = choose(IN_LONG, instruction)
    assert (chosen.start, chosen.end) == (16, 24)


def test_of_two_that_are_named_the_first_is_meant() -> None:
    assert choose(IN_LONG, "make `load` call `parse_line` for each line").name == "load"


def test_a_small_file_is_shown_whole_when_nothing_is_named() -> None:
    assert choose(Source(CODE, PYTHON), "strip the text twice") == whole_file(Source(CODE, PYTHON))


def test_in_a_large_file_shared_words_show_what_is_meant() -> None:
    assert choose(IN_LONG, "raise a TypeError when the item is empty").name == "Store.add"


@pytest.mark.parametrize(
    ("selection", "start", "end"),
    [
        ((8, 11), 8, 11),
        ((9, 11), 9, 11),
        ((17, 19), 16, 21),  # half of an if
        ((17, 21), 17, 21),
        ((18, 19), 16, 21),  # one line: what it stands in
        ((16, 25), 16, 24),
        ((0, 3), 0, 3),
        ((2, 3), 2, 3),
        ((1, 2), 0, 31),  # an empty line, in nothing
        ((9, 99), 7, 31),  # half a function, and more
    ],
)
def test_a_selection_becomes_whole_statements(
    selection: tuple[int, int], start: int, end: int
) -> None:
    chosen = choose(Source(CODE, PYTHON), "tidy up", selection)
    assert (chosen.start, chosen.end) == (start, end)


@pytest.mark.parametrize(
    ("selection", "whole"),
    [((1, 3), True), ((2, 3), False), ((1, 6), True), ((1, 5), False), ((0, 3), False)],
)
def test_whole_members_of_a_class_can_be_selected(selection: tuple[int, int], whole: bool) -> None:
    text = "class A {\n  a: number;\n  b = 1;\n  f() {\n    return 1;\n  }\n}\n"
    chosen = choose(Source.of("a.ts", text), "tidy up", selection)
    assert ((chosen.start, chosen.end) == selection) is whole


def test_without_a_language_a_selection_is_taken_as_it_is() -> None:
    assert choose(Source("a\n\nb\n", None), "x", (0, 2)) == Region(0, 1)
    assert choose(Source("a\nb\n", None), "x") == Region(0, 2, "file")


@given(st.text("ab(:)\n \t#", max_size=60), st.integers(-3, 20), st.integers(-3, 20))
def test_a_choice_always_lies_in_the_file(text: str, first: int, last: int) -> None:
    for selection in (None, (first, last)):
        chosen = choose(Source(text, PYTHON), "change `a`", selection)
        assert 0 <= chosen.start <= chosen.end <= len(lines_of(text))

"""Definitions with all that belongs to them, and selections that are never half a statement."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vivace.edits.placing.region import Region, regions, selected
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
    chosen = selected(Source(CODE, PYTHON), selection)
    assert (chosen.start, chosen.end) == (start, end)


@pytest.mark.parametrize(
    ("selection", "whole"),
    [((1, 3), True), ((2, 3), False), ((1, 6), True), ((1, 5), False), ((0, 3), False)],
)
def test_whole_members_of_a_class_can_be_selected(selection: tuple[int, int], whole: bool) -> None:
    text = "class A {\n  a: number;\n  b = 1;\n  f() {\n    return 1;\n  }\n}\n"
    chosen = selected(Source.of("a.ts", text), selection)
    assert ((chosen.start, chosen.end) == selection) is whole


def test_without_a_language_a_selection_is_taken_as_it_is() -> None:
    assert selected(Source("a\n\nb\n", None), (0, 2)) == Region(0, 1)


@given(st.text("ab(:)\n \t#", max_size=60), st.integers(-3, 20), st.integers(-3, 20))
def test_a_selection_always_lies_in_the_file(text: str, first: int, last: int) -> None:
    chosen = selected(Source(text, PYTHON), (first, last))
    assert 0 <= chosen.start <= chosen.end <= len(lines_of(text))

"""Every language of the table is read, and told by its file's name."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vivace.syntax.languages import LANGUAGES, Language, errors_in, language_of, parse, walk

RIGHT = {
    "python": "def f(x):\n    return x\n",
    "javascript": "const f = (x) => x + 1;\n",
    "typescript": "function f(x: number): number { return x; }\n",
    "tsx": "const a = <b c={1}>d</b>;\n",
    "c": "int f(int x) { return x; }\n",
    "cpp": "template <class T> T f(T x) { return x; }\n",
    "go": "package a\n\nfunc f(x int) int { return x }\n",
    "rust": "fn f(x: i32) -> i32 { x }\n",
    "java": "class A { int f(int x) { return x; } }\n",
}


@pytest.mark.parametrize("language", LANGUAGES, ids=lambda language: language.name)
def test_right_code_has_no_errors_and_broken_code_has(language: Language) -> None:
    assert errors_in(parse(RIGHT[language.name], language)) == []
    assert errors_in(parse(RIGHT[language.name] + "\n) ] (\n", language)) != []


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("a.py", "python"),
        ("src/b/c.test.ts", "typescript"),
        ("C:\\x\\y.CPP", "cpp"),
        ("view.tsx", "tsx"),
        ("a.h", "c"),
    ],
)
def test_a_language_is_told_by_the_end_of_the_name(path: str, name: str) -> None:
    language = language_of(path)
    assert language is not None
    assert language.name == name


@pytest.mark.parametrize("path", ["README.md", "Makefile", "py", "a.py/b", ".py.bak"])
def test_what_we_cannot_read_has_no_language(path: str) -> None:
    assert language_of(path) is None


def test_no_two_languages_claim_the_same_files() -> None:
    suffixes = [suffix for language in LANGUAGES for suffix in language.suffixes]
    assert len(suffixes) == len(set(suffixes))


def test_an_error_is_told_with_its_line() -> None:
    assert errors_in(parse("x = 1\ny = (\n", LANGUAGES[0]))[0] == 1


@given(st.text(max_size=60))
def test_any_text_can_be_read(text: str) -> None:
    for node in walk(parse(text, LANGUAGES[0]).root_node):
        assert node.end_byte >= node.start_byte

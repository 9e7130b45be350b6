"""A source that was edited is what reading the text anew would give, at the cost of the edit."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tree_sitter import Language as Grammar
from tree_sitter import LogType, Parser

from tests.support.counting import calls
from tests.support.files import commits
from vivace.edits.diff import between
from vivace.errors import EditError
from vivace.syntax.hunk import Hunk
from vivace.syntax.languages import LANGUAGES, Language
from vivace.syntax.source import Source

PIECES = {
    "python": [
        "def f(a):\n",
        "    return a\n",
        "class C:\n",
        "    x = 'é'\n",
        "\n",
        "  (\n",
        "#\n",
    ],
    "typescript": ["function f(a) {\n", "  return a;\n", "}\n", "const g = () => '𝄞';\n", "/*\n"],
    "go": ["package a\n", "func F() int {\n", "\treturn 1\n", "}\n", "type T struct {\n", "`\n"],
    "cpp": ["#include <a>\n", "int f() {\n", "return 1;\n", "}\n", "struct S {\n", "};\n", '"\n'],
}
TEXTS = st.sampled_from(sorted(PIECES)).flatmap(
    lambda name: st.tuples(
        st.just(name),
        st.lists(st.sampled_from(PIECES[name]), max_size=20).map("".join),
        st.lists(st.sampled_from(PIECES[name]), max_size=20).map("".join),
        st.booleans(),
    )
)


def shape(source: Source) -> str:
    return str(source.tree.root_node)


@given(TEXTS)
def test_an_edited_source_is_the_source_of_the_edited_text(
    case: tuple[str, str, str, bool],
) -> None:
    name, old, new, unended = case
    known = next(each for each in LANGUAGES if each.name == name)
    if unended:
        old, new = old.removesuffix("\n"), new.removesuffix("\n")
    before = Source(old, known)
    assert before.tree is not None  # read once, so that the edit has something to go on from
    after = before.edited(between(old, new))
    fresh = Source(new, known)
    assert after.text == new
    assert shape(after) == shape(fresh)
    assert after.definitions == fresh.definitions
    assert after.statements == fresh.statements
    assert shape(before) == shape(Source(old, known))  # what it came from is as it was


def test_real_edits_give_the_tree_that_reading_anew_gives() -> None:
    for row in commits()[::6]:
        before = Source.of(row["path"], row["before"])
        if before.language is None:
            continue
        assert before.definitions is not None
        after = before.edited(between(row["before"], row["after"]))
        fresh = Source.of(row["path"], row["after"])
        assert after.definitions == fresh.definitions, row["path"]
        assert shape(after) == shape(fresh), row["path"]


def test_a_source_that_was_not_read_yet_is_not_read_for_an_edit() -> None:
    before = Source.of("a.py", "x = 1\n")
    before.edited([Hunk(0, ("x = 1\n",), ("x = 2\n",))])
    assert "tree" not in vars(before)


def test_hunks_made_for_another_text_are_refused() -> None:
    with pytest.raises(EditError):
        Source.of("a.py", "x = 1\n").edited([Hunk(0, ("y = 1\n",), ("x = 2\n",))])


def test_a_text_in_no_known_language_has_lines_and_nothing_else() -> None:
    source = Source.of("notes.txt", "a\nb")
    assert source.lines == ["a\n", "b"]
    assert source.definitions == []
    assert source.errors == []


def test_a_text_that_nests_too_deep_is_not_read() -> None:
    """Its definitions cost four times as much for twice as many levels."""
    nested = "class A { m() {\n" * 3000 + "}}\n" * 3000
    source = Source.of("a.ts", nested)
    assert source.language is None
    assert calls(lambda: (source.definitions, source.errors)) < 100
    assert (source.definitions, source.errors) == ([], [])
    deep, wide = "[" * 200 + "]" * 200, "f({ a: [1] });\n" * 3000
    for read in (deep, wide, ")" * 3000 + deep):
        assert Source.of("a.ts", read).language is not None


def test_two_statements_on_one_line_are_one() -> None:
    source = Source.of("a.py", "a = 1; b = 2\nif a:\n    b = 3\n")
    assert source.statements == [(0, "a = 1; b = 2\n"), (1, "if a:\n    b = 3\n")]


def test_an_edit_of_a_large_file_reads_a_small_part_of_its_words_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    words: list[str] = []

    def note(kind: LogType, message: str) -> None:
        if message.startswith("lexed_lookahead"):
            words.append(message)

    def parser(language: Language) -> Parser:
        made = Parser(Grammar(language.grammar()))
        made.logger = note
        return made

    monkeypatch.setattr("vivace.syntax.languages._parser", parser)
    text = "".join(f"def f{n}(a, b):\n    return a * b + {n}\n\n\n" for n in range(2000))
    source = Source.of("a.py", text)
    assert source.tree is not None
    whole = len(words)
    hunk = Hunk(4001, ("    return a * b + 1000\n",), ("    return a\n",))
    assert source.lines[4001] == hunk.old[0]
    words.clear()
    assert source.edited([hunk]).tree is not None
    assert 0 < len(words) < whole / 10

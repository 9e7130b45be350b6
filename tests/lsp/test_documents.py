"""A document after any changes is what reading its text anew would give."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lsprotocol.types import (
    Position,
    Range,
    TextDocumentContentChangePartial,
    TextDocumentContentChangeWholeDocument,
)

from vivace.lsp.documents import Change, Document, Documents
from vivace.lsp.positions import Encoding, column_at
from vivace.syntax.source import Source

ENCODINGS = st.sampled_from(["utf-8", "utf-16", "utf-32"])
PIECES = [
    "a",
    "é",
    "𝄞",
    "😀",
    "\n",
    "\r\n",
    "\r",
    "\f",
    "\u2028",
    "\x85",
    "\v",
    "def f():\n",
    "    ",
]
TEXTS = st.lists(st.sampled_from(PIECES), max_size=12).map("".join)


def lines(text: str) -> list[str]:
    """As an editor has them, without their ends."""
    return re.split(r"\r?\n", text) if "\n" in text else text.split("\r")


def places(text: str, encoding: Encoding) -> list[tuple[int, Position]]:
    """Every offset that is not within the end of a line, with its position."""
    found = []
    start = 0
    ends = re.findall(r"\r?\n" if "\n" in text else r"\r", text)
    for number, line in enumerate(lines(text)):
        found += [
            (start + each, Position(line=number, character=column_at(line, each, encoding)))
            for each in range(len(line) + 1)
        ]
        start += len(line) + len(ends[number] if number < len(ends) else "")
    return found


def document(text: str, encoding: Encoding = "utf-16", path: str = "a.py") -> Document:
    return Document("file:///a.py", path, 1, text, encoding)


@given(TEXTS, ENCODINGS)
def test_every_place_has_the_position_that_an_editor_gives_it(
    text: str, encoding: Encoding
) -> None:
    opened = document(text, encoding)
    for offset, position in places(text, encoding):
        assert opened.position(offset) == position
        assert opened.offset(position) == offset


@given(TEXTS, ENCODINGS, st.data())
def test_changes_one_by_one_give_the_text_that_sending_it_whole_would(
    text: str, encoding: Encoding, data: st.DataObject
) -> None:
    changed = document(text, encoding)
    for version in range(2, 6):
        known = places(text, encoding)
        a, b = sorted(data.draw(st.tuples(*2 * (st.sampled_from(range(len(known))),))))
        new = data.draw(TEXTS)
        change: Change = TextDocumentContentChangePartial(
            range=Range(start=known[a][1], end=known[b][1]), text=new
        )
        text = text[: known[a][0]] + new + text[known[b][0] :]
        if data.draw(st.booleans()) and data.draw(st.booleans()):
            change = TextDocumentContentChangeWholeDocument(text=text)
        changed.change(version, [change])
        assert (changed.text, changed.version) == (text, version)
        whole = document(text, encoding)
        for offset, position in places(text, encoding):
            assert changed.position(offset) == whole.position(offset) == position
            assert changed.offset(position) == offset
        if data.draw(st.booleans()):
            assert changed.source.text == text
            assert changed.source.definitions == Source.of("a.py", text).definitions


def test_several_changes_at_once_are_made_one_after_the_other() -> None:
    changed = document("one\ntwo\n")
    first = Range(start=Position(line=0, character=0), end=Position(line=1, character=0))
    then = Range(start=Position(line=0, character=3), end=Position(line=0, character=3))
    changed.change(
        2,
        [
            TextDocumentContentChangePartial(range=first, text=""),
            TextDocumentContentChangePartial(range=then, text="!"),
        ],
    )
    assert changed.text == "two!\n"


@pytest.mark.parametrize("end", ["\f", "\u2028", "\x85", "\v", "\x1c"])
def test_what_ends_a_line_for_python_alone_ends_none(end: str) -> None:
    opened = document(f"a{end}b\nc")
    assert opened.position(4) == Position(line=1, character=0)


def test_a_stray_carriage_return_ends_no_line_unless_nothing_else_does() -> None:
    assert document("a\rb\nc").position(4) == Position(line=1, character=0)
    assert document("a\rb").position(2) == Position(line=1, character=0)


def test_positions_that_are_nowhere_are_the_nearest_place() -> None:
    opened = document("ab\r\nc")
    assert opened.offset(Position(line=0, character=9)) == 2
    assert opened.offset(Position(line=7, character=3)) == 5
    backwards = Range(start=Position(line=1, character=1), end=Position(line=0, character=1))
    assert opened.span(backwards) == (1, 5)


def test_lines_begin_and_end_where_an_editor_shows_it() -> None:
    opened = document("ab\r\n\r\nc")
    assert [opened.line_start(each) for each in range(5)] == [0, 4, 6, 7, 7]
    assert [opened.line_end(each) for each in range(3)] == [2, 4, 7]
    assert [opened.line_of(each) for each in (0, 3, 4, 7)] == [0, 0, 1, 2]


def test_whoever_took_the_text_has_a_snapshot() -> None:
    opened = document("a")
    before, code = opened.text, opened.source
    opened.change(2, [TextDocumentContentChangeWholeDocument(text="b")])
    assert (before, code.text, opened.source.text) == ("a", "a", "b")


def test_documents_are_there_from_opening_to_closing() -> None:
    documents = Documents()
    documents.encoding = "utf-8"
    opened = documents.open("file:///a.py", "a.py", 3, "é")
    assert documents.get("file:///a.py") is opened
    assert list(documents) == [opened]
    assert opened.position(1) == Position(line=0, character=2)
    documents.close("file:///a.py")
    documents.close("file:///a.py")
    assert documents.get("file:///a.py") is None

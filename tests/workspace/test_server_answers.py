"""Answers of a language server to a rename: edits of the protocol, or a refusal in words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from vivace.workspace.document import LARGEST
from vivace.workspace.language_server import ServerFailed
from vivace.workspace.server_answers import Place, apply_edits, read_edits, read_places

URI = "file:///project/a.py"
TEXT = "ä = 1\r\n𝄞 = ä\nlast"


def span(*places: Any) -> dict[str, Any]:
    first, second, third, fourth = places
    return {
        "start": {"line": first, "character": second},
        "end": {"line": third, "character": fourth},
    }


def change(*places: Any, new: object = "x") -> dict[str, Any]:
    return {"range": span(*places), "newText": new}


def after(*changes: dict[str, Any], text: str = TEXT) -> str:
    [(_, edits)] = read_edits({"changes": {URI: list(changes)}}).items()
    return apply_edits(text, edits)


ODD: list[Any] = [
    "x",
    5,
    True,
    [],
    {"changes": []},
    {"changes": 5},
    {"changes": {URI: None}},
    {"changes": {URI: [5]}},
    {"changes": {URI: [None]}},
    {"changes": {URI: [{"newText": "x"}]}},
    {"changes": {URI: [{"range": span(0, 0, 0, 1)}]}},
    {"changes": {URI: [change(0, 0, 0, 1, new=5)]}},
    {"changes": {URI: [change("0", 0, 0, 1)]}},
    {"changes": {URI: [change(0.5, 0, 0, 1)]}},
    {"changes": {URI: [change(-1, 0, 0, 1)]}},
    {"changes": {URI: [change(0, -5, 0, -1)]}},
    {"changes": {URI: [change(2**31, 0, 2**60, 1)]}},
    {"changes": {"file://[": []}},
    {"documentChanges": [None]},
    {"documentChanges": {"a": 1}},
    {"documentChanges": [{"edits": []}]},
    {"documentChanges": [{"textDocument": {"uri": 5}, "edits": []}]},
    {"documentChanges": [{"kind": "create", "uri": URI}]},
]


@pytest.mark.parametrize("answer", ODD, ids=str)
def test_an_answer_that_is_no_edit_is_refused_in_words(answer: Any) -> None:
    with pytest.raises(ServerFailed, match=r"\.$"):
        read_edits(answer)


@pytest.mark.parametrize("answer", [None, {}, {"changes": None}, {"documentChanges": None}])
def test_no_edit_is_none(answer: Any) -> None:
    assert read_edits(answer) == {}


def test_edits_of_both_forms_are_read() -> None:
    document = {"textDocument": {"uri": URI, "version": None}, "edits": [change(0, 0, 0, 1)]}
    found = read_edits({"changes": {URI: [change(1, 0, 1, 2)]}, "documentChanges": [document]})
    assert apply_edits(TEXT, found[Path("/project/a.py")]) == "x = 1\r\nx = ä\nlast"


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ([change(1, 0, 1, 2), change(0, 0, 0, 1)], "x = 1\r\nx = ä\nlast"),
        ([change(0, 0, 0, 1), change(0, 0, 0, 1)], "x = 1\r\n𝄞 = ä\nlast"),
        ([change(0, 3, 0, 10**9)], "ä =x\r\n𝄞 = ä\nlast"),
        ([change(10**9, 10**9, 10**9, 10**9)], TEXT + "x"),
        ([change(2, 0, 2, 4, new="")], "ä = 1\r\n𝄞 = ä\n"),
        ([change(0, 0, 0, 0), change(0, 0, 0, 1, new="y")], "xy = 1\r\n𝄞 = ä\nlast"),
    ],
)
def test_edits_are_made_where_the_protocol_has_them(
    changes: list[dict[str, Any]], expected: str
) -> None:
    assert after(*changes) == expected


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ([change(0, 0, 0, 3), change(0, 1, 0, 4)], "overlap"),
        ([change(1, 3, 0, 0)], "overlap"),
        ([change(1, 1, 1, 2)], "half a character"),
        ([change(0, 0, 0, 1, new="\ud800")], "half a character"),
        ([change(0, 0, 0, 0, new="x" * (LARGEST + 1))], "more than a file can hold"),
    ],
    ids=["overlapping", "backwards", "within a character", "half of one", "too much"],
)
def test_edits_that_leave_no_text_are_refused(changes: list[dict[str, Any]], why: str) -> None:
    with pytest.raises(ServerFailed, match=why):
        after(*changes)


def test_many_edits_take_no_longer_than_their_text() -> None:
    lines = 20_000
    changes = [change(line, 0, line, 1) for line in range(lines)]
    assert after(*changes, text="a\n" * lines) == "x\n" * lines


@pytest.mark.parametrize("answer", [5, "x", [5], [None], [{}], [{"uri": URI}], [{"range": 5}]])
def test_a_place_that_is_none_is_refused(answer: Any) -> None:
    with pytest.raises(ServerFailed):
        list(read_places(answer))


def test_places_of_both_forms_are_read() -> None:
    link = {"targetUri": URI, "targetRange": 5, "targetSelectionRange": span(1, 2, 1, 3)}
    expected = Place(Path("/project/a.py"), 1, 2)
    assert list(read_places(link)) == list(read_places([link])) == [expected]
    assert list(read_places({"uri": URI, "range": span(1, 2, 1, 3)})) == [expected]
    assert list(read_places(None)) == list(read_places([])) == []

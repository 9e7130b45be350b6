"""What can be set in an editor, and what it says beyond the protocol."""

from __future__ import annotations

import json
from typing import Any

import pytest
from lsprotocol.types import ClientCapabilities, Position, Range

from vivace.errors import ConfigError
from vivace.lsp.capabilities import read_capabilities
from vivace.lsp.extensions import EditProgress, Known, ShownHunk, as_json
from vivace.lsp.settings import Completion, Settings, read_settings


@pytest.mark.parametrize("given", [None, {}, {"vivace": None}, {"vivace": {}}, {"other": 1}, []])
def test_what_is_not_set_is_as_usual(given: Any) -> None:
    assert read_settings(given) == Settings()


@pytest.mark.parametrize("around", [lambda own: own, lambda own: {"vivace": own, "editor": {}}])
def test_settings_come_alone_or_in_their_section(around: Any) -> None:
    own = {"model": "a", "deepModel": "b", "completion": {"timing": "pauses"}, "later": True}
    assert read_settings(around(own)) == Settings("a", "b", Completion(timing="pauses"))


def test_a_wrong_value_is_named() -> None:
    with pytest.raises(ConfigError, match="model"):
        read_settings({"vivace": {"model": 3}})


@pytest.mark.parametrize(
    ("experimental", "known"),
    [
        (None, Known()),
        ({"vivace": {"edit": True}}, Known(edit=True)),
        ({"vivace": {"edit": "perhaps"}}, Known()),
        ({"vivace": True}, Known()),
        (True, Known()),
    ],
)
def test_what_a_client_knows_of_ours_is_believed_only_if_it_is_clear(
    experimental: Any, known: Known
) -> None:
    assert read_capabilities(ClientCapabilities(experimental=experimental)).known == known


def test_our_own_messages_go_out_in_the_protocols_spelling() -> None:
    place = Range(start=Position(line=1, character=2), end=Position(line=3, character=4))
    shown = EditProgress(uri="u", version=7, hunks=(ShownHunk(range=place, new_text="x"),))
    start, end = {"line": 1, "character": 2}, {"line": 3, "character": 4}
    assert json.loads(json.dumps(as_json(shown))) == {
        "uri": "u",
        "version": 7,
        "hunks": [{"range": {"start": start, "end": end}, "newText": "x"}],
        "done": False,
        "message": "",
    }


def test_a_window_in_which_nothing_would_stand_is_refused() -> None:
    with pytest.raises(ConfigError, match="characters"):
        read_settings({"completion": {"characters": 0}})

"""docs/reference/websocket.md: every event, and what OpenAI's client does not know is marked."""

from __future__ import annotations

from typing import get_args

import msgspec
import openai.types.responses as sdk
import openai.types.responses.responses_server_event as sdk_events
import pytest
from msgspec import Struct

from scripts.references import websocket
from scripts.references.docstrings import attributes
from vivace.errors import InvalidRequest
from vivace.protocol import events
from vivace.protocol.codec import decode_client_event

PAGE = websocket.text()
SERVER = websocket.server_events()
OF_OTHER_VERSIONS = {("response.function_call_arguments.done", "name")}
"""Of OpenAI's client, if not of the one that is installed."""


def known_to_sdk() -> dict[str, set[str]]:
    """The fields of each event that OpenAI's client knows, whichever way it comes."""
    known: dict[str, set[str]] = {}
    for module in (sdk, sdk_events):
        for kind in vars(module).values():
            fields = getattr(kind, "model_fields", None)
            if isinstance(fields, dict) and "type" in fields:
                for name in get_args(fields["type"].annotation):
                    known.setdefault(name, set()).update(fields)
    return known


SDK = known_to_sdk()
EVENTS = [*SERVER.items(), *websocket.CLIENT.items()]


def test_every_event_that_the_server_may_say_is_listed() -> None:
    tagged = {
        kind.__struct_config__.tag
        for kind in (getattr(events, name) for name in events.__all__)
        if isinstance(kind, type) and issubclass(kind, Struct)
    } - {None}
    assert set(SERVER) == tagged
    assert all(f"| `{name}` |" in PAGE for name in tagged)


@pytest.mark.parametrize("name", ["response.create", *websocket.CLIENT])
def test_an_event_of_the_client_is_read(name: str) -> None:
    assert f"| `{name}` |" in PAGE
    least = {"previous_response_id": "resp_1", "response_id": "resp_1", "input": "Say hello."}
    decode_client_event(msgspec.json.encode(least | {"type": name}))


def test_no_other_event_of_the_client_is_read() -> None:
    with pytest.raises(InvalidRequest) as refused:
        decode_client_event('{"type": "response.other"}')
    named = refused.value.message.partition("(")[2].partition(")")[0].split(", ")
    assert set(named) == {"response.create", *websocket.CLIENT}


@pytest.mark.parametrize(("name", "kind"), EVENTS, ids=[name for name, _ in EVENTS])
def test_what_the_makers_client_does_not_know_is_marked(name: str, kind: type[Struct]) -> None:
    assert bool(websocket.added_by(kind.__doc__ or "")) == (name not in SDK)
    if name in SDK:
        words = attributes(kind)
        marked = {
            each for each in kind.__struct_fields__ if websocket.added_by(words.get(each, ""))
        }
        unknown = set(kind.__struct_fields__) - SDK[name]
        assert marked == {each for each in unknown if (name, each) not in OF_OTHER_VERSIONS}


@pytest.mark.parametrize(("name", "kind"), EVENTS, ids=[name for name, _ in EVENTS])
def test_an_event_says_what_it_means(name: str, kind: type[Struct]) -> None:
    assert (kind.__doc__ or "").rstrip().endswith("."), name


def test_an_object_in_an_event_is_described() -> None:
    assert "\n### Response\n" in PAGE
    assert "| `position` | integer |" in PAGE
    assert "| `routing` | `Routing`, may be left out | *Ours.* Which tier answered" in PAGE

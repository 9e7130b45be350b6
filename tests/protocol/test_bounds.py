"""How much one request may ask for: refused from its text, before anything of it is decoded."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.counting import calls
from tests.support.examples import examples
from vivace.errors import InvalidRequest, RequestError, TooLarge
from vivace.protocol import bounds
from vivace.protocol.bounds import MAX_ITEMS, MAX_STEER_ITEMS, MAX_TOOLS, MAX_VALUES, check_values
from vivace.protocol.chat import decode_chat
from vivace.protocol.codec import decode_client_event, decode_create, decode_steer_input
from vivace.protocol.messages_api.request import decode_messages
from vivace.protocol.requests import Steer

MESSAGE = '{"role":"user","content":"x"}'
AWKWARD = st.text('a\\",[{}:\n\u00e9', max_size=12)
JSON = st.recursive(
    AWKWARD | st.integers() | st.none(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(AWKWARD, inner, max_size=4),
    max_leaves=20,
)


def values_in(value: object) -> int:
    """Return how many marks of JSON stand outside of strings: one opens a list or an object, and
    one stands before each but its first member."""
    if isinstance(value, dict | list):
        members = list(value.values()) if isinstance(value, dict) else value
        return 1 + max(0, len(members) - 1) + sum(map(values_in, members))
    return 0


def repeated(unit: str, times: int) -> str:
    return ",".join([unit] * times)


def many(body: str, unit: str, times: int) -> str:
    """Return the body with so many units in place of ``…``."""
    return body.replace("…", repeated(unit, times))


def refusal_of(decode: Callable[[str], object], text: str) -> RequestError:
    with pytest.raises(RequestError) as refused:
        decode(text)
    return refused.value


@settings(max_examples=examples(300), deadline=None)
@given(value=JSON, piece=st.integers(1, 9), ascii_only=st.booleans())
def test_values_are_counted_outside_of_strings_wherever_the_text_is_cut(
    value: object, piece: int, ascii_only: bool
) -> None:
    text, count = json.dumps(value, ensure_ascii=ascii_only), values_in(value)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bounds, "_PIECE", piece)
        patch.setattr(bounds, "MAX_VALUES", count)
        check_values(text)
        patch.setattr(bounds, "MAX_VALUES", count - 1)
        with pytest.raises(TooLarge):
            check_values(text)


def test_marks_of_json_in_a_text_are_no_values() -> None:
    check_values(json.dumps({"input": '{"a": [1, 2], "b": "\\\\"}' * MAX_VALUES}))


def test_too_many_values_are_refused_with_the_bound_and_what_to_do() -> None:
    error = refusal_of(check_values, f"[{repeated('1', MAX_VALUES + 1)}]")
    assert (error.status, error.code) == (413, "request_too_large")
    assert f"{MAX_VALUES:,}" in error.message
    assert "Send fewer" in error.message


TOO_MANY_ITEMS: dict[str, tuple[Callable[[str], object], str]] = {
    "responses": (decode_create, many('{"input":[…]}', MESSAGE, MAX_ITEMS + 1)),
    "references": (decode_create, many('{"input":[…]}', '{"id":"x"}', MAX_ITEMS + 1)),
    "over a socket": (
        decode_client_event,
        many('{"type":"response.create","input":[…]}', MESSAGE, MAX_ITEMS + 1),
    ),
    "steer": (
        lambda text: decode_steer_input(json_of_steer(text)),
        many(
            '{"type":"response.steer","previous_response_id":"r","input":[…]}',
            MESSAGE,
            MAX_STEER_ITEMS + 1,
        ),
    ),
    "tools": (
        decode_create,
        many('{"tools":[…]}', '{"type":"function","name":"f"}', MAX_TOOLS + 1),
    ),
}


def json_of_steer(text: str) -> Any:
    event = decode_client_event(text)
    assert isinstance(event, Steer)
    return event.input


@pytest.mark.parametrize(("decode", "text"), TOO_MANY_ITEMS.values(), ids=TOO_MANY_ITEMS)
def test_too_many_are_refused_before_any_of_them_is_decoded(
    decode: Callable[[str], object], text: str
) -> None:
    assert calls(lambda: refusal_of(decode, text)) < 200


@pytest.mark.parametrize(
    ("decode", "body"),
    [
        (decode_chat, '{"messages":[…]}'),
        (decode_messages, '{"max_tokens":1,"messages":[…]}'),
        (decode_create, '{"input":[…]}'),
    ],
)
def test_a_conversation_of_too_many_items_is_refused_on_each_api(
    decode: Callable[[str], object], body: str
) -> None:
    error = refusal_of(decode, many(body, MESSAGE, MAX_ITEMS + 1))
    assert (error.status, error.code, error.param) == (413, "request_too_large", "input")
    assert f"{MAX_ITEMS:,} items" in error.message
    assert "/v1/responses/compact" in error.message
    decode(many(body, MESSAGE, 100))


def test_each_call_of_a_chat_message_counts_as_an_item() -> None:
    call = '{"id":"c","type":"function","function":{"name":"n","arguments":"{}"}}'
    body = '{"messages":[{"role":"assistant","tool_calls":[…]}]}'
    assert refusal_of(decode_chat, many(body, call, MAX_ITEMS + 1)).status == 413


def test_tools_in_namespaces_and_items_count_as_tools() -> None:
    tool = '{"type":"function","name":"f"}'
    space = many('{"type":"namespace","name":"n","tools":[…]}', tool, MAX_TOOLS // 2)
    for body, param in (
        ('{"tools":[…]}', "tools"),
        ('{"input":[{"type":"additional_tools","tools":[…]}]}', "input[0].tools"),
    ):
        error = refusal_of(decode_create, many(body, space, 2))
        assert isinstance(error, InvalidRequest)
        assert (error.status, error.code, error.param) == (400, "too_many_tools", param)
        assert f"{MAX_TOOLS:,}" in error.message
        decode_create(many(body, space, 1))


@pytest.mark.parametrize(
    ("decode", "body"),
    [
        (decode_chat, '{"messages":[],"tools":[…]}'),
        (decode_messages, '{"messages":[{"role":"user","content":"x"}],"tools":[…]}'),
    ],
)
def test_too_many_tools_are_refused_on_the_other_apis(
    decode: Callable[[str], object], body: str
) -> None:
    tool = '{"type":"function","function":{"name":"f"},"name":"f","input_schema":{"a":1}}'
    assert refusal_of(decode, many(body, tool, MAX_TOOLS + 1)).code == "too_many_tools"
    decode(many(body, tool, 10))

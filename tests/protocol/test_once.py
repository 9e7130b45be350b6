"""When two requests are the same, and what a key may be."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vivace.errors import RequestError
from vivace.protocol.codec import decode_client_event, decode_create, decode_steer
from vivace.protocol.once import Once, key_of, once_of
from vivace.protocol.requests import CreateResponse, Steer

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
BODIES = st.dictionaries(st.sampled_from(["input", "model", "metadata", "x", "y"]), VALUES)
BESIDE = ("stream", "stream_options", "stream_id", "type", "client_metadata", "idempotency_key")


def mark(body: dict[str, Any], kind: str = "create") -> bytes:
    once = once_of(kind, "k", body)
    assert once is not None
    return once.fingerprint


def bare(body: dict[str, Any]) -> dict[str, Any]:
    return {name: each for name, each in body.items() if each is not None}


def same(one: object, other: object) -> bool:
    """As JSON has it: 1 is neither 1.0 nor true."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


@given(BODIES, st.randoms())
def test_the_order_of_fields_does_not_count(body: dict[str, Any], dice: Any) -> None:
    names = list(body)
    dice.shuffle(names)
    assert mark({name: body[name] for name in names}) == mark(body)


@given(BODIES, st.sampled_from(BESIDE), VALUES)
def test_how_it_is_told_and_sent_does_not_count(
    body: dict[str, Any], name: str, value: object
) -> None:
    assert mark(body | {name: value}) == mark(body)


@given(BODIES, BODIES)
def test_all_else_does(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert (mark(one) == mark(other)) == same(bare(one), bare(other))
    assert mark(one) != mark(one, "steer resp_1")


@given(st.text(max_size=300))
def test_a_key_is_taken_as_it_is_or_refused(key: str) -> None:
    sound = 0 < len(key) <= 256 and key.isprintable()
    for header, field in ((key, None), (None, key), (key, key)):
        if sound:
            assert key_of(header, field) == key
        else:
            with pytest.raises(RequestError) as refused:
                key_of(header, field)
            assert refused.value.status == 400


def create(*, key: str | None = None, **body: Any) -> Once | None:
    request = decode_create(json.dumps({"input": "hi"} | body), key=key)
    assert request.body.idempotency_key is None  # nothing that follows it has its key
    return request.once


def test_a_request_is_the_same_by_any_way_it_comes() -> None:
    over_http = create(key="k", stream=True)
    event = {"type": "response.create", "stream_id": "a", "input": "hi", "idempotency_key": "k"}
    over_socket = decode_client_event(json.dumps(event))
    assert isinstance(over_socket, CreateResponse)
    assert over_socket.once == over_http == create(idempotency_key="k")
    assert create() is None


def test_a_steer_is_the_same_by_any_way_it_comes_and_is_for_one_response() -> None:
    event = {"type": "response.steer", "previous_response_id": "resp_1", "input": "left"}
    over_socket = decode_client_event(json.dumps(event | {"idempotency_key": "k"}))
    assert isinstance(over_socket, Steer)
    body = json.dumps({"input": "left"})
    assert over_socket.once == decode_steer(body, response_id="resp_1", key="k").once
    assert over_socket.once != decode_steer(body, response_id="resp_2", key="k").once
    assert decode_steer(body, response_id="resp_1").once is None


@pytest.mark.parametrize("number", ["1e300", "9" * 400, "-0.0", "1E5"])
def test_no_number_is_too_odd_for_it(number: str) -> None:
    text = f'{{"input": "hi", "x": {number}}}'
    assert decode_create(text, key="k").once == decode_create(text, key="k").once


@pytest.mark.parametrize("value", ["1e400", "[" * 5000 + "]" * 5000, "[" * 10**5 + "]" * 10**5])
def test_what_cannot_be_read_is_refused(value: str) -> None:
    with pytest.raises(RequestError) as refused:
        decode_create(f'{{"input": "hi", "x": {value}}}', key="k")
    assert refused.value.status == 400

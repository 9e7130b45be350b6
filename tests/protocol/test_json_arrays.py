"""Large arrays are decoded in parts, and mean what they meant as a whole."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Raw, Struct

from tests.support.examples import examples
from vivace.protocol.json_arrays import decode_array

many = settings(deadline=None, max_examples=examples(100))

# Text that looks like the place where an element ends, and like the end of all.
text = st.text(st.sampled_from('},{[]":\\x é\x00'), max_size=12)
value = st.recursive(
    st.none() | st.integers() | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=8,
)
objects = st.lists(st.dictionaries(text, value, max_size=4), max_size=12)

raw_items: msgspec.json.Decoder[list[Raw]] = msgspec.json.Decoder(list[Raw])
items: msgspec.json.Decoder[list[dict[str, Any]]] = msgspec.json.Decoder(list[dict[str, Any]])


class _Typed(Struct):
    a: int


class Counted:
    """A decoder that notes how many bytes it is given at a time."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def decode(self, part: bytes) -> list[Raw]:
        self.sizes.append(len(part))
        return raw_items.decode(part)


@given(objects, st.integers(1, 40))
@many
def test_elements_are_those_of_the_whole_wherever_it_is_cut(
    elements: list[dict[str, Any]], part_bytes: int
) -> None:
    data = msgspec.json.encode(elements)
    found = [each for part in decode_array(items.decode, data, part_bytes) for each in part]
    assert found == elements


@given(objects.filter(bool), st.integers(1, 40), st.data())
@many
def test_damaged_array_is_refused_as_it_is_as_a_whole(
    elements: list[dict[str, Any]], part_bytes: int, data: st.DataObject
) -> None:
    damaged = bytearray(json.dumps(elements, separators=(",", ":")).encode())
    place = data.draw(st.integers(0, len(damaged) - 1))
    damaged[place : place + data.draw(st.integers(1, 3))] = data.draw(
        st.sampled_from([b"", b",", b"}", b"{", b"]", b"[", b'"', b"\xff"])
    )
    try:
        whole: list[Any] | None = items.decode(bytes(damaged))
    except (msgspec.DecodeError, UnicodeDecodeError):
        whole = None
    try:
        parts = [*decode_array(items.decode, bytes(damaged), part_bytes)]
    except (msgspec.DecodeError, UnicodeDecodeError):
        assert whole is None
    else:
        assert [each for part in parts for each in part] == whole


def test_each_part_is_small_and_all_of_them_are_decoded_once() -> None:
    data = msgspec.json.encode([{"role": "user", "content": "x" * 20}] * 5_000)
    counted = Counted()
    assert sum(map(len, decode_array(counted.decode, data, 4_000))) == 5_000
    assert max(counted.sizes) < 4_200
    assert sum(counted.sizes) < len(data) + 2 * len(counted.sizes)


@pytest.mark.parametrize("inside", ["},{" * 30_000, '"},{"' * 20_000, '{"a":[{},{},{}]},' * 9_000])
def test_element_made_of_places_to_cut_is_not_tried_at_each_of_them(inside: str) -> None:
    elements = [{"a": 1}, {"text": inside}, {"a": [{"b": [{}, {}]}] * 9_000}, {"a": 2}]
    data = msgspec.json.encode(elements)
    counted = Counted()
    found = [each for part in decode_array(counted.decode, data, 1_000) for each in part]
    assert [*map(msgspec.json.decode, found)] == elements
    assert len(counted.sizes) < 40
    assert sum(counted.sizes) < 5 * len(data)


def test_element_of_the_wrong_type_is_told_at_once() -> None:
    decoder = msgspec.json.Decoder(list[_Typed])
    data = msgspec.json.encode([{"a": 1}, {"a": "one"}, *({"a": 1} for _ in range(1_000))])
    with pytest.raises(msgspec.ValidationError, match="Expected `int`"):
        list(decode_array(decoder.decode, data, 100))


@pytest.mark.parametrize("data", [b"[]", b"[ ]", b"[1,2]", b' [{"a":1}]', b'[{"a":1},2]'])
def test_other_arrays_are_decoded_too(data: bytes) -> None:
    assert [*decode_array(raw_items.decode, data, 1)] == [raw_items.decode(data)]

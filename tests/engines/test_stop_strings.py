from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vivace.engines.stop_strings import StopStrings

texts = st.lists(st.text("ab.", max_size=4), max_size=8)
strings = st.lists(st.text("ab.", max_size=3), max_size=3)


def told(strings: list[str], pieces: list[str]) -> tuple[str, bool]:
    stops = StopStrings(strings)
    said = "".join([*(stops.feed(piece) for piece in pieces), stops.rest()])
    return said, stops.reached


def by_characters(strings: list[str], text: str) -> tuple[str, bool]:
    """What it must come to, told as simply as possible."""
    for end in range(1, len(text) + 1):
        reached = [each for each in strings if each and text[:end].endswith(each)]
        if reached:
            return text[: end - max(map(len, reached))], True
    return text, False


@given(strings, texts)
def test_the_text_ends_before_the_first_stop_string_however_it_is_cut(
    strings: list[str], pieces: list[str]
) -> None:
    assert told(strings, pieces) == by_characters(strings, "".join(pieces))


@given(strings, texts)
def test_no_more_is_held_than_could_begin_a_stop_string(
    strings: list[str], pieces: list[str]
) -> None:
    stops = StopStrings(strings)
    said = "".join(stops.feed(piece) for piece in pieces)
    if not stops.reached:
        held = "".join(pieces)[len(said) :]
        assert not held or any(each.startswith(held) and each != held for each in strings)


@pytest.mark.parametrize(
    ("strings", "pieces", "said"),
    [
        (["\n\n"], ["one\n", "\ntwo"], "one"),
        (["END"], ["the E", "N", "DING"], "the "),
        (["END"], ["the E", "N"], "the EN"),
        (["abc", "b"], ["abc"], "a"),
        ([""], ["all of it"], "all of it"),
    ],
)
def test_examples(strings: list[str], pieces: list[str], said: str) -> None:
    assert told(strings, pieces)[0] == said

"""As much of a file is shown as the engine reads in about two seconds."""

from __future__ import annotations

import pytest

from vivace.completion.room import LEAST, MOST, Room


@pytest.mark.parametrize(
    ("speed", "characters"), [(100, LEAST), (900, LEAST), (2_200, 4_000), (50_000, MOST)]
)
def test_it_follows_how_fast_the_engine_reads(speed: int, characters: int) -> None:
    room = Room()
    for _ in range(20):
        room.read(3_000, 3_000 / speed)
    assert room.characters == characters


def test_a_little_faster_or_slower_is_no_reason_to_read_everything_anew() -> None:
    room = Room()
    room.read(3_000, 1.0)
    before = room.characters
    for seconds in (0.95, 1.05, 0.9, 1.1):
        room.read(3_000, seconds)
    assert room.characters == before


def test_a_short_text_tells_of_the_way_and_not_of_the_engine() -> None:
    room = Room()
    before = room.characters
    room.read(20, 1.0)
    assert room.characters == before


def test_what_was_set_stays() -> None:
    room = Room(5_000)
    room.read(5_000, 60.0)
    assert room.characters == 5_000

"""How much of a file is shown around the gap."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vivace.completion.anchor import Anchor
from vivace.completion.windows import window
from vivace.syntax.source import Source

FILE = "".join(
    f"def f{number}(x):\n    y = x + {number}\n    return y\n\n\n" for number in range(200)
)


def test_a_short_file_is_shown_whole() -> None:
    found = window("a.py", Anchor("x = 1\n", "y = 2\n"), 1_000)
    assert (found.prefix, found.suffix) == ("x = 1\n", "y = 2\n")


def test_a_window_begins_and_ends_at_definitions() -> None:
    found = window("a.py", Anchor(FILE[:6_000], FILE[6_000:]), 3_000)
    assert found.prefix.startswith("def f")
    assert FILE[6_000 + len(found.suffix) :].startswith("def f")


def test_a_window_stays_while_the_gap_moves_a_little() -> None:
    starts = {
        len(FILE[:at]) - len(window("a.py", Anchor(FILE[:at], FILE[at:]), 3_000).prefix)
        for at in range(6_000, 6_400, 20)
    }
    assert len(starts) <= 2


def test_of_a_long_file_only_what_is_around_the_gap_is_parsed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    parsed: list[int] = []
    of = Source.of

    def counted(path: str, text: str) -> Source:
        parsed.append(len(text))
        return of(path, text)

    monkeypatch.setattr(Source, "of", counted)
    found = window("a.py", Anchor(FILE * 10 + FILE[:1_001], FILE[1_001:] + FILE * 10), 3_000)
    assert found.prefix.startswith("def f")
    assert 0 < max(parsed) < 2 * 3_000


@given(
    st.lists(st.sampled_from(["def f():\n", "    x\n", "\n", "class A:\n", "x" * 80]), max_size=60),
    st.integers(0, 2_000),
    st.integers(20, 800),
)
def test_a_window_is_what_stands_around_the_gap_and_no_larger_than_the_room(
    lines: list[str], place: int, room: int
) -> None:
    text = "".join(lines)
    place = min(place, len(text))
    found = window("a.py", Anchor(text[:place], text[place:]), room)
    assert text[:place].endswith(found.prefix)
    assert text[place:].startswith(found.suffix)
    assert len(found.prefix) + len(found.suffix) <= room

"""Streams of server-sent events, cut anywhere."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vivace.protocol.sse import EndlessLine, SseLines, sse

pieces = st.lists(st.binary(max_size=20) | st.sampled_from([b"data: x\n", b"\n", b"\r\n"]))


def events(data: list[bytes]) -> list[bytes]:
    lines = SseLines()
    found = [event for piece in data for event in lines.feed(piece)]
    return [*found, *lines.end()]


@given(pieces)
def test_it_does_not_matter_how_a_stream_is_cut(data: list[bytes]) -> None:
    assert events(data) == events([b"".join(data)])


def test_events_come_as_soon_as_they_are_whole() -> None:
    lines = SseLines()
    assert [*lines.feed(sse("a", b"{}")[:-3])] == []
    assert [*lines.feed(b"}\n")] == [b"{}"]


def test_a_line_without_an_end_is_not_kept() -> None:
    lines = SseLines(longest=100)
    assert [*lines.feed(b"x" * 100)] == []
    with pytest.raises(EndlessLine):
        [*lines.feed(b"x")]


def test_many_lines_are_no_long_line() -> None:
    lines = SseLines(longest=100)
    assert sum(len([*lines.feed(b"data: y\n")]) for _ in range(1000)) == 1000

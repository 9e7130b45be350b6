"""Flow control: what a node may send, what a gateway takes, and what happens beyond."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vivace.conversation.deltas import (
    CallOpened,
    CallText,
    Finished,
    ReasoningDelta,
    TextDelta,
    Tokens,
)
from vivace.conversation.log import Begun, Entry, Failed, Said
from vivace.errors import LinkError
from vivace.link import flow
from vivace.link.flow import MAX_ENTRY_BYTES, EntryLog, Inbox, Limit, weight


def text(size: int) -> Entry:
    """Return an entry of this weight."""
    return Said(0, TextDelta("x" * (size - 64)))


@pytest.mark.parametrize(
    ("entry", "least"),
    [
        (Begun(0), 64),
        (Said(0, Finished("stop", Tokens())), 64),
        (Said(0, TextDelta("x" * 1000)), 1000),
        (Said(0, ReasoningDelta("", tuple(range(1000)))), 8000),
        (Said(0, CallText("x" * 1000)), 1000),
        (Said(0, CallOpened("x" * 1000, namespace="y" * 1000, call_id="z" * 1000)), 3000),
        (Failed(0, "code", "x" * 1000), 1000),
    ],
)
def test_weight_of_an_entry_counts_all_that_may_be_long(entry: Entry, least: int) -> None:
    assert least <= weight(entry) <= least + 200


class TestInbox:
    def test_entries_beyond_the_credit_are_refused(self) -> None:
        inbox = Inbox(window=3, window_bytes=10**6)
        inbox.put([text(64)] * 3)
        with pytest.raises(LinkError, match="more of an answer"):
            inbox.put([text(64)])

    def test_entries_beyond_the_bytes_are_refused(self) -> None:
        inbox = Inbox(window=100, window_bytes=1000)
        inbox.put([text(900), text(900)])  # the second began below
        with pytest.raises(LinkError, match="more of an answer"):
            inbox.put([text(64)])

    def test_what_was_taken_is_room_once_it_was_granted(self) -> None:
        inbox = Inbox(window=100, window_bytes=1000)
        inbox.put([text(500), text(500)])
        inbox.take()
        assert inbox.should_grant
        with pytest.raises(LinkError):
            inbox.put([text(64)])
        assert inbox.grant() == (101, 500)
        inbox.put([text(500)])

    def test_entry_that_is_too_large_is_refused(self) -> None:
        inbox = Inbox(window_bytes=10**9)
        inbox.put([text(MAX_ENTRY_BYTES)])
        with pytest.raises(LinkError, match="an entry of"):
            inbox.put([text(MAX_ENTRY_BYTES + 1)])


class TestEntryLog:
    def test_more_than_an_entry_or_a_run_may_have_is_not_added(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(flow, "MAX_RUN_BYTES", 1000)
        log = EntryLog()
        assert not log.append(text(MAX_ENTRY_BYTES + 1))
        assert log.append(text(900))
        assert log.append(text(900))
        assert not log.append(text(64))
        assert (len(log), log.bytes) == (2, 1800)


@given(
    sizes=st.lists(st.integers(64, 400), max_size=40),
    steps=st.lists(st.tuples(st.integers(0, 10), st.integers(0, 10)), max_size=40),
    window=st.integers(1, 8),
    window_bytes=st.integers(1, 1500),
)
def test_node_sends_all_that_was_granted_and_nothing_beyond(
    sizes: list[int], steps: list[tuple[int, int]], window: int, window_bytes: int
) -> None:
    log, inbox = EntryLog(), Inbox(window, window_bytes)
    limit = Limit(log, 0, window, window_bytes)
    for size in sizes:
        log.append(text(size))

    def send(most: int) -> None:
        end = min(limit.of(log), inbox.heard + most)
        inbox.put(log.entries[inbox.heard : max(end, inbox.heard)])  # raises if it is too much

    def take(most: int) -> None:
        for _ in range(min(most, len(inbox.entries))):
            inbox.take()
        if inbox.should_grant:
            credit, free_bytes = inbox.grant()
            limit.raise_to(log, inbox.heard, credit, free_bytes)

    for sent, taken in steps:
        send(sent)
        take(taken)
    for _ in sizes:
        send(len(sizes))
        take(len(sizes))
    assert inbox.taken == len(sizes), "a stream stands still though its reader takes all"


@pytest.mark.parametrize(
    ("start", "size", "end"), [(0, 100, 1), (0, 200, 2), (0, 299, 2), (1, 200, 3), (2, 1, 3)]
)
def test_entries_within_so_many_bytes_are_one_at_least(start: int, size: int, end: int) -> None:
    log = EntryLog()
    for _ in range(3):
        log.append(text(100))
    assert log.within(start, size) == end


def test_limit_without_bytes_is_one_of_entries_alone() -> None:
    """A gateway before this count sends none."""
    log = EntryLog()
    limit = Limit(log, 0, 5, None)
    for _ in range(9):
        log.append(text(100_000))
    assert limit.of(log) == 5
    assert not limit.raise_to(log, 3, 5, None)
    assert limit.raise_to(log, 3, 8, None)
    assert limit.of(log) == 8

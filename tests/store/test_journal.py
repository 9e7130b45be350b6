"""What is written before it is sent is there after a crash, and takes no more disk than it must."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.support.disk import small_disk_at
from tests.support.examples import examples
from vivace.store.journal import FileJournal
from vivace.store.journal_records import HEAD, segments_in

TURNS = tuple(f"resp_{n:032x}" for n in range(4))
SMALL = 200_000
"""Bytes of a segment: a few entries fill it."""


def left_in(folder: Path) -> dict[str, list[bytes]]:
    """As the next gateway finds it."""
    return {kept.id: kept.entries for kept in FileJournal(folder).left()}


def test_a_turn_that_was_open_is_found_with_all_that_was_written(tmp_path: Path) -> None:
    journal = FileJournal(tmp_path)
    for word in (b"one", b"", b"three"):
        assert journal.append("resp_a", word)
    assert journal.append("resp_b", b"other")
    [a, b] = FileJournal(tmp_path).left()
    assert (a.id, a.entries, a.whole) == ("resp_a", [b"one", b"", b"three"], True)
    assert (b.id, b.entries, b.whole) == ("resp_b", [b"other"], True)


def test_a_turn_that_has_ended_is_not_found(tmp_path: Path) -> None:
    journal = FileJournal(tmp_path)
    journal.append("resp_a", b"one")
    journal.append("resp_b", b"two")
    journal.ended("resp_a")
    assert left_in(tmp_path) == {"resp_b": [b"two"]}


def test_it_is_for_its_owner_only(tmp_path: Path) -> None:
    FileJournal(tmp_path / "journal").append("resp_a", b"secret")
    [(_, path)] = segments_in(tmp_path / "journal")
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_an_entry_that_was_cut_short_does_not_count_and_those_before_do(tmp_path: Path) -> None:
    journal = FileJournal(tmp_path)
    journal.append("resp_a", b"said")
    [(_, path)] = segments_in(tmp_path)
    end = path.read_bytes().rstrip(b"\0")
    journal.append("resp_a", b"never sent")
    data = path.read_bytes()
    path.write_bytes(data[: len(end) + 15])
    assert left_in(tmp_path) == {"resp_a": [b"said"]}


def test_whatever_stands_in_a_file_it_is_read_without_a_crash(tmp_path: Path) -> None:
    journal = FileJournal(tmp_path)
    for n in range(20):
        journal.append(TURNS[n % 3], os.urandom(n))
    [(_, path)] = segments_in(tmp_path)
    data = path.read_bytes()[:2000]
    for place in range(0, 2000, 7):
        path.write_bytes(data[:place] + bytes([data[place] ^ 0x55]) + data[place + 1 :])
        for kept in FileJournal(tmp_path).left():
            assert kept.id


def test_a_gap_in_the_middle_makes_a_turn_less_than_whole(tmp_path: Path) -> None:
    journal = FileJournal(tmp_path, segment=SMALL)
    for _ in range(3):
        journal.append("resp_a", b"x" * 60_000)
    journal.append("resp_a", b"the next segment")
    (_, first), *_ = segments_in(tmp_path)
    data = bytearray(first.read_bytes())
    data[100_000] ^= 1
    first.write_bytes(data)
    [kept] = FileJournal(tmp_path).left()
    assert not kept.whole


def test_what_is_from_before_the_machines_last_start_is_not_believed_to_be_whole(
    tmp_path: Path,
) -> None:
    FileJournal(tmp_path).append("resp_a", b"one")
    [(_, path)] = segments_in(tmp_path)
    data = bytearray(path.read_bytes())
    data[HEAD.size - 1] ^= 1
    path.write_bytes(data)
    [kept] = FileJournal(tmp_path).left()
    assert kept.entries == [b"one"]
    assert not kept.whole


def test_a_thousand_short_turns_beside_a_long_one_take_little_room(tmp_path: Path) -> None:
    journal = FileJournal(tmp_path, segment=SMALL)
    said = []
    most = 0
    for n in range(1000):
        journal.append("resp_long", b"word %d" % n)
        said.append(b"word %d" % n)
        journal.append(f"resp_{n}", b"x" * 5_000)
        journal.ended(f"resp_{n}")
        most = max(most, sum(path.stat().st_size for _, path in segments_in(tmp_path)))
    assert most <= 6 * SMALL
    assert left_in(tmp_path) == {"resp_long": said}


def test_nothing_is_left_of_it_when_all_have_ended(tmp_path: Path) -> None:
    journal = FileJournal(tmp_path)
    journal.append("resp_a", b"one")
    journal.ended("resp_a")
    journal.close()
    assert segments_in(tmp_path) == []


def test_an_entry_larger_than_a_segment_has_one_of_its_own(tmp_path: Path) -> None:
    journal = FileJournal(tmp_path, segment=SMALL)
    large = os.urandom(SMALL * 3)
    assert journal.append("resp_a", b"before")
    assert journal.append("resp_a", large)
    assert journal.append("resp_a", b"after")
    assert left_in(tmp_path) == {"resp_a": [b"before", large, b"after"]}


def test_what_an_earlier_gateway_left_stays_until_it_is_dealt_with(tmp_path: Path) -> None:
    FileJournal(tmp_path).append("resp_a", b"one")
    second = FileJournal(tmp_path)
    second.append("resp_b", b"two")
    assert left_in(tmp_path) == {"resp_a": [b"one"], "resp_b": [b"two"]}
    second.forget_left()
    assert left_in(tmp_path) == {"resp_b": [b"two"]}


def test_a_full_disk_is_said_once_and_a_turn_it_took_no_more_of_is_not_whole(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with small_disk_at(tmp_path / "small", "1m") as disk:
        journal = FileJournal(disk / "journal", segment=SMALL)
        assert journal.append("resp_a", b"first")
        (disk / "hog").write_bytes(bytes(700_000))
        took = [journal.append("resp_a", b"x" * 10_000) for _ in range(40)]
        assert took[0]
        assert not took[-1]
        [told] = caplog.messages
        assert "Make room on its disk" in told
        a = next(kept for kept in FileJournal(disk / "journal").left() if kept.id == "resp_a")
        assert a.entries[0] == b"first"
        assert not a.whole
        (disk / "hog").unlink()
        assert journal.append("resp_c", b"y" * 50_000)
        assert not journal.append("resp_a", b"too late")
        journal.close()


class Crashes(RuleBasedStateMachine):
    """Any turns, any entries, any number of deaths: what was written and has not ended is there."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name)
        self.journal = FileJournal(self.path, segment=SMALL)
        self.open: dict[str, list[bytes]] = {}
        self.earlier: dict[str, list[bytes]] = {}

    @rule(turn=st.sampled_from(TURNS), size=st.integers(0, 40_000), copies=st.integers(1, 5))
    def say(self, turn: str, size: int, copies: int) -> None:
        if turn in self.earlier:
            return
        for _ in range(copies):
            entry = os.urandom(8) + bytes(size)
            assert self.journal.append(turn, entry)
            self.open.setdefault(turn, []).append(entry)

    @rule(turn=st.sampled_from(TURNS))
    def end(self, turn: str) -> None:
        self.journal.ended(turn)
        self.open.pop(turn, None)

    @rule()
    def wipe(self) -> None:
        self.journal.deleted()
        self.journal.wipe()

    @rule()
    def die(self) -> None:
        self.journal = FileJournal(self.path, segment=SMALL)
        self.earlier |= self.open
        self.open = {}

    @precondition(lambda self: self.earlier)
    @rule()
    def deal_with_what_was_left(self) -> None:
        self.journal.forget_left()
        self.earlier = {}

    @invariant()
    def all_of_it_is_there(self) -> None:
        assert left_in(self.path) == self.earlier | self.open
        assert self.journal.size <= 30 * SMALL

    def teardown(self) -> None:
        self.folder.cleanup()


TestCrashes = Crashes.TestCase
TestCrashes.settings = settings(max_examples=examples(40), stateful_step_count=40, deadline=None)


@pytest.mark.parametrize("name", ["².journal", "notes.journal", "-1.journal", "٣.journal"])
def test_a_file_that_is_no_segment_stays_and_stops_nothing(
    tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / name).write_bytes(b"mine")
    (tmp_path / "00000007.journal").mkdir()
    journal = FileJournal(tmp_path)
    assert journal.left() == []
    journal.append("a", b"1")
    journal.forget_left()
    journal.close()
    assert (tmp_path / name).read_bytes() == b"mine"
    assert [kept.id for kept in FileJournal(tmp_path).left()] == ["a"]
    assert name in caplog.text


# -- what is deleted ------------------------------------------------------------------------------


def holds(folder: Path, words: bytes) -> bool:
    return any(words in path.read_bytes() for path in folder.iterdir())


def test_what_ended_turns_said_can_be_wiped_while_others_go_on(tmp_path: Path) -> None:
    journal = FileJournal(tmp_path)
    journal.append("gone", b"malachite")
    journal.append("open", b"obsidian")
    journal.ended("gone")
    journal.wipe()
    assert holds(tmp_path, b"malachite")  # nobody said that it was deleted
    journal.deleted()
    journal.wipe()
    journal.append("later", b"granite")
    journal.deleted()  # again and again, which must not put it off
    journal.wipe()
    assert not holds(tmp_path, b"malachite")
    journal.ended("later")
    journal.append("open", b"basalt")
    journal.close()
    [kept] = FileJournal(tmp_path).left()
    assert (kept.entries, kept.whole) == ([b"obsidian", b"basalt"], True)


def test_a_turn_that_ends_soon_is_not_written_anew(tmp_path: Path) -> None:
    journal = FileJournal(tmp_path)
    journal.append("gone", b"malachite")
    journal.append("open", b"obsidian")
    journal.ended("gone")
    journal.deleted()
    journal.wipe()
    journal.ended("open")
    assert not holds(tmp_path, b"malachite")
    assert not holds(tmp_path, b"obsidian")


def test_a_wiped_journal_without_open_turns_takes_no_room(tmp_path: Path) -> None:
    journal = FileJournal(tmp_path)
    journal.append("gone", b"malachite")
    journal.ended("gone")
    journal.deleted()
    journal.wipe()
    assert list(tmp_path.iterdir()) == []
    assert journal.size == 0
    journal.append("next", b"obsidian")
    assert holds(tmp_path, b"obsidian")

"""The log of a turn: whatever is in it, wherever it is cut, its events are the same bytes."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.support.examples import examples
from vivace.conversation import log
from vivace.conversation.cuts import Cuts, encode_cuts
from vivace.conversation.deltas import (
    CallOpened,
    CallText,
    Delta,
    Finished,
    ReasoningDelta,
    TextDelta,
    Tokens,
)
from vivace.conversation.log import (
    Begun,
    Entry,
    Failed,
    Jumped,
    Placed,
    Said,
    SteerAtItemEnd,
    Stopped,
    ThinkingEnded,
)
from vivace.conversation.replay import events_of, replay
from vivace.conversation.response import as_created, open_response, read_response
from vivace.conversation.turn import Turn
from vivace.errors import LogError
from vivace.protocol.codec import decode_create, encode
from vivace.protocol.events import (
    OutputItemAdded,
    OutputItemDone,
    Response,
    ResponseCompleted,
    ResponseEvent,
)
from vivace.protocol.items import Compaction, FunctionCall

# -- any log --------------------------------------------------------------------------------------

times = st.integers(0, 2**40)
counts = st.integers(0, 2**31)
texts = st.text(max_size=6)
ids = st.lists(st.integers(0, 300_000), max_size=3).map(tuple)
tokens = st.builds(Tokens, counts, counts, counts, counts, counts, counts)
spoken: st.SearchStrategy[Delta] = st.one_of(
    st.builds(TextDelta, texts, st.just([]), ids),
    st.builds(ReasoningDelta, texts, ids),
    st.builds(
        CallOpened,
        st.sampled_from(["f", "g", ""]),
        st.booleans(),
        st.sampled_from([None, "space", ""]),
        st.sampled_from([None, "call_given", ""]),
        ids,
    ),
    st.builds(CallText, texts, ids),
)
said = st.builds(Said, times, spoken)
finished = st.builds(Finished, st.sampled_from(["stop", "length"]), tokens)
ends: st.SearchStrategy[Entry] = st.one_of(
    st.builds(Said, times, finished),
    st.builds(
        Stopped, times, st.sampled_from(["interrupt", "steer", "cancel", "disconnect", "away"])
    ),
    st.builds(Failed, times, texts, texts),
)
begun = st.builds(Begun, times, st.sampled_from([False, False, False, True]))
placed = st.builds(Placed, times, st.integers(1, 300), st.floats(0, 1e6))
jumped = st.builds(Jumped, times)
asides = st.one_of(
    st.builds(ThinkingEnded, times), st.builds(SteerAtItemEnd, times), jumped, placed, begun
)
anything: st.SearchStrategy[list[Entry]] = st.lists(st.one_of(said, said, asides, ends))


@st.composite
def lives(draw: st.DrawFn) -> list[Entry]:
    """A log as a turn may really have it: it waits, begins, says something, and ends."""
    waits = draw(st.lists(placed | jumped, max_size=3))
    if draw(st.integers(0, 9)) == 0:
        return [*waits, draw(ends)]
    words = draw(st.lists(st.one_of(said, said, said, said, asides), max_size=30))
    return [*waits, draw(begun), *words, draw(ends)]


logs = st.one_of(lives(), lives(), anything)
RICH = (
    b'{"input":"x","tools":[{"type":"custom","name":"f"},{"type":"unheard of"}],"temperature":0,'
    b'"tool_choice":{"type":"allowed_tools","tools":[{"type":"custom","name":"f"}]},'
    b'"text":{"format":{"type":"json_object"}},"metadata":{"a":"b"},"background":true,'
    b'"reasoning":{"effort":"low"},"instructions":"brief","previous_response_id":"resp_0"}'
)
lanes = st.sampled_from([None, "lane"])
bodies = st.sampled_from(
    [
        b'{"input":"x"}',
        b'{"input":"x","max_tool_calls":1}',
        b'{"tools":[{"type":"function","name":"f"}],"tool_choice":{"type":"function","name":"f"}}',
        RICH,
    ]
)
many = settings(deadline=None, max_examples=examples(300))


def created(body: bytes = b'{"input":"x"}', response_id: str = "resp_1") -> Response:
    return open_response(decode_create(body), response_id, "m", 100)


def lines(events: list[ResponseEvent]) -> list[bytes]:
    return [encode(event) for event in events]


def carried_over(response: Response) -> Response:
    """As it comes out of a store."""
    return read_response(encode(response))


@many
@given(anything)
def test_a_log_is_read_as_it_was_written(entries: list[Entry]) -> None:
    assert log.unpack(log.pack(entries)) == entries
    assert [log.decode(log.encode(entry)) for entry in entries] == entries


@many
@given(logs, st.data(), bodies, lanes)
def test_a_log_gives_the_same_events_in_however_many_pieces_it_is_folded(
    entries: list[Entry], data: st.DataObject, body: bytes, lane: str | None
) -> None:
    whole = lines(replay(created(body), entries, lane))
    places = sorted(data.draw(st.lists(st.integers(0, len(entries)), max_size=4)))
    written, pieces = b"", list[bytes]()
    for start, stop in zip([0, *places], [*places, len(entries)], strict=True):
        turn = Turn(carried_over(created(body)), lane)  # somewhere else, with nothing but the log
        for entry in log.unpack(written):
            turn.apply(entry)
        for entry in entries[start:stop]:
            pieces += lines(turn.apply(entry))
        written += log.pack(entries[start:stop])
    assert pieces == whole


@many
@given(lives(), bodies)
def test_what_is_done_to_a_turn_by_hand_is_what_its_log_gives(
    entries: list[Entry], body: bytes
) -> None:
    turn, live = Turn(created(body)), list[ResponseEvent]()
    for entry in entries:
        match entry:
            case Said():
                live += turn.feed(entry.delta, entry.at)
            case Placed():
                live += turn.wait(entry.position, entry.seconds)
            case Begun():
                live += turn.begin(summary=entry.summary)
            case ThinkingEnded():
                live += turn.end_thinking()
            case SteerAtItemEnd():
                assert turn.steer_with_item() == turn.in_item
            case Jumped():
                turn.jump()
            case Stopped():
                how = {"interrupt": turn.interrupt, "steer": turn.steer, "away": turn.abandon}
                live += how.get(entry.how, turn.cancel)(entry.at)
            case Failed():
                live += turn.fail(entry.code, entry.message, entry.at)
    assert lines(live) == lines(replay(created(body), entries))


@many
@given(logs)
def test_numbers_go_up_by_one_or_jump_to_a_million_and_never_come_again(
    entries: list[Entry],
) -> None:
    turn, expected = Turn(created()), 0
    for entry in entries:
        if isinstance(entry, Jumped) and not turn.ended:
            expected = (expected // 1_000_000 + 1) * 1_000_000
        for event in turn.apply(entry):
            assert event.sequence_number == expected
            expected += 1


@many
@given(logs)
def test_no_two_items_have_one_id(entries: list[Entry]) -> None:
    events = replay(created(), entries)
    names = [event.item.id for event in events if isinstance(event, OutputItemAdded)]
    assert len(set(names)) == len(names)


def test_neither_clock_nor_chance_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    def asked(*_: object) -> Any:
        raise AssertionError("a fold knows nothing but the response and the log")

    for place in ("time.time", "time.time_ns", "time.monotonic", "os.urandom", "random.random"):
        monkeypatch.setattr(place, asked)
    monkeypatch.setattr("secrets.token_hex", asked)
    turn, events = told(log.unpack(log.pack(CALLS)), RICH, None)
    again = events_of(created(RICH), turn.response, turn.cuts)
    monkeypatch.undo()
    assert lines(again) == lines(events)


# -- cuts -----------------------------------------------------------------------------------------


def told(entries: list[Entry], body: bytes, lane: str | None) -> tuple[Turn, list[ResponseEvent]]:
    turn = Turn(created(body), lane)
    events = [event for entry in entries for event in turn.apply(entry)]
    return turn, events


@many
@given(logs, bodies, lanes)
def test_a_stream_that_ended_is_told_again_from_its_response_and_cuts(
    entries: list[Entry], body: bytes, lane: str | None
) -> None:
    turn, events = told(entries, body, lane)
    assume(turn.ended)
    final = carried_over(turn.response)
    assert as_created(turn.response) == created(body)
    assert lines(events_of(as_created(final), final, turn.cuts, lane)) == lines(events)


@many
@given(lives(), lives(), bodies)
def test_cuts_of_another_turn_are_refused_or_tell_no_other_end(
    one: list[Entry], other: list[Entry], body: bytes
) -> None:
    turn, _ = told(one, body, None)
    foreign, _ = told(other, body, None)
    try:
        events = events_of(created(body), turn.response, foreign.cuts)
    except LogError:
        return
    done = [event.item for event in events if isinstance(event, OutputItemDone)]
    assert done == turn.response.output
    assert events[-1].response is turn.response  # type: ignore[attr-defined]


@many
@given(lives(), st.data())
def test_damaged_cuts_are_refused_or_tell_no_other_end(
    entries: list[Entry], data: st.DataObject
) -> None:
    turn, _ = told(entries, b"{}", None)
    damaged = bytearray(turn.cuts)
    damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    del damaged[data.draw(st.integers(0, len(damaged))) :]
    try:
        events = events_of(created(), turn.response, bytes(damaged))
    except LogError:
        return
    assert events[-1].response is turn.response  # type: ignore[attr-defined]


def test_a_response_that_has_not_ended_has_no_stream_to_tell_again() -> None:
    with pytest.raises(LogError):
        events_of(created(), created(), encode_cuts(Cuts()))


def test_a_response_that_could_not_be_stored_says_so_at_its_end_only() -> None:
    turn, events = told([Begun(1), Said(2, Finished("stop", Tokens()))], b"{}", None)
    unstored = msgspec.structs.replace(turn.response, store=False)
    again = events_of(created(), unstored, turn.cuts)
    assert lines(again[:-1]) == lines(events[:-1])
    assert again[-1] == msgspec.structs.replace(events[-1], response=unstored)


# -- what cannot be read --------------------------------------------------------------------------


@many
@given(st.lists(st.one_of(said, asides, ends), min_size=1), st.data())
def test_a_log_that_is_cut_short_is_refused_or_ends_between_entries(
    entries: list[Entry], data: st.DataObject
) -> None:
    whole = log.pack(entries)
    short = whole[: data.draw(st.integers(0, len(whole) - 1))]
    try:
        read = log.unpack(short)
    except LogError:
        return
    assert log.pack(read) == short
    assert read == entries[: len(read)]


@many
@given(st.binary(max_size=60))
def test_what_is_no_log_is_refused_and_never_more_than_that(data: bytes) -> None:
    with suppress(LogError):
        replay(created(), log.unpack(data))


@pytest.mark.parametrize(
    "foreign",
    [
        b'{"type":"response.created"}',
        b"event: response.created\n\n",
        b"\x00",
        b"\xff" * 6,
        b"\x01\xc0",
        b"\x03\x92\x63\x01",  # a kind of entry that nobody knows
        b"\x07\x93\x05\x01\xa3why",  # stopped in a way that nobody knows
        b"\x81\x01" + b"\x91" * 129,
    ],
)
def test_foreign_bytes_are_refused(foreign: bytes) -> None:
    with pytest.raises(LogError, match="cannot be read"):
        log.unpack(foreign)


def test_nesting_without_end_is_refused() -> None:
    deep = b"\x93\x00\x01\x94\x00\xa1x" + b"\x91" * 100_000 + b"\x90\x90"
    with pytest.raises(LogError):
        log.decode(deep)


def test_fields_of_a_later_version_are_passed_over() -> None:
    later: list[tuple[list[Any], Entry]] = [
        ([0, 7, [0, "x", [], [1, 2], "new"], "new"], Said(7, TextDelta("x", [], (1, 2)))),
        ([0, 7, [4, "stop", [1, 2, 0, 0, 0, 0, 9]]], Said(7, Finished("stop", Tokens(1, 2)))),
        ([2, 7, False, {"new": 1}], Begun(7)),
        ([5, 7, "steer", "resp_2", None], Stopped(7, "steer", "resp_2")),
    ]
    for fields, entry in later:
        assert log.decode(msgspec.msgpack.encode(fields)) == entry


def test_fields_that_an_older_version_did_not_have_are_as_if_not_said() -> None:
    assert log.decode(msgspec.msgpack.encode([2, 7])) == Begun(7)
    assert log.decode(msgspec.msgpack.encode([4, 7])) == SteerAtItemEnd(7)
    assert log.decode(msgspec.msgpack.encode([5, 7, "steer"])) == Stopped(7, "steer")
    assert log.decode(msgspec.msgpack.encode([0, 7, [1, "hm"]])) == Said(7, ReasoningDelta("hm"))


@many
@given(lives(), bodies, st.data())
def test_a_kept_response_is_read_whole_or_refused(
    entries: list[Entry], body: bytes, data: st.DataObject
) -> None:
    turn, _ = told(entries, body, None)
    kept = encode(turn.response)
    assert read_response(kept) == turn.response
    place = data.draw(st.integers(0, len(kept) - 1))
    with suppress(LogError):
        read_response(kept[:place] + data.draw(st.binary(max_size=2)) + kept[place + 1 :])


# -- ids ------------------------------------------------------------------------------------------

CALLS: list[Entry] = [
    Begun(1),
    Said(1, TextDelta("so")),
    Said(1, CallOpened("f")),
    Said(1, CallOpened("f", call_id="call_own")),
    Said(1, CallOpened("f")),
    Said(2, Finished("stop", Tokens())),
]


def output(response_id: str) -> list[Any]:
    return [
        event.item
        for event in replay(created(response_id=response_id), CALLS)
        if isinstance(event, OutputItemDone)
    ]


def test_ids_are_those_of_the_response_and_its_order_alone() -> None:
    assert [item.id for item in output("resp_1")] == [item.id for item in output("resp_1")]
    assert not {item.id for item in output("resp_1")} & {item.id for item in output("resp_2")}
    assert output("resp_1")[0].id == "msg_bb986d88883240f7b03581bda90d5011"


def test_ids_look_as_they_always_did() -> None:
    message, *calls = output("resp_1")
    for item, prefix in [(message, "msg_"), *((call, "fc_") for call in calls)]:
        assert item.id.startswith(prefix)
        assert len(item.id.removeprefix(prefix)) == 32
        assert int(item.id.removeprefix(prefix), 16)
    assert [call.call_id[:5] for call in calls] == ["call_"] * 3
    assert len({call.call_id for call in calls}) == 3
    assert calls[1].call_id == "call_own"


def test_an_id_that_may_have_been_seen_in_a_lost_tail_is_not_given_to_another_item() -> None:
    lost: list[Entry] = [Begun(1), Said(1, TextDelta("lost"))]
    after: list[Entry] = [Begun(1), Jumped(2), Said(2, CallOpened("f"))]
    seen = [e.item for e in replay(created(), lost) if isinstance(e, OutputItemAdded)]
    [given_later] = [e for e in replay(created(), after) if isinstance(e, OutputItemAdded)]
    assert isinstance(given_later.item, FunctionCall)
    assert given_later.sequence_number == 1_000_000
    assert seen[0].id is not None
    assert given_later.item.id is not None
    assert seen[0].id.partition("_")[2] != given_later.item.id.partition("_")[2]


def test_numbers_jump_again_though_none_was_given_since() -> None:
    entries: list[Entry] = [
        Jumped(1),
        Jumped(1),
        Placed(1, 1, 0.0),
        Jumped(1),
        Stopped(2, "cancel"),
    ]
    numbers = [event.sequence_number for event in replay(created(), entries)]
    assert numbers == [2_000_000, 2_000_001, 3_000_000]


# -- summaries, and the size of it all ------------------------------------------------------------


def test_a_summary_comes_whole_and_is_told_again() -> None:
    entries: list[Entry] = [
        Begun(1, summary=True),
        Said(1, ReasoningDelta("hm")),
        Said(1, TextDelta("in ")),
        Said(1, TextDelta("short")),
        Said(9, Finished("stop", Tokens(3, 2))),
    ]
    turn, events = told(entries, b"{}", None)
    [item] = turn.response.output
    assert isinstance(item, Compaction)
    assert isinstance(events[-1], ResponseCompleted)
    assert events[-1].response.completed_at == 9
    assert lines(events_of(created(), turn.response, turn.cuts)) == lines(events)


def test_a_log_is_a_fraction_of_its_events_and_cuts_are_a_byte_a_token() -> None:
    words: list[Delta] = [
        *(ReasoningDelta(" hmm", (1000 + n,)) for n in range(800)),
        *(TextDelta(" word", ids=(1000 + n,)) for n in range(800)),
        CallOpened("edit", ids=(7,)),
        *(CallText('"x",', (1000 + n,)) for n in range(400)),
    ]
    at = 1_790_000_000
    entries: list[Entry] = [Begun(at), *(Said(at, word) for word in words)]
    entries.append(Said(at, Finished("stop", Tokens(10, 2001))))
    turn, events = told(entries, b"{}", None)
    assert len(log.pack(entries)) < 23 * len(entries) < sum(map(len, lines(events))) / 8
    assert len(turn.cuts) < len(words) + 50

"""The log of a turn on record: whoever reads it gets each event that was said once, in order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.support import virtual_time
from tests.support.counting import calls
from vivace.conversation.deltas import (
    CallOpened,
    CallText,
    Delta,
    Finished,
    ReasoningDelta,
    TextDelta,
    Tokens,
)
from vivace.conversation.log import Begun, Entry, Placed, Said, Stopped
from vivace.conversation.replay import replay
from vivace.gateway.ports import Record
from vivace.gateway.resuming.records import LocalEventLog, LogRecord
from vivace.gateway.resuming.seats import Resumed
from vivace.protocol.codec import framed
from vivace.protocol.events import Event, Response
from vivace.scheduling.memory import Memory

CREATED = Response(id="resp_1", created_at=1, model="m", status="queued")
WORDS: list[Entry] = [
    Begun(1),
    *(Said(1, TextDelta(f"\n\n{number}")) for number in range(200)),
    Said(2, Finished("stop", Tokens(1, 200))),
]

deltas: st.SearchStrategy[Delta] = st.one_of(
    st.builds(TextDelta, st.text(max_size=5)),
    st.builds(ReasoningDelta, st.text(max_size=5)),
    st.builds(CallOpened, st.just("f"), call_id=st.just("call_1")),
    st.builds(CallText, st.text(max_size=5)),
)
logs: st.SearchStrategy[list[Entry]] = st.builds(
    lambda places, said, end: [*places, Begun(1), *said, end],
    st.lists(st.builds(Placed, st.just(1), st.integers(1, 9), st.just(1.0)), max_size=2),
    st.lists(st.builds(Said, st.just(1), deltas), max_size=100),
    st.sampled_from([Said(2, Finished("stop", Tokens())), Stopped(2, "interrupt")]),
)


def record_of(created: Response = CREATED) -> LogRecord:
    return LogRecord(created, Memory(10**9, 10**9).note("local", "records", 0))


def play_to(record: Record, entries: Sequence[Entry]) -> None:
    """All of it happens, and is said."""
    for entry in entries:
        record.enter(entry)
    record.said(len(replay(CREATED, entries)) - 1)


def told(entries: Sequence[Entry], after: int) -> bytes:
    return b"".join(framed(event) for event in replay(CREATED, entries)[after + 1 :])


async def rest_of(record: Record, after: int) -> bytes:
    return b"".join([framed(each) async for events in record.after(after) for each in events])


def test_its_weight_is_that_of_its_longest_event() -> None:
    created = replace(CREATED, instructions="p" * 50_000)
    words = [Begun(1), *(Said(1, TextDelta("w" * 100)) for _ in range(100)), WORDS[-1]]
    record = record_of(created)
    play_to(record, words)
    longest = max(len(framed(event)) for event in replay(created, words))
    assert 0.9 * longest < record.weight <= longest


@given(logs, st.integers(-1, 400), st.lists(st.integers(0, 400), max_size=10))
def test_what_is_read_after_any_event_is_all_that_was_said_later(
    entries: list[Entry], after: int, says: list[int]
) -> None:
    async def read() -> None:
        record = record_of()
        following = asyncio.create_task(rest_of(record, after))
        most = len(replay(CREATED, entries)) - 1
        for entry, said in zip(entries, [*says, *(-1 for _ in entries)], strict=False):
            record.enter(entry)
            record.said(min(said, most))
            await asyncio.sleep(0)
        play_to(record, [])
        record.said(most)
        await record.end(steered=False)
        assert await following == told(entries, after)
        assert await rest_of(record, after) == told(entries, after)

    asyncio.run(read())


@given(logs, st.integers(-1, 400))
def test_nobody_reads_what_was_not_said(entries: list[Entry], said: int) -> None:
    async def read() -> bytes:
        record = record_of()
        for entry in entries:
            record.enter(entry)
        record.said(said)
        await record.end(steered=False)
        return await rest_of(record, -1)

    events = replay(CREATED, entries)[: said + 1]
    assert asyncio.run(read()) == b"".join(map(framed, events))


def test_readers_have_lanes_of_their_own() -> None:
    async def lanes() -> list[set[object]]:
        record = record_of()
        play_to(record, WORDS)
        await record.end(steered=False)
        return [
            {each.stream_id async for events in record.after(-1, lane) for each in events}
            for lane in ("a", "b")
        ]

    assert asyncio.run(lanes()) == [{"a"}, {"b"}]


def test_a_long_log_is_read_in_pieces_that_leave_time_to_others() -> None:
    async def read() -> list[int]:
        record = record_of()
        play_to(record, WORDS * 10)
        await record.end(steered=False)
        return [len(events) async for events in record.after(-1)]

    assert max(asyncio.run(read())) < 80


def rounds_of_the_loop() -> Callable[[], int]:
    """Return what tells how often the running event loop went round since this was called."""
    loop: Any = asyncio.get_running_loop()
    go_round, rounds = loop._run_once, [0]

    def counted() -> None:
        rounds[0] += 1
        go_round()

    loop._run_once = counted
    return lambda: rounds[0]


def test_many_readers_of_a_long_log_take_turns_and_leave_time_to_others() -> None:
    """Nothing of what they read is sent: they have nearly all of it already."""
    readers, entries = 20, WORDS * 5

    async def read() -> float:
        record = record_of()
        play_to(record, entries)
        await record.end(steered=False)
        rounds = rounds_of_the_loop()
        last = record.last_said - 1
        found = await asyncio.gather(*(rest_of(record, last) for _ in range(readers)))
        assert {*found} == {told(entries, last)}
        return rounds() / readers

    assert asyncio.run(read()) > len(entries) / 64


def test_seat_taken_near_the_end_of_a_long_turn_leaves_time_to_others() -> None:
    class Client:
        def __init__(self) -> None:
            self.events: list[Event] = []

        async def send(self, events: list[Event]) -> None:
            self.events += events
            events.clear()

    async def take() -> int:
        record, client = record_of(), Client()
        play_to(record, WORDS * 5)
        rounds = rounds_of_the_loop()
        await Resumed(client, record.reader(record.last_said - 1)).catch_up()
        assert len(client.events) == 1
        return rounds()

    assert asyncio.run(take()) > len(WORDS) * 5 / 64


def test_weight_of_a_log_is_not_counted_anew_each_time() -> None:
    record = record_of()
    play_to(record, WORDS * 20)
    first, again = calls(lambda: record.weight), calls(lambda: record.weight)
    assert first > len(WORDS) * 20
    assert again < 20


def test_its_memory_counts_while_it_grows() -> None:
    memory = Memory(10**9, 10**9)

    async def grow() -> list[int]:
        record = await LocalEventLog(memory).open(CREATED, "ada")
        sizes = []
        for _ in range(3):
            play_to(record, WORDS)
            sizes.append(memory.used("ada"))
        return sizes

    empty, *more = asyncio.run(grow())
    assert empty > 200 * 100
    assert all(size > empty + 200 * 100 for size in more)


def test_one_of_a_turn_that_is_not_stored_is_soon_gone() -> None:
    async def find() -> list[list[bool]]:
        log = LocalEventLog(Memory(10**9, 10**9), passing_seconds=15)
        passing, kept = replace(CREATED, id="resp_2", store=False), CREATED
        for response in (passing, kept):
            await (await log.open(response, "ada")).end(steered=False)
        found = []
        for seconds in (14, 2):
            await virtual_time.elapse(seconds)
            found.append([await log.find(each, "ada") is not None for each in ("resp_2", "resp_1")])
        return found

    assert virtual_time.run(find()) == [[True, True], [False, True]]

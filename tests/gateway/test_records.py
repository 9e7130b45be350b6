"""The events of a background response, kept small: whoever reads them gets each once, in order."""

from __future__ import annotations

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from vivace.gateway.ports import Record
from vivace.gateway.records import PackedRecord
from vivace.protocol.codec import framed
from vivace.protocol.events import OutputTextDelta
from vivace.scheduling.memory import Memory

sizes = st.lists(st.sampled_from([0, 10, 3_000, 20_000, 100_000]), min_size=1, max_size=40)


def delta(number: int, size: int = 5) -> OutputTextDelta:
    text = f"\n\n{number}" + "x" * size
    return OutputTextDelta(sequence_number=number, item_id="msg_1", output_index=0, delta=text)


async def rest_of(record: Record, after: int) -> bytes:
    said: list[bytes] = []
    while True:
        events, after = await record.after(after)
        if not events:
            return b"".join(said)
        said.append(events)


@given(sizes, st.integers(-1, 45))
def test_what_is_read_after_any_event_is_all_that_came_later(sizes: list[int], after: int) -> None:
    events = [delta(number, size) for number, size in enumerate(sizes)]

    async def read() -> None:
        record = PackedRecord(Memory(10**9, 10**9).note("local", "records", 0))
        following = asyncio.create_task(rest_of(record, after))
        for event in events:
            await record.add([event])
            if event.sequence_number % 3 == 0:
                await asyncio.sleep(0)
        await record.end()
        expected = b"".join(framed(event) for event in events[after + 1 :])
        assert await following == expected
        assert await rest_of(record, after) == expected

    asyncio.run(read())


def test_an_event_that_is_sent_again_is_on_record_once() -> None:
    async def read() -> bytes:
        record = PackedRecord(Memory(10**9, 10**9).note("local", "records", 0))
        await record.add([delta(0), delta(1)])
        await record.add([delta(1), delta(0), delta(2)])
        await record.end()
        return await rest_of(record, -1)

    assert asyncio.run(read()) == b"".join(framed(delta(number)) for number in range(3))

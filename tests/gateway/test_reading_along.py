"""A turn that one gateway holds is read through another while it is written, word by word."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from queue import Queue
from typing import Any, cast

import httpx
import pytest

from tests.gateway.test_takeover import (
    LONG,
    REPLIES,
    begun,
    check_whole,
    id_of,
    path,
    text_of,
    words,
)
from tests.support.fleets import HELD_AT, KEY, Fleet
from tests.support.postgres import Postgres
from tests.support.socket import Event, Socket
from tests.support.waiting import PATIENCE_S, eventually
from tests.support.witness import TERMINAL
from vivace.engines.node_logs import newest
from vivace.gateway.elsewhere.along import ReadingAlong
from vivace.gateway.ports import EngineLogs
from vivace.link.frames import Chunk
from vivace.scheduling.memory import Memory


@pytest.fixture
def fleet(postgres: Postgres, monkeypatch: pytest.MonkeyPatch) -> Iterator[Fleet]:
    monkeypatch.setenv("VIVACE_FLEET_KEY", KEY)
    with ExitStack() as stack:
        yield Fleet(stack, postgres.emptied(), REPLIES)


class Reader:
    """Reads a turn in a thread of its own."""

    def __init__(self, http: httpx.Client, response_id: str, **query: Any) -> None:
        self._http, self._path = http, path(response_id)
        self._query = {"stream": "true"} | query
        self._came: Queue[Event | None] = Queue()
        self.events: list[Event] = []
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            with self._http.stream("GET", self._path, params=self._query, timeout=60) as stream:
                for line in stream.iter_lines():
                    if line.startswith("data: {"):
                        self._came.put(json.loads(line[6:]))
        finally:
            self._came.put(None)

    @property
    def words(self) -> int:
        """How many words it was told so far."""
        return len(words(text_of(self.events)))

    def until(self, count: int) -> None:
        """Read until it was told so many words."""
        while self.words < count:
            assert self.next() is not None, "it ended before"

    def next(self) -> Event | None:
        came = self._came.get(timeout=PATIENCE_S)
        if came is not None:
            self.events.append(came)
        return came

    def end(self) -> list[Event]:
        while self.next() is not None:
            pass
        return self.events


def read_on(socket: Socket, events: list[Event]) -> list[Event]:
    """With those that follow, to the end of this response."""
    while (last := events[-1])["type"] not in TERMINAL:
        event = socket.read()
        if event.get("sequence_number") == last["sequence_number"] + 1:
            events.append(event)
    return events


def test_words_are_told_as_they_come_and_are_those_of_the_holder(fleet: Fleet) -> None:
    fleet.node()
    one, other = fleet.gateway(), fleet.gateway()
    with Socket(one.url) as socket:
        events = begun(socket)
        reader = Reader(other.http, id_of(events))
        for count in (HELD_AT, 60, 100):
            fleet.go(held_at=count)
            reader.until(count)
        assert reader.words == 100
        assert fleet.status(id_of(events)) is None
        fleet.go()
        events += socket.until_end()
    told = reader.end()
    check_whole(told)
    assert told == events


def test_who_has_seen_a_part_is_told_the_rest_as_it_comes(fleet: Fleet) -> None:
    fleet.node()
    one, other = fleet.gateway(), fleet.gateway()
    with Socket(one.url) as socket:
        events = begun(socket)
        last = events[-1]["sequence_number"]
        reader = Reader(other.http, id_of(events), starting_after=last)
        fleet.go(held_at=60)
        reader.until(10)
        assert fleet.status(id_of(events)) is None
        fleet.go()
        events += socket.until_end()
    assert reader.end() == events[last + 1 :]


def test_words_told_late_by_the_holder_are_told_elsewhere_though_the_engine_pauses(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = fleet.node()
    one, other = fleet.gateway(), fleet.gateway()
    store = one.gateway.keeper.store
    accept = store.accept

    def is_heard() -> bool:
        """Whether the node knows that all words came, of which none was told yet."""
        return any(log.heard > HELD_AT for log in node.node._end._logs.values())

    async def late(*given: Any) -> Any:
        await asyncio.to_thread(eventually, is_heard)
        return await accept(*given)

    monkeypatch.setattr(store, "accept", late, raising=False)
    monkeypatch.setattr(node.node, "_tell", lambda: None)  # it says nothing else meanwhile
    with Socket(one.url) as socket:
        reader = Reader(other.http, id_of(begun(socket)))
        reader.until(HELD_AT)
        socket.vanish()


def test_many_who_read_one_turn_read_its_node_once(fleet: Fleet) -> None:
    node = fleet.node()
    one, other = fleet.gateway(), fleet.gateway()
    with Socket(one.url) as socket:
        events = begun(socket)
        readers = [Reader(other.http, id_of(events)) for _ in range(5)]
        for reader in readers:
            reader.until(20)
        [log] = node.node._end._logs.values()
        assert len(log.readers) == 1
        params = {"stream": "true"}
        with other.http.stream("GET", path(id_of(events)), params=params) as stream:
            assert "response.created" in next(stream.iter_lines())
        for reader in readers:  # one that leaves is not felt by those who stay
            fleet.go(held_at=100)
            reader.until(100)
        assert fleet.status(id_of(events)) is None
        fleet.go()
        events += socket.until_end()
    assert [reader.end() for reader in readers] == [events] * 5


def test_nobody_reads_a_node_when_all_readers_have_left(fleet: Fleet) -> None:
    node = fleet.node()
    one, other = fleet.gateway(), fleet.gateway()
    with Socket(one.url) as socket:
        events = begun(socket, "endless")
        params = {"stream": "true"}
        with other.http.stream("GET", path(id_of(events)), params=params) as stream:
            lines = stream.iter_lines()
            while "output_text.delta" not in next(lines):
                pass
            [log] = node.node._end._logs.values()
            assert len(log.readers) == 1
        eventually(lambda: not log.readers)
        assert log.holder is not None


@pytest.mark.parametrize("how", ["interrupt", "cancel", "steer", "steer at the item's end"])
def test_how_it_is_stopped_is_told_as_by_its_holder(fleet: Fleet, how: str) -> None:
    """What the engine said beyond that is in the log of its node, and told to nobody."""
    fleet.node()
    one, other = fleet.gateway(), fleet.gateway()
    with Socket(one.url) as socket:
        text = "items" if "item" in how else "endless"
        events = begun(socket, text, background=how == "cancel")
        reader = Reader(other.http, id_of(events))
        reader.until(20)
        fleet.go()
        if how == "cancel":
            other.http.post(f"{path(id_of(events))}/cancel")
        elif how == "interrupt":
            socket.send(type="response.interrupt", response_id=id_of(events))
        else:
            when = {"when": "item_end"} if "item" in how else {}
            steer = {"previous_response_id": id_of(events), "input": "after all", **when}
            socket.send(type="response.steer", **steer)
        told = reader.end()
        assert told[-1]["type"] in TERMINAL
        assert [each["sequence_number"] for each in told] == [*range(len(told))]
        assert told == read_on(socket, events)


def test_it_goes_on_when_the_node_dies_and_another_goes_on(fleet: Fleet) -> None:
    for _ in range(2):
        fleet.node()
    one, other = fleet.gateway(), fleet.gateway()
    with Socket(one.url) as socket:
        events = begun(socket)
        reader = Reader(other.http, id_of(events))
        reader.until(20)
        fleet.at_work().kill()
        fleet.go(held_at=80)
        reader.until(80)
        assert fleet.status(id_of(events)) is None
        fleet.go()
        events += socket.until_end()
    told = reader.end()
    check_whole(told)
    assert told == events


def test_it_goes_on_when_the_holder_dies_and_the_turn_is_taken_here(fleet: Fleet) -> None:
    fleet.node()
    one, other = fleet.gateway(), fleet.gateway()
    with Socket(one.url) as socket:
        events = begun(socket, background=True)
        reader = Reader(other.http, id_of(events))
        reader.until(20)
        fleet.freeze(one)
        fleet.bury(one)
        socket.vanish()
        fleet.go()
        told = reader.end()
        check_whole(told)
        assert told[: len(events)] == events


def test_it_is_read_to_its_end_when_the_node_falls_silent_at_the_last_word(fleet: Fleet) -> None:
    node = fleet.node()
    one, other = fleet.gateway(), fleet.gateway()
    with Socket(one.url) as socket:
        events = begun(socket, "endless")
        reader = Reader(other.http, id_of(events))
        reader.until(20)
        fleet.stop(node)
        socket.send(type="response.interrupt", response_id=id_of(events))
        told = reader.end()
        assert told[-1]["response"]["incomplete_details"] == {"reason": "interrupted"}
        assert told == read_on(socket, events)


def test_an_older_node_that_does_not_tell_how_far_its_holder_is_has_it_told_at_the_end(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vivace.link.node_end.Chunk", lambda *given: Chunk(*given[:4]))
    fleet.node()
    one, other = fleet.gateway(), fleet.gateway()
    with Socket(one.url) as socket:
        fleet.go(held_at=LONG // 2)
        events = begun(socket, count=LONG // 2)
        reader = Reader(other.http, id_of(events))
        fleet.go()
        events += socket.until_end()
    assert reader.end() == events


def test_who_comes_in_the_moment_of_an_end_is_not_left_waiting() -> None:
    """The task that follows may be cancelled before it has begun."""
    asyncio.run(_comes_at_the_end())


async def _comes_at_the_end() -> None:

    class Nodes:
        async def along(self, turn: str) -> None:
            await asyncio.Event().wait()

    along = ReadingAlong(cast("EngineLogs", Nodes()), Memory(10**9, 10**9))

    async def read() -> bool:
        async with along.reading("t", "o", lambda: pytest.fail("nothing is there")) as record:
            return record is None

    reader = asyncio.create_task(read())
    asyncio.get_running_loop().call_soon(along.ended, "t")
    assert await asyncio.wait_for(reader, PATIENCE_S)


@pytest.mark.parametrize("steps", range(9))
def test_who_is_cancelled_while_nodes_answer_leaves_no_log_open(steps: int) -> None:
    asyncio.run(_cancelled_after(steps))


async def _cancelled_after(steps: int) -> None:
    class Log:
        attempt = 1
        closed = False

        def close(self) -> None:
            self.closed = True

    logs: list[Log] = []

    async def asked(pauses: int) -> Log:
        for _ in range(pauses):
            await asyncio.sleep(0)
        logs.append(Log())
        return logs[-1]

    taken: list[Log | None] = []

    async def choose() -> None:
        taken.append(await newest([asked(1), asked(2), asked(3)], 2))

    task = asyncio.create_task(choose())
    for _ in range(steps):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    for _ in range(5):
        await asyncio.sleep(0)
    assert all(log.closed for log in logs if log not in taken)


def test_one_that_runs_again_is_not_told_behind_what_was_lost(fleet: Fleet) -> None:
    for _ in range(2):
        fleet.node()
    one, other, third = fleet.gateway(), fleet.gateway(), fleet.gateway()
    with Socket(one.url) as socket:
        events = begun(socket, "endless", background=True)
        reader = Reader(other.http, id_of(events))
        reader.until(20)
        fleet.freeze(one)
        socket.vanish()
        fleet.at_work().kill()
        fleet.bury(one)
        third.http.get(path(id_of(events)))  # which takes it
        told = reader.end()
        assert sum(each["type"] == "response.created" for each in told) == 1
        assert told[-1]["type"] == "error"
        third.http.post(f"{path(id_of(events))}/cancel")

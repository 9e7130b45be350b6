"""What each port promises, asked of every implementation there is; limits are in tests/counters."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from msgspec.structs import replace

from tests.gateway.test_records import CREATED, WORDS, play_to, rest_of, told
from vivace.gateway.ports import EventLog, RunDirectory, Told
from vivace.gateway.resuming.records import LocalEventLog
from vivace.gateway.runs import LocalRuns
from vivace.protocol.events import Response
from vivace.protocol.requests import Interrupt, Steer
from vivace.scheduling.memory import Memory

EVENT_LOGS: dict[str, Callable[[], EventLog]] = {
    "local": lambda: LocalEventLog(Memory(10**9, 10**9))
}
DIRECTORIES: dict[str, Callable[[], RunDirectory]] = {"local": LocalRuns}


@pytest.fixture(params=EVENT_LOGS)
def log(request: pytest.FixtureRequest) -> EventLog:
    return EVENT_LOGS[request.param]()


@pytest.fixture(params=DIRECTORIES)
def runs(request: pytest.FixtureRequest) -> RunDirectory:
    return DIRECTORIES[request.param]()


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(work)


# -- event log ------------------------------------------------------------------------------------


def test_a_record_can_be_read_while_it_is_written_and_after(log: EventLog) -> None:
    async def play() -> None:
        record = await log.open(CREATED, "ada")
        found = await log.find("resp_1", "ada")
        assert found is not None
        reading = asyncio.create_task(rest_of(found, 0))
        play_to(record, WORDS)
        await record.end(steered=False)
        assert await reading == told(WORDS, 0)
        ended = await log.find("resp_1", "ada")
        assert ended is not None
        assert await rest_of(ended, 1) == told(WORDS, 1)

    run(play())


def test_nobody_finds_or_deletes_anothers_record(log: EventLog) -> None:
    async def play() -> None:
        record = await log.open(CREATED, "ada")
        assert await log.find("resp_1", "bob") is None
        await record.end(steered=False)
        assert not await log.delete("resp_1", "bob")
        assert await log.find("resp_1", "ada") is not None
        assert await log.delete("resp_1", "ada")
        assert await log.find("resp_1", "ada") is None

    run(play())


def test_a_record_that_is_gone_takes_no_memory() -> None:
    """At once: what waits for the garbage collector counts against its key meanwhile."""
    memory = Memory(10**9, 10**9)

    async def play() -> None:
        log = LocalEventLog(memory)
        record = await log.open(CREATED, "ada")
        play_to(record, WORDS)
        await record.end(steered=False)
        assert memory.used("ada") > 0
        assert await log.delete("resp_1", "ada")

    gc.disable()
    try:
        run(play())
        assert memory.used("ada") == 0
    finally:
        gc.enable()


def test_an_answer_that_could_not_be_stored_is_had_from_its_record(log: EventLog) -> None:
    async def play() -> None:
        record = await log.open(CREATED, "ada")
        assert await record.unstored() is None
        answer = replace(CREATED, status="completed", store=False)
        play_to(record, WORDS)
        await record.keep(answer)
        await record.end(steered=False)
        found = await log.find("resp_1", "ada")
        assert found is not None
        assert await found.unstored() == answer
        assert b'"store":false' in (await rest_of(found, -1)).splitlines()[-2]

    run(play())


# -- running turns --------------------------------------------------------------------------------


class Turn:
    """One that took the place of others."""

    def __init__(self, name: str, owner: str, *line: str) -> None:
        self.id = name
        self.owner = owner
        self._line = line

    def answers_to(self, response_id: str) -> bool:
        return response_id == self.id or response_id in self._line

    async def response(self) -> Response:
        return Response(id=self.id, created_at=1, model="m", status="in_progress")

    async def cancel(self) -> None: ...

    async def tell(self, event: Steer | Interrupt) -> Told:
        return Told(None, None)


def test_a_turn_is_found_by_its_owner_while_it_runs(runs: RunDirectory) -> None:
    async def play() -> None:
        turn = Turn("resp_2", "ada", "resp_1")
        await runs.began(turn)
        found = await runs.find("resp_2", "ada")
        assert found is not None
        response = await found.response()
        assert response is not None
        assert response.id == "resp_2"
        assert await runs.find("resp_2", "bob") is None
        await runs.ended(turn)
        assert await runs.find("resp_2", "ada") is None
        assert await runs.find_heir("resp_2", "ada") is None

    run(play())


def test_who_took_a_steered_turns_place_is_found_by_its_name(runs: RunDirectory) -> None:
    async def play() -> None:
        await runs.began(Turn("resp_2", "ada", "resp_1"))
        assert await runs.find("resp_1", "ada") is None
        heir = await runs.find_heir("resp_1", "ada")
        assert heir is not None
        assert heir.id == "resp_2"
        assert await runs.find_heir("resp_1", "bob") is None

    run(play())


def test_everyone_who_remembers_a_deleted_turn_hears_of_it(runs: RunDirectory) -> None:
    async def play() -> None:
        heard: list[tuple[str, ...]] = []
        runs.on_forget(lambda *turn: heard.append(("first", *turn)))
        runs.on_forget(lambda *turn: heard.append(("second", *turn)))
        await runs.forget("resp_1", "ada")
        assert heard == [("first", "resp_1", "ada"), ("second", "resp_1", "ada")]

    run(play())

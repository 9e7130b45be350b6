"""Reading stored turns costs the event loop little, and the key that asks for it most."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import msgspec
import pytest
from msgspec import Raw

from tests.support import virtual_time
from tests.support.http import RESPONSES, bearer, keys, sse, user
from tests.support.server import RunningGateway, configuration
from tests.support.socket import Socket
from tests.support.store import StoreCalls
from tests.support.waiting import eventually
from vivace.engines.scripted import Reply, Say, Stall
from vivace.errors import RequestError
from vivace.gateway import archive as archive_module
from vivace.gateway.input_pages import PageReader
from vivace.gateway.reads import MAX_READS_PER_KEY, SLOT_BYTES_PER_S, Reads
from vivace.protocol.json_arrays import PART_BYTES
from vivace.scheduling.memory import Memory

MANY = 10_000
"""Items of a large turn: 1.4 MB as they are stored."""
WORDS = 2_000
"""Pieces of a long answer."""


@pytest.fixture
def http(gateway: RunningGateway) -> Iterator[httpx.Client]:
    with gateway.http as client:
        yield client


@pytest.fixture
def roomy() -> Iterator[RunningGateway]:
    """A gateway whose model takes a conversation of any length."""
    with RunningGateway(config=configuration(engine={"context": 10**9})) as gateway:
        yield gateway


def large_turn(gateway: RunningGateway, http: httpx.Client, **body: Any) -> str:
    """Return the id of a stored turn of ``MANY`` items that memory does not have any more."""
    given = {"input": [user(str(number)) for number in range(MANY)]} | body
    response_id: str = http.post(RESPONSES, json=given).json()["id"]
    forget(gateway, response_id)
    return response_id


def forget(gateway: RunningGateway, response_id: str) -> None:
    async def forgotten() -> None:
        gateway.gateway.archive.forget("local")
        await gateway.gateway.archive.events.delete(response_id, "local")

    gateway.run(forgotten())


class Counter:
    """Counts what is decoded by a decoder, and how much of it at once."""

    def __init__(self, decoder: Any) -> None:
        self._decoder = decoder
        self.items = 0
        self.sizes = [0]

    def decode(self, data: bytes) -> Any:
        self.sizes.append(len(data))
        found = self._decoder.decode(data)
        self.items += len(found)
        return found


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> Counter:
    """Counts items that are decoded into values."""
    counter = Counter(archive_module._items)
    monkeypatch.setattr(archive_module, "_items", counter)
    return counter


@pytest.fixture
def raw(monkeypatch: pytest.MonkeyPatch) -> Counter:
    """Counts items that are only told apart."""
    counter = Counter(archive_module._raw_items)
    monkeypatch.setattr(archive_module, "_raw_items", counter)
    return counter


def calls_of(monkeypatch: pytest.MonkeyPatch, gateway: RunningGateway, *names: str) -> StoreCalls:
    return StoreCalls(monkeypatch, gateway.gateway.archive._store, *names)


# -- what a request of a hundred bytes takes ------------------------------------------------------


def test_retrieving_a_response_reads_nothing_of_its_input(
    gateway: RunningGateway,
    http: httpx.Client,
    typed: Counter,
    raw: Counter,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    response_id = large_turn(gateway, http)
    asked = calls_of(monkeypatch, gateway, "stat", "response", "load", "find", "chain")
    assert http.get(f"{RESPONSES}/{response_id}").json()["id"] == response_id
    answer = http.get(f"{RESPONSES}/{response_id}", params={"stream": "true"})
    assert [*sse(answer.text.splitlines())][-1]["type"] == "response.completed"
    steered = http.post(f"{RESPONSES}/{response_id}/steer", json={"input": "x"})
    assert steered.json()["error"]["code"] == "response_already_completed"
    assert asked.made == [*["stat", "response"] * 2, "stat"]
    assert (typed.items, raw.items) == (0, 0)


@pytest.mark.parametrize(
    ("query", "texts", "most"),
    [
        ("limit=1&order=asc", ["0"], 1_000),
        ("limit=1", [str(MANY - 1)], MANY),
        ("limit=2&order=asc&after=item_{}", ["8000", "8001"], 9_000),
    ],
)
def test_page_of_input_items_is_cut_out_of_what_is_stored(
    gateway: RunningGateway,
    http: httpx.Client,
    typed: Counter,
    raw: Counter,
    query: str,
    texts: list[str],
    most: int,
) -> None:
    """``most``: the items before the end of the page, with those of the part that it ends in."""
    given = [user(str(number)) | {"id": f"item_{number}"} for number in range(MANY)]
    response_id = large_turn(gateway, http, input=given)
    page = http.get(f"{RESPONSES}/{response_id}/input_items?{query.format(7999)}").json()
    assert [item["content"][0]["text"] for item in page["data"]] == texts
    assert (page["first_id"], page["last_id"]) == (f"item_{texts[0]}", f"item_{texts[-1]}")
    assert page["has_more"]
    assert typed.items == 0
    assert 0 < raw.items <= most
    assert max(raw.sizes) < 1.1 * PART_BYTES


def test_turn_that_is_continued_is_decoded_in_parts_and_others_run_in_between(
    gateway: RunningGateway, http: httpx.Client, typed: Counter, monkeypatch: pytest.MonkeyPatch
) -> None:
    response_id = large_turn(gateway, http)
    passes = passes_between(monkeypatch, gateway, typed)
    answer = http.post(RESPONSES, json={"input": "on", "previous_response_id": response_id})
    assert answer.json()["status"] == "completed"
    assert typed.items == MANY + 1  # its answer, too
    assert max(typed.sizes) < 1.1 * PART_BYTES
    assert len(passes) > 15
    assert 0 not in passes[1:]


def passes_between(
    monkeypatch: pytest.MonkeyPatch, gateway: RunningGateway, counter: Counter
) -> list[int]:
    """Return a list to which each decoding of a whole part adds how often the event loop went
    round since the one before."""
    loop: Any = gateway._loop
    go_round, decode = loop._run_once, counter.decode
    rounds, found = [0], list[int]()

    def counted_round() -> None:
        rounds[0] += 1
        go_round()

    def counted_decode(data: bytes) -> Any:
        if len(data) >= PART_BYTES:
            found.append(rounds[0])
            rounds[0] = 0
        return decode(data)

    monkeypatch.setattr(loop, "_run_once", counted_round)
    monkeypatch.setattr(counter, "decode", counted_decode)
    return found


def test_events_of_a_stored_turn_are_made_in_parts(
    gateway: RunningGateway, http: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway.engine.play([Reply(then=(Say(" word", times=WORDS),))])
    response_id = http.post(RESPONSES, json={"input": "x"}).json()["id"]
    forget(gateway, response_id)
    loop: Any = gateway._loop
    go_round, rounds = loop._run_once, [0]

    def counted_round() -> None:
        rounds[0] += 1
        go_round()

    monkeypatch.setattr(loop, "_run_once", counted_round)
    record = gateway.run(gateway.gateway.runner.telling.record(response_id, "local"))
    assert rounds[0] > WORDS / 64
    assert record.weight >= WORDS * len(" word")


def test_conversation_that_is_asked_for_many_times_at_once_is_read_by_the_first(
    gateway: RunningGateway, http: httpx.Client, typed: Counter
) -> None:
    response_id = large_turn(gateway, http)
    archive = gateway.gateway.archive

    async def all_at_once() -> list[Any]:
        return await asyncio.gather(*(archive.link(response_id, "local") for _ in range(20)))

    links = gateway.run(all_at_once())
    assert {len(link.input) for link in links} == {MANY}
    assert typed.items <= MAX_READS_PER_KEY * (MANY + 1)


def test_turn_that_is_deleted_while_it_is_read_is_not_remembered(
    gateway: RunningGateway, http: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    response_id = http.post(RESPONSES, json={"input": "x"}).json()["id"]
    forget(gateway, response_id)
    archive = gateway.gateway.archive
    read, is_read, go_on = archive._read, asyncio.Event(), asyncio.Event()

    async def held_up(*args: Any) -> Any:
        link = await read(*args)
        is_read.set()
        await go_on.wait()
        return link

    monkeypatch.setattr(archive, "_read", held_up)

    async def deleted_meanwhile() -> Any:
        reading = asyncio.create_task(archive.link(response_id, "local"))
        await is_read.wait()
        assert await archive.delete(response_id, "local")
        go_on.set()
        await reading
        return archive._links.get("local", response_id)

    assert gateway.run(deleted_meanwhile()) is None


# -- what it costs the key ------------------------------------------------------------------------


def test_reads_beyond_a_keys_slots_wait_and_those_of_another_key_do_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with RunningGateway(config=configuration(keys=keys("alice", "bob"))) as gateway:
        made = {
            owner: gateway.http.post(RESPONSES, json={"input": "x"}, headers=bearer(owner)).json()
            for owner in ("alice", "bob")
        }
        calls = calls_of(monkeypatch, gateway, "response")
        calls.go.clear()

        def get(owner: str) -> int:
            path = f"{RESPONSES}/{made[owner]['id']}"
            with gateway.http as http:
                return http.get(path, headers=bearer(owner)).status_code

        with ThreadPoolExecutor(3 * MAX_READS_PER_KEY) as pool:
            polls = [pool.submit(get, "alice") for _ in range(2 * MAX_READS_PER_KEY)]
            eventually(lambda: calls.running == MAX_READS_PER_KEY)
            other = pool.submit(get, "bob")
            eventually(lambda: calls.running == MAX_READS_PER_KEY + 1)
            gateway._loop.call_soon_threadsafe(calls.go.set)
            assert [each.result() for each in (*polls, other)] == [200] * len([*polls, other])
        assert calls.most_running == MAX_READS_PER_KEY + 1


def test_slot_is_kept_for_longer_by_a_read_of_many_bytes() -> None:
    async def check() -> None:
        loop = asyncio.get_running_loop()
        memory = Memory(10**9, 10**9)
        reads = Reads(memory)

        async def read(owner: str, size: int) -> float:
            async with reads.slot(owner) as slot:
                slot.take("answers", size)
                return loop.time()

        large = [read("alice", 2 * SLOT_BYTES_PER_S) for _ in range(MAX_READS_PER_KEY)]
        begun = await asyncio.gather(*large, read("alice", 0), read("bob", 0), read("alice", 0))
        assert begun == [0.0] * MAX_READS_PER_KEY + [2.0, 0.0, 2.0]
        small = [await read("alice", 1_000) for _ in range(100)]
        assert small[-1] < 2.1
        assert memory.used("alice") == 0
        await virtual_time.elapse(1)
        assert not reads._free  # of a key that reads nothing, nothing is kept

    virtual_time.run(check())


def test_slot_is_free_again_when_its_read_was_refused_or_cancelled() -> None:
    async def check() -> None:
        reads = Reads(Memory(10**9, 1_000))
        for _ in range(2 * MAX_READS_PER_KEY):
            with pytest.raises(RequestError):
                async with reads.slot("alice") as slot:
                    slot.take("answers", 2_000)

        async def wait() -> None:
            async with reads.slot("alice"):
                await asyncio.Event().wait()

        waiting = [asyncio.create_task(wait()) for _ in range(2 * MAX_READS_PER_KEY)]
        await virtual_time.elapse(1)
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        async with reads.slot("alice"):
            pass

    virtual_time.run(check())


def test_what_is_read_counts_before_it_is_and_is_refused_where_there_is_no_room(
    roomy: RunningGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway, http = roomy, roomy.http
    response_id = large_turn(gateway, http, instructions="x" * 1_000_000)
    memory = gateway.gateway.runner.memory
    calls = calls_of(monkeypatch, gateway, "response", "load")
    calls.go.clear()
    with ThreadPoolExecutor(2) as pool:
        for part, size in (("", 1_000_000), ("/input_items", 2_000_000)):
            before = memory.kinds()["answers"]
            answer = pool.submit(http.get, f"{RESPONSES}/{response_id}{part}")
            eventually(lambda: calls.running == 1)
            assert memory.kinds()["answers"] - before >= size
            gateway._loop.call_soon_threadsafe(calls.go.set)
            assert answer.result().status_code == 200
            eventually(lambda: not memory.kinds()["answers"])
            gateway._loop.call_soon_threadsafe(calls.go.clear)
    monkeypatch.setattr(memory, "_share", memory.used("local") + 500_000)
    calls.made.clear()
    for part in ("", "?stream=true", "/input_items"):
        refused = http.get(f"{RESPONSES}/{response_id}{part}")
        assert refused.status_code in (413, 429)
    assert calls.made == []


def test_client_that_polls_many_background_responses_is_never_refused() -> None:
    tier = {"name": "fast", "engines": ["scripted"], "limits": {"requests_per_minute": 20}}
    with RunningGateway(config=configuration(tiers=[tier])) as gateway, gateway.http as http:
        gateway.engine.play([Reply(when="story", then=(Say("word "), Stall(600)))])
        ended = http.post(RESPONSES, json={"input": "x"}).json()["id"]
        with Socket(gateway.url) as socket:
            socket.create("a story", background=True)
            running = socket.until("response.created")["response"]["id"]
            for _ in range(100):
                assert http.get(f"{RESPONSES}/{ended}").json()["status"] == "completed"
                assert http.get(f"{RESPONSES}/{running}").json()["status"] == "in_progress"
            assert http.post(f"{RESPONSES}/{running}/cancel").json()["status"] == "cancelled"


# -- pages ----------------------------------------------------------------------------------------


def test_pages_are_those_of_the_whole_list_however_it_comes() -> None:
    ids = [*map(str, range(7)), "3", "3", *map(str, range(7, 10))]
    items = [Raw(msgspec.json.encode({"id": each, "at": at})) for at, each in enumerate(ids)]
    for newest_first in (False, True):
        ordered = items[::-1] if newest_first else items
        names = ids[::-1] if newest_first else ids
        for after in (None, *ids):
            rest = ordered if after is None else ordered[names.index(after) + 1 :]
            for limit in (1, 2, 5, 12, 100):
                for size in (1, 3, 12):
                    page = PageReader(limit, newest_first=newest_first, after=after)
                    for start in range(0, len(items), size):
                        page.take(items[start : start + size])
                        if page.is_full:
                            break
                    found = page.result()
                    assert found["data"] == rest[:limit]
                    assert found["has_more"] == (len(rest) > limit)


def test_item_without_an_id_is_shown_as_it_is() -> None:
    page = PageReader(1, newest_first=True, after=None)
    page.take([Raw(b'{"type":"of_another_version","id":7}')])
    found = page.result()
    assert (found["first_id"], found["has_more"]) == (None, False)
    assert bytes(found["data"][0]) == b'{"type":"of_another_version","id":7}'

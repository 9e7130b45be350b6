"""Large requests are worked on in a thread, in turn between keys; small ones never come there."""

from __future__ import annotations

import asyncio
import json
import threading

import pytest

from tests.support.waiting import eventually
from vivace.errors import RequestError, TooLarge
from vivace.gateway.large import LARGE_BYTES, LargeWork, RequestReader
from vivace.protocol.bounds import MAX_VALUES, footprint
from vivace.scheduling.memory import Held, Memory

SMALL, LARGE = LARGE_BYTES, LARGE_BYTES + 1
MEGABYTE = 1_000_000


def on_loop() -> bool:
    return threading.current_thread() is threading.main_thread()


def test_large_work_leaves_the_event_loop_and_small_work_does_not() -> None:
    async def work() -> None:
        large = LargeWork()
        assert await large.run("alice", SMALL, on_loop)
        assert not await large.run("alice", LARGE, on_loop)

    asyncio.run(work())


def test_an_error_of_large_work_is_raised_where_it_is_awaited() -> None:
    def refuse() -> None:
        raise TooLarge("too much")

    async def work() -> None:
        large = LargeWork()
        with pytest.raises(TooLarge):
            await large.run("alice", LARGE, refuse)
        assert await large.run("alice", LARGE, lambda: 1) == 1

    asyncio.run(work())


def test_large_work_of_a_key_waits_behind_that_of_others() -> None:
    done: list[str] = []
    goes_on = threading.Event()

    def begin(name: str) -> None:
        goes_on.wait()
        done.append(name)

    async def work() -> None:
        large = LargeWork()
        alice = [asyncio.create_task(large.run("alice", LARGE, begin, f"a{n}")) for n in range(3)]
        await asyncio.sleep(0)
        bob = asyncio.create_task(large.run("bob", LARGE, begin, "b"))
        await asyncio.sleep(0)
        goes_on.set()
        await asyncio.gather(*alice, bob)

    asyncio.run(work())
    assert done == ["a0", "b", "a1", "a2"]


def read(memory: Memory, data: bytes | str) -> tuple[bool, int]:
    """Return whether it was decoded on the event loop, and how many bytes it counted."""

    def decode(text: str, held: Held) -> tuple[bool, int]:
        json.loads(text)
        return on_loop(), held.size

    return asyncio.run(RequestReader(memory, LargeWork()).read("alice", data, decode))


LONG = json.dumps("x" * LARGE_BYTES)
MANY = json.dumps([[]] * (LARGE_BYTES // 128))


@pytest.mark.parametrize("text", [LONG, MANY])
def test_a_large_request_is_decoded_beside_the_loop_and_counted_as_any(text: str) -> None:
    memory = Memory(100 * MEGABYTE, 100 * MEGABYTE)
    for data in (text, text.encode()):
        assert read(memory, data) == (False, footprint(text))
    assert read(memory, b"[1]") == (True, footprint("[1]"))
    eventually(lambda: memory.used() == 0)  # the thread may let go of it a moment later


def refusal(memory: Memory, data: bytes) -> str | None:
    """Return the code of the refusal, after which nothing is held any more."""

    async def work() -> str | None:
        reader = RequestReader(memory, LargeWork())
        try:
            await reader.read("alice", data, lambda text, held: None)
        except RequestError as error:
            return error.code
        return None

    before = memory.used("alice")
    code = asyncio.run(work())
    eventually(lambda: memory.used("alice") == before)
    return code


def test_a_large_request_is_refused_where_memory_is_short_before_it_is_measured() -> None:
    no_text = b"\xff" * 11 * MEGABYTE
    memory = Memory(100 * MEGABYTE, 10 * MEGABYTE)
    assert refusal(memory, no_text) == "request_too_large"
    taken = Memory(100 * MEGABYTE, 20 * MEGABYTE)
    held = taken.take("alice", "requests", 10 * MEGABYTE)
    assert refusal(taken, no_text) == "memory_limit_reached"
    assert taken.used("alice") == held.size


def test_a_request_that_is_no_text_or_has_too_many_values_is_refused() -> None:
    memory = Memory(100 * MEGABYTE, 100 * MEGABYTE)
    for data in (b"\xff", b"\xff" * LARGE):
        assert refusal(memory, data) == "invalid_json"
    values = json.dumps([1] * (MAX_VALUES + 1)).encode()
    assert refusal(memory, values) == "request_too_large"

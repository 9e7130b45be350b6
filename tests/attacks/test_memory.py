"""What a key makes the process hold is bounded in bytes, and nobody else is the worse for it."""

from __future__ import annotations

import re
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.attacks.conftest import Serving
from tests.support.http import RESPONSES, bearer, sse
from tests.support.process import Serve
from tests.support.socket import Socket
from tests.support.waiting import eventually

pytestmark = pytest.mark.alone  # it measures memory

MEGABYTE = 1_000_000
BOUNDED: dict[str, Any] = {
    "tables": {"limits": {"memory_megabytes": 60, "memory_megabytes_per_key": 30}},
    "engine": {"context": 10**9},
    # What is large goes back to the system as soon as it is not needed: what stays is held.
    "environment": {"MALLOC_MMAP_THRESHOLD_": "1000000", "MALLOC_TRIM_THRESHOLD_": "1000000"},
}


def held(server: Serve, kind: str) -> float:
    return server.metric("vivace_memory_bytes", "alice", kind=kind)


def settles(server: Serve, before: int, megabytes: int) -> None:
    """Wait until it holds less than so much more than before, once it has answered."""
    eventually(
        lambda: server.resident - before < megabytes * MEGABYTE,
        explain=lambda: f"{(server.resident - before) / MEGABYTE:.1f} MB",
    )


def peak(server: Serve) -> int:
    """Return the most bytes that it ever held, or holds now where the system does not tell."""
    status = Path(f"/proc/{server.process.pid}/status")
    if not status.exists():
        return server.resident
    most = re.search(r"VmHWM:\s+(\d+) kB", status.read_text())
    assert most is not None
    return int(most[1]) * 1024


def refusals(socket: Socket, count: int) -> list[str]:
    return [socket.until("error")["error"]["code"] for _ in range(count)]


def test_turns_that_wait_on_a_socket_are_bounded_in_bytes(serve: Serving) -> None:
    server = serve(owners=["alice", "bob"], **BOUNDED)
    with server.socket("alice") as alice, server.socket("bob") as bob:
        alice.create("stall", store=False)
        alice.until("response.output_text.delta")
        before = server.resident
        for _ in range(12):
            alice.create("x", store=False, instructions="p" * 8 * MEGABYTE)
        assert refusals(alice, 9) == ["memory_limit_reached"] * 9
        settles(server, before, 90)  # all twelve were 96, twice over
        assert bob.turn("x", instructions="p" * 8 * MEGABYTE)["type"] == "response.completed"
        assert 24 * MEGABYTE <= held(server, "requests") < 30 * MEGABYTE
    eventually(lambda: held(server, "requests") < MEGABYTE)
    with server.socket("alice") as again:
        again.create("x", instructions="p" * 8 * MEGABYTE)
        assert again.until_end()[-1]["type"] == "response.completed"


SWOLLEN = ["[],", "{},", '{"a":1.5},', "1.5,", '"ab",']
"""Small on the wire, and up to thirty times as large when read."""


def test_what_swells_when_it_is_read_is_refused_before_it_is_read(serve: Serving) -> None:
    server = serve(owners=["alice"], **BOUNDED)
    before = peak(server)
    part = '{"type":"output_text","text":"x","annotations":[%s1]}'
    with server.http("alice") as alice, server.socket("alice") as socket:
        for small in SWOLLEN:
            many = part % (small * (2 * MEGABYTE // len(small)))
            body = f'{{"input":"x","prediction":{{"content":[{many}]}}}}'
            assert alice.post(RESPONSES, content=body).status_code == 413
            socket.raw.send('{"type":"response.create",' + body[1:])
            assert refusals(socket, 1) == ["request_too_large"]
        assert socket.turn("x")["type"] == "response.completed"
    assert peak(server) - before < 40 * MEGABYTE


def test_ended_background_responses_make_room_for_new_ones(serve: Serving) -> None:
    server = serve(owners=["alice"], **BOUNDED)
    before = server.resident
    body = {"input": "hi", "background": True, "stream": True, "instructions": "p" * 2 * MEGABYTE}
    with server.http("alice") as alice:
        paths = []
        for _ in range(15):
            answer = alice.post(RESPONSES, json=body)
            events = list(sse(answer.text.splitlines()))
            assert events, answer.text
            assert events[-1]["type"] == "response.completed"
            paths.append(f"{RESPONSES}/{events[-1]['response']['id']}")
        assert alice.get(paths[-1], params={"stream": "true"}).status_code == 200
        eventually(lambda: held(server, "requests") < MEGABYTE)
        assert held(server, "records") + held(server, "links") <= 30 * MEGABYTE
        told = list(sse(alice.get(paths[0], params={"stream": "true"}).text.splitlines()))
        assert told[-1]["type"] == "response.completed"  # as the store has it
        assert alice.get(paths[0]).json()["status"] == "completed"
    settles(server, before, 90)  # 15 of them were 8 MB each


def test_conversations_that_only_lanes_remember_are_let_go_the_oldest_first(
    serve: Serving,
) -> None:
    server = serve(owners=["alice"], **BOUNDED)
    with server.socket("alice") as socket:
        lanes = [f"lane-{number}" for number in range(20)]
        newest = {}
        for lane in lanes:
            last = socket.turn("x" * 2 * MEGABYTE, stream_id=lane, store=False)
            newest[lane] = last["response"]["id"]
        assert held(server, "links") <= 30 * MEGABYTE
        for lane, kind in ((lanes[0], "error"), (lanes[-1], "response.completed")):
            socket.create("on", stream_id=lane, store=False, previous_response_id=newest[lane])
            assert socket.until_end()[-1]["type"] == kind


def test_a_conversation_larger_than_its_memory_is_refused_before_it_is_read(
    serve: Serving,
) -> None:
    server = serve(owners=["alice"], **BOUNDED)
    with server.http("alice") as alice:
        body: dict[str, Any] = {"input": "x" * 6 * MEGABYTE}
        before = server.resident
        for _ in range(10):
            answer = alice.post(RESPONSES, json=body)
            if answer.status_code != 200:
                break
            body["previous_response_id"] = answer.json()["id"]
        assert answer.status_code in (413, 429)
        assert "of memory" in answer.json()["error"]["message"]
        settles(server, before, 100)
        assert alice.post(RESPONSES, json={"input": "another one"}).status_code == 200


def test_answers_that_nobody_takes_are_bounded_in_bytes(serve: Serving) -> None:
    server = serve(owners=["alice", "bob"], **BOUNDED)
    with server.http("alice") as alice, ExitStack() as plugs:
        body = {"input": "x", "background": True, "instructions": "p" * 5 * MEGABYTE}
        made = alice.post(RESPONSES, json=body).json()["id"]
        eventually(lambda: alice.get(f"{RESPONSES}/{made}").json()["status"] == "completed")
        before = server.resident
        for query in ("", "?stream=true"):
            head = f"GET {RESPONSES}/{made}{query} HTTP/1.1\r\nHost: localhost\r\n"
            head += f"Authorization: {bearer('alice')['Authorization']}\r\n\r\n"
            for _ in range(20):
                plugs.enter_context(server.raw(head.encode()))
        eventually(lambda: held(server, "answers") > 8 * MEGABYTE)
        refused = alice.get(f"{RESPONSES}/{made}")
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
        settles(server, before, 110)  # all forty were 200, and more
        with server.http("bob") as bob:
            assert bob.post(RESPONSES, json={"input": "x"}).status_code == 200
        plugs.close()
        eventually(lambda: held(server, "answers") < MEGABYTE)
        assert alice.get(f"{RESPONSES}/{made}").status_code == 200

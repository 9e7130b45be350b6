"""Bytes and seconds are bounded before a key is looked at and after it, whatever the transport."""

from __future__ import annotations

import json
import random
import signal
import socket as tcp
import struct
from collections.abc import Iterator
from contextlib import ExitStack, suppress

import pytest
from websockets.exceptions import InvalidStatus

from tests.attacks.conftest import SCRIPT, Serving
from tests.attacks.plugs import FLOOD, create, frame, handshake, heard, plug, request
from tests.support.http import bearer
from tests.support.process import Serve
from tests.support.socket import Socket
from tests.support.waiting import PATIENCE_S, eventually

LONG = {"head_seconds": 3600, "message_seconds": 3600, "slow_reader_seconds": 1}
BOUNDS = {"connections": 60, "connections_per_address": 30, "connections_per_key": 8}
BYTES = {"unfinished_megabytes": 3, "unfinished_megabytes_per_key": 2}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serve]:
    """With few connections; an attacker comes from 127.0.0.2. Deadlines are long, so that all that
    a test needs at once is there at once; ``test_deadlines.py`` is about them."""
    with Serve(
        tmp_path_factory.mktemp("transport"),
        FLOOD + SCRIPT,
        owners=["ada", "ben"],
        engine={"slots": 2},
        tables={
            "limits": LONG | BOUNDS | BYTES,
            "server": {"trusted_proxies": ["127.0.0.1/32"]},
            "store": {"path": ":memory:"},
        },
    ) as running:
        yield running
    assert running.errors == []


@pytest.fixture(autouse=True)
def _calm(server: Serve) -> Iterator[None]:
    """What one attack took must be given back before the next, and nobody else be disturbed."""
    yield
    eventually(lambda: _busy(server) == 0)
    with server.http("ben") as ben:
        answer = ben.post("/v1/responses", json={"input": "hi"}, timeout=PATIENCE_S)
        assert answer.json()["status"] == "completed"


def _busy(server: Serve) -> float:
    running = server.metric("vivace_engine_running", "ben")
    return running + server.metric("vivace_connections", "ben") - 1  # the one that asks


# -- readers that take nothing --------------------------------------------------------------------


def test_pings_of_one_who_reads_no_answer_cost_no_memory(server: Serve) -> None:
    with plug(server, handshake(), buffer=4096) as one:
        one.recv(12)
        before = largest = server.resident
        with suppress(OSError):  # it is dropped, sooner or later
            for _ in range(300):
                one.sendall(frame(b"x" * 125, 9) * 500)
                largest = max(largest, server.resident)
        assert largest < before + 5_000_000


def test_a_replay_ends_when_its_reader_has_left(server: Serve) -> None:
    with server.http("ada") as ada:
        asked = create("stall", background=True, store=True)
        kept = ada.post("/v1/responses", json=asked).json()["id"]
        for _ in range(8):  # as many as the key may have
            with plug(server, request(f"GET /v1/responses/{kept}?stream=true")) as one:
                one.recv(12)
        eventually(lambda: ada.get("/v1/models").status_code == 200)
        assert ada.post(f"/v1/responses/{kept}/cancel").json()["status"] == "cancelled"


def test_a_client_that_pipelines_and_leaves_frees_its_slot(server: Serve) -> None:
    asked = request("POST /v1/responses", create("endless", stream=True))
    with plug(server, asked + request("GET /healthz")) as one:
        one.recv(12)
        assert server.metric("vivace_engine_running", "ben") == 1


def test_garbage_behind_a_stream_ends_it_quietly(server: Serve) -> None:
    asked = request("POST /v1/responses", create("endless", stream=True))
    for _ in range(5):
        with plug(server, asked) as one:
            one.recv(12)
            one.sendall(b"\0garbage\r\n\r\n")
            eventually(lambda: server.metric("vivace_engine_running", "ben") == 0)


def test_sigterm_waits_for_nobody_who_takes_nothing(serve: Serving) -> None:
    server = serve(FLOOD, drain=0.5, tables={"limits": LONG | {"slow_reader_seconds": 3600}})
    asked = request("POST /v1/responses", create("flood", stream=True))
    socket = frame(json.dumps({"type": "response.create", **create("flood")}).encode())
    half = request("POST /v1/responses", create("hi"))[:-3]
    with (
        plug(server, asked, buffer=4096),
        plug(server, handshake(), buffer=4096) as one,
        plug(server, half),
        plug(server, half[:20]),
    ):
        one.recv(12)
        one.sendall(socket)
        eventually(lambda: server.metric("vivace_engine_running") == 2)
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(PATIENCE_S) == 0
    assert server.errors == []


# -- those who do not say what they want ----------------------------------------------------------


def test_what_is_not_whole_is_bounded_for_a_key_and_for_all(server: Serve) -> None:
    half = b'{"type": "response.create", "input": "' + b"x" * 1_500_000
    fragment = frame(half, fin=False)
    later = struct.pack("!H", 1013)
    with ExitStack() as stack:

        def begin(owner: str) -> tcp.socket:
            one = stack.enter_context(plug(server, handshake(owner)))
            one.recv(500)
            one.sendall(fragment)
            return one

        begin("ada")
        eventually(lambda: server.metric("vivace_unfinished_bytes", "ben") >= 1_500_000)
        assert later + b"This key sends more" in heard(begin("ada"))
        assert later + b"This server receives as much" in heard(begin("ben"))
        with server.http("ada") as ada:
            answer = ada.post("/v1/responses", content=half)
        assert answer.status_code == 429
        assert answer.json()["error"]["code"] == "too_much_unfinished"
    eventually(lambda: server.metric("vivace_unfinished_bytes", "ben") == 0)


@pytest.mark.parametrize(
    "asked",
    [
        handshake().replace(b"GET", b"POST", 1),
        handshake().replace(b"key: ", b"key: \xff"),
        handshake().replace(b"version: 13", b"version: \xff"),
        handshake().replace(b"connection: upgrade", b"connection: upgrade, \xff"),
        request("POST /v1/responses", create("hi", stream=True)) + handshake(),
    ],
    ids=["POST", "key", "version", "connection", "behind another request"],
)
def test_a_handshake_that_cannot_be_read_is_answered(server: Serve, asked: bytes) -> None:
    with plug(server, asked) as one:
        assert heard(one).startswith(b"HTTP/1.1 40")


def test_requests_are_pipelined_up_to_a_bound(server: Serve) -> None:
    ask = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n"
    last = ask.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n")
    with plug(server, ask * 63 + last) as one:
        assert heard(one).count(b"HTTP/1.1 200 ") == 64
    with plug(server, ask * 10_000) as one:
        assert b"More than 64 requests" in heard(one)


def test_a_body_in_tiny_chunks_is_not_read_to_its_end(server: Serve) -> None:
    head = request("POST /v1/responses").replace(
        b"content-length: 0", b"transfer-encoding: chunked"
    )
    with plug(server, head + b"1\r\nx\r\n" * 50_000) as one:
        answer = heard(one)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"less than 64 bytes" in answer


def test_nothing_that_was_once_a_request_is_an_error_of_ours(server: Serve) -> None:
    """Requests with bytes changed, added, taken and repeated; the log is looked at in the end."""
    chance = random.Random(14)
    whole = [
        request("POST /v1/responses", create("hi")),
        request("POST /v1/responses", create("hi", stream=True)),
        request("GET /v1/models"),
        handshake() + frame(b"{}"),
        handshake().replace(b"upgrade: websocket", b"upgrade: h2c"),
        request("PUT /x").replace(b"content-length: 0", b"transfer-encoding: chunked") + b"1\r\nx",
        b"CONNECT a:1 HTTP/1.1\r\nhost: localhost\r\n\r\n",
    ]
    for _ in range(10):
        with ExitStack() as stack:
            for _ in range(25):
                broken = bytearray(chance.choice(whole))
                for _ in range(chance.randrange(4)):
                    at = chance.randrange(len(broken) + 1)
                    other = [chance.randbytes(9), bytes(broken[:at]), chance.choice(whole)]
                    broken[at : at + chance.randrange(20)] = chance.choice(other)
                stack.enter_context(plug(server, bytes(broken), attacker=False))
        eventually(lambda: server.metric("vivace_connections", "ben") == 1)


# -- heads --------------------------------------------------------------------------------------


def test_sixty_megabytes_of_header_stall_nobody(server: Serve) -> None:
    with plug(server, b"GET / HTTP/1.1\r\nx: ") as one, server.http() as http:
        before = server.resident
        with suppress(OSError):
            for _ in range(60_000_000 // 2**20):
                one.sendall(b"a" * 2**20)
                assert http.get("/healthz").status_code == 200
    assert server.resident < before + 10_000_000


@pytest.mark.parametrize(
    "head",
    [
        b"GET /healthz HTTP/1.1\r\nx: " + b"a" * 70_000 + b"\r\n\r\n",
        b"GET /healthz?" + b"a" * 70_000 + b" HTTP/1.1\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\n" + b"x: y\r\n" * 129 + b"\r\n",
        b"GET /healthz HTTP/1.1\r\n" + b"x: " + b"y" * 1000 + b"\r\n" + b"x: y\r\n" * 20_000,
        b"GET /healthz HTTP/1.1\r\nx" + b"x" * 400_000,
        b"POST /healthz HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n0\r\n" + b"x: y\r\n" * 200,
        b"POST /healthz HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n0\r\nx" + b"x" * 400_000,
        b"POST /healthz HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n1;" + b"x" * 400_000,
    ],
    ids=["value", "url", "many", "very many", "name", "trailers", "trailer", "chunk extension"],
)
def test_a_head_is_bounded_in_all_its_parts(server: Serve, head: bytes) -> None:
    with plug(server, head) as one:
        answer = heard(one)
    assert b"HTTP/1.1 431 " in answer, answer[:300]
    assert b"headers are more than this server takes" in answer


def test_a_trailer_is_no_header(server: Serve) -> None:
    """Though all of the request came at once, before anything of it was looked at."""
    body = json.dumps(create("hi", store=False)).encode()
    chunks = b"%x\r\n%b\r\n0\r\n" % (len(body), body)
    whole = request("POST /v1/responses").replace(
        b"content-length: 0", b"transfer-encoding: chunked\r\nconnection: close"
    )
    key = next(line for line in whole.split(b"\r\n") if line.startswith(b"Authorization"))
    with plug(server, whole + chunks + b"idempotency-key: k\r\n\r\n") as one:
        assert heard(one).startswith(b"HTTP/1.1 200 ")  # with a key it would have to be stored
    keyless = whole.replace(key + b"\r\n", b"")
    with plug(server, keyless + chunks + key + b"\r\n\r\n") as one:
        assert heard(one).startswith(b"HTTP/1.1 401 ")


# -- how many -----------------------------------------------------------------------------------


def test_an_address_has_so_many_connections_and_a_trusted_proxy_any_number(server: Serve) -> None:
    with ExitStack() as stack:
        for _ in range(30):
            stack.enter_context(plug(server))
        with plug(server, b"GET /healthz HTTP/1.1\r\n\r\n") as one:
            answer = heard(one)
        assert answer.startswith(b"HTTP/1.1 429 ")
        assert b"retry-after: 5\r\n" in answer
        assert b"connections_per_address" in answer
        trusted = [stack.enter_context(plug(server, attacker=False)) for _ in range(25)]
        with plug(server, b"GET /healthz HTTP/1.1\r\n\r\n", attacker=False) as one:
            assert one.recv(100).startswith(b"HTTP/1.1 200 ")
        for one in trusted:
            one.close()


def test_all_connections_count_half_open_ones_too(server: Serve) -> None:
    with ExitStack() as stack:
        for _ in range(60):
            stack.enter_context(plug(server, attacker=False))
        for asked in (b"GET /healthz HTTP/1.1\r\n\r\n", handshake()):
            with plug(server, asked, attacker=False) as one:
                answer = heard(one)
            assert answer.startswith(b"HTTP/1.1 503 ")
            assert b"retry-after: 5\r\n" in answer


def test_a_key_has_so_many_connections_and_another_has_its_own(server: Serve) -> None:
    with ExitStack() as stack:
        for _ in range(8):
            stack.enter_context(server.socket("ada"))
        with pytest.raises(InvalidStatus) as refused:
            server.socket("ada")
        assert refused.value.response.status_code == 429
        with server.http("ada") as ada:
            answer = ada.get("/v1/models")
        assert answer.status_code == 429
        assert answer.headers["retry-after"] == "1"
        assert "connections_per_key" in answer.json()["error"]["message"]
        with server.http("ben") as ben, server.http() as stranger:
            assert ben.get("/v1/models").status_code == 200
            assert stranger.get("/healthz").status_code == 200


def test_a_refused_websocket_is_no_error_of_ours(server: Serve) -> None:
    before = len(server.log)
    for headers in ({}, {"authorization": "Bearer wrong"}, {**bearer("ada"), "origin": "http://x"}):
        with pytest.raises(InvalidStatus):
            Socket(server.url, headers)
    with pytest.raises(InvalidStatus):
        Socket(f"{server.url}/nothing", bearer("ada"))
    eventually(lambda: server.log.count("refused request_id", before) == 4)
    assert server.errors == []

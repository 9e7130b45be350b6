"""A key that is taken back is worth nothing from then on, whatever it holds open."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import httpx
import pytest
from websockets.exceptions import ConnectionClosed

from tests.attacks.conftest import SCRIPT, Serving
from tests.support.http import RESPONSES, sse
from tests.support.keyring import Keyring
from tests.support.process import Serve
from tests.support.socket import Socket
from tests.support.waiting import PATIENCE_S, eventually


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serve]:
    lump = f'{{ do = "say", text = "{" " * 200_000}", times = 10 }}'  # five times, with its end
    flood = f'[[replies]]\nwhen = "flood"\nthen = [{lump}]\n'
    folder = tmp_path_factory.mktemp("keys")
    with Serve(folder, flood + SCRIPT, owners=["alice"], engine={"slots": 4}) as running:
        yield running


def follow(http: httpx.Client, **body: Any) -> dict[str, Any]:
    """Return the last event of a stream."""
    with http.stream("POST", RESPONSES, json={"stream": True, **body}) as answer:
        *_, last = sse(answer.iter_lines())
    return last


def read_on(socket: Socket) -> int:
    """Return the code it is closed with."""
    with pytest.raises(ConnectionClosed) as closed:
        socket.until("never")
    assert closed.value.rcvd is not None
    return closed.value.rcvd.code


def in_use(server: Serve) -> float:
    return server.metric("vivace_engine_running", "alice")


def test_all_that_a_key_holds_ends_when_it_is_revoked(server: Serve) -> None:
    """None of it would end by itself."""
    keyring = Keyring(server.folder)
    headers = bearer(keyring.create("mallory"))
    keyring.create("carol")
    with ExitStack() as open_, ThreadPoolExecutor() as pool:
        http = open_.enter_context(server.http(headers=headers))
        eventually(lambda: http.get("/v1/models").status_code == 200)
        idle, busy, unread = (Socket(server.url, headers, receive_buffer=4096) for _ in range(3))
        open_.callback(unread.vanish)
        unread.create("endless")
        busy.create("endless")
        parent = Socket(server.url, headers)
        parent.create("endless", background=True)
        parent.until("response.output_text.delta")
        parent.vanish()
        streams = [pool.submit(follow, http, input="endless")]
        eventually(lambda: in_use(server) == 4)
        streams.append(pool.submit(follow, http, input="endless", background=True))  # it must wait
        eventually(lambda: server.metric("vivace_queue_length", "alice") == 1)
        sockets = [pool.submit(read_on, socket) for socket in (idle, busy)]

        keyring.revoke("mallory")
        for stream in streams:
            last = stream.result(PATIENCE_S)
            assert last["response"]["error"]["code"] == "invalid_api_key"
        assert [each.result(PATIENCE_S) for each in sockets] == [1008, 1008]
        eventually(lambda: in_use(server) == 0)
        assert http.get("/v1/models").status_code == 401
    with server.http("alice") as alice:
        assert alice.post(RESPONSES, json={"input": "hi"}).json()["status"] == "completed"
    assert "viv_" not in server.log


def test_a_client_that_does_not_read_keeps_no_stream_of_a_revoked_key_open(server: Serve) -> None:
    keyring = Keyring(server.folder)
    headers = bearer(keyring.create("trudy"))
    with server.http(headers=headers) as http, ExitStack() as open_:
        eventually(lambda: http.get("/v1/models").status_code == 200)
        made = http.post(RESPONSES, json={"input": "flood", "background": True}).json()["id"]
        key = f"Host: localhost\r\nAuthorization: {headers['Authorization']}\r\n"
        body = '{"input": "flood", "stream": true}'
        for words in (
            f"POST {RESPONSES} HTTP/1.1\r\n{key}Content-Length: {len(body)}\r\n\r\n{body}",
            f"GET {RESPONSES}/{made}?stream=true HTTP/1.1\r\n{key}\r\n",
        ):
            open_.enter_context(server.raw(words.encode(), receive_buffer=4096))
        eventually(lambda: http.get(f"{RESPONSES}/{made}").json()["status"] == "completed")
        stuck = server.metric("vivace_connections", "alice")
        keyring.revoke("trudy")
        eventually(lambda: server.metric("vivace_connections", "alice") <= stuck - 2)


def test_a_thief_with_an_open_socket_is_out_when_the_key_is_made_anew(server: Serve) -> None:
    keyring = Keyring(server.folder)
    stolen = bearer(keyring.create("bob"))
    with server.http(headers=stolen) as http:
        eventually(lambda: http.get("/v1/models").status_code == 200)
        old = http.post(RESPONSES, json={"input": "old"}).json()["id"]
        thief = Socket(server.url, stolen)
    keyring.revoke("bob")
    with server.http(headers=bearer(keyring.create("bob"))) as bob:
        eventually(lambda: bob.get("/v1/models").status_code == 200)
        assert read_on(thief) == 1008
        assert bob.get(f"{RESPONSES}/{old}").status_code == 404
        with pytest.raises(ConnectionClosed):
            thief.turn("Go on.")


def test_a_broken_file_of_keys_ends_nothing_and_lets_nobody_in(serve: Serving) -> None:
    server = serve(owners=["alice"])
    keyring = Keyring(server.folder)
    headers = bearer(keyring.create("bob"))
    with server.http(headers=headers) as http:
        eventually(lambda: http.get("/v1/models").status_code == 200)
        with Socket(server.url, headers) as socket:
            socket.create("stall")
            socket.until("response.output_text.delta")
            right = keyring.path.read_bytes()
            keyring.path.write_bytes(right[: len(right) // 2])
            eventually(lambda: "is not a file of keys" in server.log)
            assert http.get("/v1/models").status_code == 200
            assert server.http(headers=bearer("viv_none")).get("/v1/models").status_code == 401
            keyring.path.write_bytes(right)
            socket.create("hi", stream_id="second")
            assert socket.until_end()[-1]["type"] == "response.completed"
            keyring.path.unlink()
            assert read_on(socket) == 1008
        assert http.get("/v1/models").status_code == 401

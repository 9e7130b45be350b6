"""The process under attack can be reached and measured as the attacks expect."""

from __future__ import annotations

from contextlib import ExitStack

from tests.attacks.conftest import Serving
from tests.support.waiting import eventually


def test_each_owner_has_a_key_and_a_stranger_has_none(serve: Serving) -> None:
    server = serve(owners=["alice", "bob"])
    with server.http("alice") as alice, server.http("bob") as bob, server.http() as stranger:
        answer = alice.post("/v1/responses", json={"input": "hi"}).json()
        assert answer["status"] == "completed"
        assert alice.get(f"/v1/responses/{answer['id']}").status_code == 200
        assert bob.get(f"/v1/responses/{answer['id']}").status_code == 404
        assert stranger.get("/v1/models").status_code == 401
    assert server.metric("vivace_turns_total", "alice", status="completed") == 1


def test_what_a_client_takes_is_seen_and_seen_to_be_given_back(serve: Serving) -> None:
    server = serve(tables={"store": {"path": ":memory:"}})
    with ExitStack() as clients:
        before = server.open_files
        for _ in range(5):
            socket = clients.enter_context(server.socket())
            assert socket.turn("hi")["type"] == "response.completed"
        assert server.open_files >= before + 4  # the one that asked /readyz may be gone
        assert server.metric("vivace_websocket_connections") == 5
        assert server.metric("vivace_asyncio_tasks") > 5
        assert server.resident > 10_000_000
    eventually(lambda: server.open_files <= before)
    with server.raw(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n") as plug:
        assert plug.recv(100).startswith(b"HTTP/1.1 200")
    assert not server.faults
    assert not (server.folder / "vivace.db").exists()  # the tables reached the gateway

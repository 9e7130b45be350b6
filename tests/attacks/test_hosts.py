"""DNS rebinding: a page whose name was made to point here is, to its browser, this server's own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.process import Serve

UPGRADE = (
    "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
)


def status(server: Serve, line: str, headers: str) -> int:
    with server.raw(f"{line} HTTP/1.1\r\n{headers}\r\n".encode()) as plug:
        return int(plug.recv(4096).split()[1])


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serve]:
    with Serve(tmp_path_factory.mktemp("hosts")) as running:
        yield running


def test_a_page_that_points_its_name_here_reads_nothing_of_a_keyless_server(server: Serve) -> None:
    refused = server.log.count("code=host_not_allowed")
    ours, theirs = (f"Host: {name}:{server.port}\r\n" for name in ("localhost", "evil.example"))
    for path in ("/v1/models", "/metrics", "/healthz", "/v1/responses/resp_1", "http://localhost/"):
        assert status(server, f"GET {path}", theirs) == 403, path
    assert status(server, "POST /v1/responses", theirs + "Content-Length: 0\r\n") == 403
    assert status(server, "OPTIONS /v1/responses", theirs + "Origin: null\r\n") == 403
    assert status(server, "GET /v1/responses", theirs + UPGRADE) == 403
    assert status(server, "GET /v1/models", ours) == 200
    assert status(server, "GET /v1/responses", ours + UPGRADE) == 101
    assert server.log.count("code=host_not_allowed") - refused == 8


def test_a_second_host_does_not_hide_the_first(server: Serve) -> None:
    ours, theirs = "Host: localhost\r\n", "Host: evil.example\r\n"
    for both in (ours + theirs, theirs + ours):
        assert status(server, "GET /v1/models", both) in (400, 403)
        assert status(server, "GET /v1/responses", both + UPGRADE) in (400, 403)

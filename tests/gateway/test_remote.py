"""Nothing leaves this machine without ``allow_remote``, whatever rule would send it away."""

from __future__ import annotations

import socket
import socketserver
import threading
from collections.abc import Callable, Iterator
from typing import Any

import psutil
import pytest

from tests.support.http import RESPONSES
from tests.support.server import RunningGateway, configuration
from tests.support.waiting import eventually
from vivace.engines.scripted import Die, Reply, Say, ScriptedEngine, Stall
from vivace.errors import ConfigError


def outside_address() -> str:
    """An address of this machine that is not its loopback."""
    for addresses in psutil.net_if_addrs().values():
        for each in addresses:
            if each.family == socket.AF_INET and not each.address.startswith("127."):
                return each.address
    pytest.skip("this machine has no address but its loopback")


class Elsewhere:
    """A machine that is not ours, and what it has heard."""

    def __init__(self) -> None:
        heard = self.heard = list[bytes]()

        class Handler(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                heard.append(self.request.recv(65536))

        self._server = socketserver.ThreadingTCPServer((outside_address(), 0), Handler)
        self._server.daemon_threads = True
        host, port = self._server.server_address[:2]
        self.url = f"http://{host!s}:{port}/v1"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def elsewhere() -> Iterator[Elsewhere]:
    machine = Elsewhere()
    yield machine
    machine.close()


def post(gateway: RunningGateway, path: str = RESPONSES, **body: Any) -> dict[str, Any]:
    answer: dict[str, Any] = gateway.http.post(path, json={"input": "Hi", **body}).json()
    return answer


def own(gateway: RunningGateway) -> ScriptedEngine:
    return gateway.engine


def by_effort(gateway: RunningGateway) -> None:
    post(gateway, model="auto", reasoning={"effort": "high"})


def by_length(gateway: RunningGateway) -> None:
    post(gateway, model="auto", input="word " * 20_000)


def by_past_failure(gateway: RunningGateway) -> None:
    cut = post(gateway, model="auto", max_output_tokens=1)
    post(gateway, model="auto", previous_response_id=cut["id"])


def by_background(gateway: RunningGateway) -> None:
    post(gateway, model="auto", background=True)


def by_compaction(gateway: RunningGateway) -> None:
    conversation = [{"role": "user", "content": "Hi"}]
    post(gateway, f"{RESPONSES}/compact", model="deep", input=conversation)


def by_spilling_over(gateway: RunningGateway) -> None:
    own(gateway).play([Reply(then=(Say("word"), Stall(3600)))])
    threads = [
        threading.Thread(target=lambda: post(gateway, model="both", max_output_tokens=5))
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    places = gateway.gateway.dispatch._places

    def has_come_back() -> bool:
        """Elsewhere nobody answers, so that the second waits here in the end."""
        return any(not each.started.done() for each in [*places.values()])

    eventually(lambda: has_come_back() or not all(thread.is_alive() for thread in threads))
    own(gateway).play([Reply(then=(Say("word"),))])
    gateway.go_on()
    for thread in threads:
        thread.join()


def by_trying_again(gateway: RunningGateway) -> None:
    own(gateway).play([Reply(then=(Die("killed"),))])
    post(gateway, model="both")


RULES = [
    by_effort,
    by_length,
    by_past_failure,
    by_background,
    by_compaction,
    by_spilling_over,
    by_trying_again,
]
every_rule = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
Rule = Callable[[RunningGateway], None]


def gateway_with(url: str, *, allowed: bool) -> RunningGateway:
    scripted = {"name": "own", "kind": "scripted", "model": "own", "rate": 2000, "slots": 1}
    rented = {"name": "rented", "kind": "openai", "model": "rented", "url": url, "context": 99_999}
    tiers = [
        {"name": "fast", "engines": ["own"]},
        {"name": "deep", "engines": ["rented"]},
        {"name": "both", "engines": ["own", "rented"], "spill": True},
    ]
    engines = [scripted, rented | ({"allow_remote": True} if allowed else {})]
    return RunningGateway(config=configuration(engines=engines, tiers=tiers))


@every_rule
def test_no_rule_sends_a_byte_away_without_leave(rule: Rule, elsewhere: Elsewhere) -> None:
    with (
        pytest.raises(ConfigError, match="allow_remote"),
        gateway_with(elsewhere.url, allowed=False) as gateway,
    ):
        rule(gateway)
    assert elsewhere.heard == []


@every_rule
def test_with_leave_each_of_these_rules_does(rule: Rule, elsewhere: Elsewhere) -> None:
    """So that the test above shows something."""
    with gateway_with(elsewhere.url, allowed=True) as gateway:
        rule(gateway)
        eventually(lambda: len(elsewhere.heard) > 0)


def test_an_endpoint_of_ours_cannot_send_us_away(elsewhere: Elsewhere) -> None:
    """A local server that answers with a redirect is not followed."""

    class Redirect(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.recv(65536)
            answer = f"HTTP/1.1 307 Go\r\nLocation: {elsewhere.url}\r\nContent-Length: 0\r\n\r\n"
            self.request.sendall(answer.encode())

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Redirect) as local:
        threading.Thread(target=local.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{local.server_address[1]}/v1"
        with gateway_with(url, allowed=False) as gateway:
            assert post(gateway, model="deep")["status"] == "failed"
        local.shutdown()
    assert elsewhere.heard == []
